"""The benchmarks by name: their licence, where their file is had, how it is read. Nothing of theirs is kept here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.conversations.agentbench import SPLITS, agentbench_of, read_agentbench
from eval.conversations.locomo import read_locomo
from eval.conversations.longmemeval import read_longmemeval
from eval.conversations.records import Conversation
from eval.datasets.hub import HubPlace, Row, file_of, rows_of
from plume_memory.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark of conversations."""

    name: str
    title: str
    licence: str
    origin: str
    """Where its file is had by hand."""
    read: Callable[[Path], list[Conversation]]
    has_gold: bool = True
    """Whether it names the turns that hold an answer."""
    parts: tuple[str, ...] = ()
    """What `part` may name on the hub; the first where it is not named. None: it is not on the hub."""


_LONGMEMEVAL = {
    "s": "longmemeval_s_cleaned.json",
    "m": "longmemeval_m_cleaned.json",
    "oracle": "longmemeval_oracle.json",
}
BENCHMARKS = (
    Benchmark(
        "locomo",
        "LoCoMo",
        "CC BY-NC 4.0: for evaluation, not for sale, and nothing of it in this project",
        "github.com/snap-research/locomo, data/locomo10.json",
        read_locomo,
    ),
    Benchmark(
        "longmemeval",
        "LongMemEval",
        "MIT",
        "huggingface.co/datasets/xiaowu0162/longmemeval-cleaned",
        read_longmemeval,
        parts=tuple(_LONGMEMEVAL),
    ),
    Benchmark(
        "memoryagentbench",
        "MemoryAgentBench",
        "MIT; its parts are made from other data sets, each under its own",
        "huggingface.co/datasets/ai-hyz/MemoryAgentBench",
        read_agentbench,
        has_gold=False,
        parts=SPLITS,
    ),
)


def benchmark_of(name: str) -> Benchmark:
    """By its name.

    Raises:
        InvalidInput: there is none of that name.
    """
    found = next((one for one in BENCHMARKS if one.name == name), None)
    if found is None:
        raise InvalidInput(f"Unknown benchmark {name!r}; known are {', '.join(one.name for one in BENCHMARKS)}.")
    return found


def load_conversations(
    benchmark: Benchmark,
    file: Path | None,
    part: str | None = None,
    *,
    fetch_file: Callable[[HubPlace], Path] = file_of,
    fetch_rows: Callable[[HubPlace], Sequence[Row]] = rows_of,
) -> list[Conversation]:
    """From a local file, or from the Hugging Face hub (or its local cache).

    Args:
        benchmark: whose.
        file: of the form that its loader names.
        part: of the hub's repository; see `Benchmark.parts`.
        fetch_file: brings a file of the hub.
        fetch_rows: reads a split of the hub.

    Raises:
        InvalidInput: file and part together, an unknown part, no file where the hub has none, or another form.
        HubUnreachable: no file, and the hub cannot be reached.
        MissingExtra: no file, and `datasets` is not installed.
    """
    if file is not None:
        if part is not None:
            raise InvalidInput("--part names what is fetched from the hub and --file a local file; use one of them.")
        return benchmark.read(file.expanduser())
    if not benchmark.parts:
        raise InvalidInput(f"{benchmark.title} is not on the hub: fetch {benchmark.origin} and pass it with --file.")
    chosen = part or benchmark.parts[0]
    if chosen not in benchmark.parts:
        raise InvalidInput(f"{benchmark.title} has no part {chosen!r}; it has {', '.join(benchmark.parts)}.")
    repository = benchmark.origin.removeprefix("huggingface.co/datasets/")
    if benchmark.name == "longmemeval":
        return benchmark.read(fetch_file(HubPlace(repository, chosen, file=_LONGMEMEVAL[chosen])))
    return agentbench_of(fetch_rows(HubPlace(repository, chosen)), f"{repository} ({chosen})")

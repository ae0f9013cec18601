"""The engine over a real Doc-to-LoRA network (the golden checkpoints), and how histories are cut."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from plume_memory import Engine, MethodSettings, ParametricMemory
from plume_memory.errors import CheckpointError, ParameterizerError
from plume_memory.hypernet.d2l.checkpoint import convert
from plume_memory.hypernet.d2l.loading import load_d2l_parameterizer
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.parameterizer import load_fast_weight_parameterizer
from plume_memory.lora.files import from_bytes
from plume_memory.model.base import BaseModel
from plume_memory.records import NOTICE, History, Transition
from plume_memory.testing import byte_tokenizer, tiny_base, tiny_engine

GOLDEN = Path(os.environ.get("PLUME_FIXTURES", Path(__file__).parents[2] / "shared" / "fixtures" / "d2l"))
needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason=f"no golden checkpoints at {GOLDEN}; set PLUME_FIXTURES to the folder that holds qwen3/"
)


def golden_base(kind: str) -> BaseModel:
    folder = GOLDEN / kind / "base"
    attention = "eager" if kind == "gemma2" else "sdpa"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention)
    return BaseModel.wrap(model, byte_tokenizer(), name=kind, fingerprint=kind)


@needs_golden
@pytest.mark.parametrize("kind", ["qwen3", "gemma2", "llama"])
def test_a_memory_on_doc_to_lora_from_checkpoint_to_answer(tmp_path: Path, kind: str) -> None:
    """α ΔW_full + β (ΔW_full − ΔW_old) with the checkpoint's bias once, against H of both histories made alone."""
    base = golden_base(kind)
    folder = convert(GOLDEN / kind / "pytorch_model.bin", tmp_path / "converted")
    settings = MethodSettings(max_new_tokens=6, chunking="near_equal")
    parameterizer = load_d2l_parameterizer(base, folder, settings)
    with ParametricMemory.open(
        "alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=Engine(base, parameterizer, settings)
    ) as memory:
        memory.update("Alice lives in Bern.")
        memory.update("Alice lives in Zurich.")
        found = memory.at().global_adapter
        answer = memory.ask("Where does Alice live?")
        past = memory.at(version=1).ask("Where does Alice live?")
        full, old = parameterizer.parameterize([memory.at().text, "Alice lives in Bern."])

    assert found is not None
    assert parameterizer.bias is not None
    for layer in range(4):
        h_full, h_old, bias = (f.delta("mlp.down_proj", layer) for f in (full, old, parameterizer.bias))
        expected = (h_full + bias) + 0.75 * ((h_full + bias) - (h_old + bias))
        torch.testing.assert_close(found.delta("mlp.down_proj", layer), expected, atol=1e-4, rtol=1e-4)
    assert found.rank == 8 * 3
    assert answer.version == 2
    assert answer.trace[0].js > 0
    assert past.version == 1


@needs_golden
def test_both_chunkings_agree_up_to_one_chunk_and_append_only_keeps_closed_windows(tmp_path: Path) -> None:
    base = golden_base("qwen3")
    folder = convert(GOLDEN / "qwen3" / "pytorch_model.bin", tmp_path / "converted")
    transitions = [Transition(i + 1, f"Fact {i}: " + "x" * 40) for i in range(4)]
    engines = []
    for chunking in ("near_equal", "append_only"):
        settings = MethodSettings(chunking=chunking, chunk_tokens=256)  # type: ignore[arg-type]
        engines.append(Engine(base, load_d2l_parameterizer(base, folder, settings), settings))
    near_equal, append_only = engines

    assert near_equal.windows(transitions[:1]) == append_only.windows(transitions[:1])
    grown = [append_only.windows(transitions[:n]) for n in range(1, 5)]
    assert len(grown[-1]) > 1
    for earlier, later in pairwise(grown):
        assert later[: len(earlier) - 1] == earlier[:-1], "a closed window never changes"
    assert "\n".join(f"{NOTICE}\n{w}" for w in grown[-1]) == "\n".join(f"{NOTICE}\n{t.text}" for t in transitions), (
        "the windows hold every transition once, in order"
    )


@needs_golden
def test_a_hypernetwork_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = convert(GOLDEN / "qwen3" / "pytorch_model.bin", tmp_path / "converted")

    with pytest.raises(ParameterizerError, match="made for a model of"):
        load_d2l_parameterizer(tiny_base("llama"), folder, MethodSettings())


def test_a_folder_that_is_no_hypernetwork_is_refused(tmp_path: Path) -> None:
    base = tiny_base("llama")
    base.model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)

    with pytest.raises(CheckpointError):
        Engine.load(str(tmp_path), hypernetwork=str(tmp_path), device="cpu")


def test_the_fingerprint_follows_model_parameterizer_and_settings() -> None:
    prints = {
        tiny_engine().fingerprint,
        tiny_engine("qwen3").fingerprint,
        tiny_engine(bias=True).fingerprint,
        tiny_engine(settings=MethodSettings(beta=0.5)).fingerprint,
    }

    assert len(prints) == 4
    assert tiny_engine().fingerprint in prints


def test_tokens_are_counted_by_tiktoken_over_the_models_own_vocabulary() -> None:
    """The byte tokenizer has one token per byte, so the count is the UTF-8 length."""
    for text in ("plain", "Zürich", "艾丽丝", " a  b\n"):
        assert tiny_engine().count_tokens(text) == len(text.encode())


@pytest.mark.model
def test_smollm2s_tokens_are_counted_as_its_own_tokenizer_does(smollm2: BaseModel) -> None:
    engine = Engine(smollm2, None)
    for text in ("The year 1987, twice.", "  def f(x):\n\treturn x**2\n\n", "Zürich 艾丽丝 👩‍🚀", "don't  STOP  "):
        assert engine.count_tokens(text) == smollm2.chat.count(text)
        assert engine.count_tokens is not smollm2.chat.count


# --- fast-weight networks: one A for all -----------------------------------------------------------

MODULE = "mlp.down_proj"
ANSWERS = checkpoint.AnswerSettings(alpha=0.9, beta=0.6, lambda_max=2.0, tau=0.2, delta=0.1, unit_tokens=40)


class Kept:
    """A cache that shows what it holds."""

    def __init__(self, place: str = "here") -> None:
        self.place, self.held = place, dict[str, bytes]()

    def fetch(self, key: str, kind: str, build: Callable[[], bytes]) -> bytes:
        if key not in self.held:
            self.held[key] = build()
        return self.held[key]

    def discard(self, key: str) -> None:
        self.held.pop(key, None)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    sizes = FastWeightConfig(hidden_size=32, intermediate_size=64, layers=(1, 2), rank=8, value_width=6, mixer_layer=1)
    folder = tmp_path / "network"
    folder.mkdir()
    checkpoint.save(FastWeightNetwork(sizes), folder, base_model="tiny", max_tokens=30, answers=ANSWERS)
    return folder


def test_an_adapter_of_many_units_keeps_the_networks_rank(network: Path) -> None:
    """Σ weights · Δ(unit) of every unit: α where old and full share it, α + β where it is new."""
    base = tiny_base("llama")
    parameterizer = load_fast_weight_parameterizer(base, network)
    settings = MethodSettings(alpha=0.9, beta=0.6, unit_tokens=40)
    engine = Engine(base, parameterizer, settings)
    before = tuple(Transition(i + 1, f"Fact number {i}: the code of room {i} is {7 * i}, they say.") for i in range(4))
    after = (*before, Transition(5, "A new one: the code of room 2 is 99."))

    found = engine.global_adapter(History("alice", 5, after), Kept())

    assert found is not None
    assert found.rank == 8
    units = {side: [u.text for u in engine.units(side)] for side in (before, after)}
    assert len(units[after]) > 4
    made = {text: parameterizer.parameterize([text])[0] for text in {*units[before], *units[after]}}
    for layer in (1, 2):
        delta = {text: factors.delta(MODULE, layer) for text, factors in made.items()}
        full, old = (sum(delta[text] for text in units[side]) for side in (after, before))
        expected = 0.9 * full + 0.6 * (full - old)
        torch.testing.assert_close(found.delta(MODULE, layer), expected, atol=1e-6, rtol=1e-4)


def test_what_is_cached_holds_no_a(network: Path) -> None:
    base = tiny_base("llama")
    parameterizer = load_fast_weight_parameterizer(base, network)
    cache = Kept()
    for engine in (Engine(base, parameterizer), Engine(base, parameterizer)):  # the second reads what the first kept
        read = engine.factors("The code is 7.", cache)
        assert read.modules[MODULE].A is parameterizer.shared_a[MODULE]

    ((content,),) = (tuple(cache.held.values()),)
    B = parameterizer.parameterize(["The code is 7."])[0].modules[MODULE].B
    assert len(content) < B.nbytes + 1000
    assert torch.equal(from_bytes(content, A=parameterizer.shared_a).modules[MODULE].B, B)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_memory_on_a_trained_network_answers_and_is_updated(tmp_path: Path, network: Path, family: str) -> None:
    base = tiny_base(family)
    settings = MethodSettings(max_new_tokens=4, unit_tokens=40)
    engine = Engine(base, load_fast_weight_parameterizer(base, network), settings)
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        memory.update("Alice lives in Bern.")
        memory.update("Alice lives in Zurich.")
        answer = memory.ask("Where does Alice live?")
        past = memory.at(version=1).ask("Where does Alice live?")

    assert (answer.version, past.version) == (2, 1)
    assert answer.trace[0].js > 0


def test_a_folder_brings_the_settings_it_was_measured_with(tmp_path: Path, network: Path) -> None:
    folder = tmp_path / "base"
    base = tiny_base("llama")
    base.model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)

    engine = Engine.load(str(folder), hypernetwork=str(network), device="cpu", dtype="float32")
    chosen = Engine.load(
        str(folder), hypernetwork=str(network), settings=MethodSettings(beta=0.1), device="cpu", dtype="float32"
    )

    expected = MethodSettings(alpha=0.9, beta=0.6, lambda_max=2.0, tau=0.2, delta=0.1, unit_tokens=40)
    assert engine.settings == expected
    assert chosen.settings == MethodSettings(beta=0.1)
    assert engine.parameterizer is not None
    assert engine.parameterizer.shared_a is not None

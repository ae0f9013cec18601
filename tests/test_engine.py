"""The engine over a real Doc-to-LoRA network (the golden checkpoints), how histories are cut, and its keys."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.errors import CheckpointError, ParameterizerError
from plume_memory.hypernet.d2l.checkpoint import convert
from plume_memory.hypernet.d2l.loading import load_d2l_parameterizer
from plume_memory.model.base import BaseModel
from plume_memory.records import NOTICE, Transition
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
    settings = AnswerPolicy(max_new_tokens=6, chunking="near_equal")
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
        settings = AnswerPolicy(chunking=chunking, chunk_tokens=256)  # type: ignore[arg-type]
        engines.append(Engine(base, load_d2l_parameterizer(base, folder, settings), settings))
    near_equal, append_only = engines

    assert near_equal.segmenter.windows(transitions[:1]) == append_only.segmenter.windows(transitions[:1])
    grown = [append_only.segmenter.windows(transitions[:n]) for n in range(1, 5)]
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
        load_d2l_parameterizer(tiny_base("llama"), folder, AnswerPolicy())


def test_a_folder_that_is_no_hypernetwork_is_refused(tmp_path: Path) -> None:
    base = tiny_base("llama")
    base.model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)

    with pytest.raises(CheckpointError):
        Engine.load(str(tmp_path), hypernetwork=str(tmp_path), device="cpu")


def test_the_fingerprint_follows_model_parameterizer_and_policy() -> None:
    prints = {
        tiny_engine().fingerprint,
        tiny_engine("qwen3").fingerprint,
        tiny_engine(bias=True).fingerprint,
        tiny_engine(policy=AnswerPolicy(beta=0.5)).fingerprint,
    }

    assert len(prints) == 4
    assert tiny_engine().fingerprint in prints


def test_artifacts_that_were_kept_under_another_policy_are_still_found() -> None:
    """Literal keys: what is derived from a text does not depend on how answers are made of it."""
    for one in (tiny_engine(), tiny_engine(policy=AnswerPolicy(retrieval="reader", evidence_units=3))):
        assert one.encoder.factors_key("Alice lives in Bern.") == (
            "3c433c95e12d2412671c039c31348d1cb53e81f07746df8e73d0b301c0fbbe7b"
        )
        assert one.encoder.states_key([1, 2, 3]) == "fb099b61e982ac6099c130d0e92f697ddc4e9bde4c2e8a963d3ece9b394e5458"


def test_tokens_are_counted_by_tiktoken_over_the_models_own_vocabulary() -> None:
    """The byte tokenizer has one token per byte, so the count is the UTF-8 length."""
    for text in ("plain", "Zürich", "艾丽丝", " a  b\n"):
        assert tiny_engine().segmenter.count_tokens(text) == len(text.encode())


@pytest.mark.model
def test_smollm2s_tokens_are_counted_as_its_own_tokenizer_does(smollm2: BaseModel) -> None:
    engine = Engine(smollm2, None)
    for text in ("The year 1987, twice.", "  def f(x):\n\treturn x**2\n\n", "Zürich 艾丽丝 👩‍🚀", "don't  STOP  "):
        assert engine.segmenter.count_tokens(text) == smollm2.chat.count(text)
        assert engine.segmenter.count_tokens is not smollm2.chat.count

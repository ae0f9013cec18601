"""The engine over a real Doc-to-LoRA network (the golden checkpoints), and how histories are cut."""

import json
import math
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from plume_memory import Engine, MethodSettings, ParametricMemory
from plume_memory.errors import CheckpointError, InvalidInput, ParameterizerError
from plume_memory.evidence.route import SHORTLIST, UnitIndex, terms_of
from plume_memory.hypernet.d2l.checkpoint import convert
from plume_memory.hypernet.d2l.loading import load_d2l_parameterizer
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.parameterizer import load_fast_weight_parameterizer
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.lora.files import from_bytes
from plume_memory.model.base import BaseModel
from plume_memory.model.likelihood import question_likelihoods
from plume_memory.model.prefix import KVPrefix, compile_prefix
from plume_memory.records import NOTICE, History, Transition, Unit, join_units
from plume_memory.testing import HashParameterizer, byte_tokenizer, tiny_base, tiny_engine

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


def test_what_was_kept_before_the_likelihood_router_came_is_still_found() -> None:
    """Literal keys of that release: LangChain's caches go by the fingerprint, artifacts by the others."""
    engine = tiny_engine()
    chosen = tiny_engine(settings=MethodSettings(router="likelihood", evidence_units=3))

    assert engine.fingerprint == "58bef07f587d72d2ca4f6c02d4e78a9982fa049b61c3f097018325e58ee5e3d0"
    for one in (engine, chosen):
        assert one.factors_key("Alice lives in Bern.") == (
            "3c433c95e12d2412671c039c31348d1cb53e81f07746df8e73d0b301c0fbbe7b"
        )
        assert one._prefix_key([1, 2, 3]) == "fb099b61e982ac6099c130d0e92f697ddc4e9bde4c2e8a963d3ece9b394e5458"
    others = (MethodSettings(router="likelihood"), MethodSettings(evidence_units=2), MethodSettings())
    assert len({tiny_engine(settings=one).fingerprint for one in others}) == 3


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


def test_discard_deletes_what_the_predecessor_was_derived_from_too() -> None:
    """Packs of the history before the newest text differ from those of the whole: both are halves of ΔW_g."""
    engine, cache = tiny_engine(), Kept()
    history = History("ann", 2, (Transition(1, "Ann lives in Bern."), Transition(2, "Ann lives in Zug.")))
    engine.global_adapter(history, cache)
    assert len(cache.held) == 2
    engine.discard(history, cache)
    assert cache.held == {}


@pytest.fixture
def network(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    sizes = FastWeightConfig(hidden_size=32, intermediate_size=64, layers=(1, 2), rank=8, value_width=6, mixer_layer=1)
    folder = tmp_path / "network"
    folder.mkdir()
    checkpoint.save(FastWeightNetwork(sizes), folder, base_model="tiny", max_tokens=30, answers=ANSWERS)
    return folder


def test_a_network_that_writes_in_a_pass_gets_pieces_of_its_trained_length_whatever_the_units_are(
    network: Path,
) -> None:
    """max_tokens is 30 and the tokenizer has a token per byte."""
    base = tiny_base("llama")
    parameterizer = load_fast_weight_parameterizer(base, network)
    told = (Transition(1, "Ann is in Bern. Bo is in Zug. Cy is in Chur. Di is in Olten."),)
    pieces = {
        unit_tokens: Engine(base, parameterizer, MethodSettings(unit_tokens=unit_tokens)).windows(told)
        for unit_tokens in (16, 64)
    }
    assert pieces[16] == pieces[64]
    assert " ".join(piece.strip() for piece in pieces[16]) == told[0].text
    assert len(pieces[16]) == 2
    assert max(map(len, pieces[16])) <= parameterizer.max_tokens


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
    units = {side: engine.windows(side) for side in (before, after)}
    assert len(units[after]) > 4
    made = {text: parameterizer.parameterize([text])[0] for text in {*units[before], *units[after]}}
    for layer in (1, 2):
        delta = {text: factors.delta(MODULE, layer) for text, factors in made.items()}
        full, old = (sum(delta[text] for text in units[side]) for side in (after, before))
        expected = 0.9 * full + 0.6 * (full - old)
        torch.testing.assert_close(found.delta(MODULE, layer), expected, atol=1e-6, rtol=1e-4)


def test_windows_taken_as_a_mean_do_not_make_the_adapter_grow(network: Path) -> None:
    """The sum's matrix over the number of windows: as large after twenty updates as after two."""
    base = tiny_base("llama")
    parameterizer = load_fast_weight_parameterizer(base, network)
    told = tuple(Transition(i + 1, f"Fact number {i}: the code of room {i} is {7 * i}, they say.") for i in range(20))
    norms = []
    for updates in (2, 20):
        history = History("alice", updates, told[:updates])
        summed, mean = (
            Engine(base, parameterizer, MethodSettings(global_windows=way)).global_adapter(history, Kept())
            for way in ("sum", "mean")
        )
        assert summed is not None
        assert mean is not None
        windows = len(Engine(base, parameterizer).windows(history.transitions))
        torch.testing.assert_close(mean.delta(MODULE, 1), summed.delta(MODULE, 1) / windows, atol=1e-6, rtol=1e-4)
        norms.append(float(mean.delta(MODULE, 1).norm()))
    assert norms[1] < 1.2 * norms[0]


def test_evidence_is_the_likeliest_pieces_of_the_routed_unit_at_their_place(network: Path) -> None:
    base = tiny_base("llama")
    parameterizer = load_fast_weight_parameterizer(base, network)
    settings = MethodSettings(unit_tokens=400, evidence_tokens=48, evidence_units=2, delta=0.0)
    engine = Engine(base, parameterizer, settings)
    rooms = " ".join(f"The code of room {i} is {7 * i}, they say." for i in range(6))
    told = (Transition(1, f"Bob has a boat.\n\n{rooms}"), Transition(2, "Alice lives in Bern."))
    index = UnitIndex(engine.units(told))
    asked = "What is the code of room 3?"

    found = engine.activate(index, asked)

    routed = engine.rank(index, asked, k=1)[0].unit
    assert routed.version == 1
    assert len(found) == 2
    for one in found:
        assert told[0].text[one.unit.start : one.unit.end] == one.unit.text
        assert (one.unit.version, one.unit.position) == (1, routed.position)
        assert engine.count_tokens(one.unit.text) <= 48
    pieces = engine._pieces((Transition(1, routed.text),), 48)
    likelihoods = question_likelihoods(base, [piece.text for piece in pieces], asked)
    lexical = UnitIndex(pieces).score(asked)
    best = max(range(len(pieces)), key=lambda i: likelihoods[i] + lexical[i])
    assert pieces[best].text in {one.unit.text for one in found}
    assert join_units([one.unit for one in found]) == " ".join(
        one.unit.text.strip() for one in sorted(found, key=lambda one: one.unit.start)
    )


def test_a_unit_of_no_more_pieces_than_are_activated_stays_whole(network: Path) -> None:
    base = tiny_base("llama")
    settings = MethodSettings(unit_tokens=400, evidence_tokens=48, evidence_units=2)
    engine = Engine(base, load_fast_weight_parameterizer(base, network), settings)
    index = UnitIndex(engine.units((Transition(1, "Alice lives in Bern."), Transition(2, "Alice moved to Zurich."))))
    assert [one.unit.text for one in engine.activate(index, "Where does Alice live?")] == ["Alice moved to Zurich."]


def test_discard_forgets_pieces_too(network: Path) -> None:
    base = tiny_base("llama")
    settings = MethodSettings(unit_tokens=400, evidence_tokens=48, evidence_units=1)
    engine = Engine(base, load_fast_weight_parameterizer(base, network), settings)
    told = (Transition(1, " ".join(f"The code of room {i} is {7 * i}, they say." for i in range(6))),)
    cache = Kept()
    piece = engine.activate(UnitIndex(engine.units(told)), "What is the code of room 3?")[0].unit
    engine.factors(piece.text, cache)
    assert engine.factors_key(piece.text) in cache.held
    engine.discard(History("alice", 1, told), cache)
    assert engine.factors_key(piece.text) not in cache.held


@pytest.mark.parametrize("bias", [False, True])
def test_the_mean_of_one_window_is_the_sum_and_leaves_the_bias_whole(bias: bool) -> None:
    engine = tiny_engine(additive=True, bias=bias)
    mean = Engine(engine.base, engine.parameterizer, MethodSettings(global_windows="mean"))
    one, two = (tuple(Transition(i + 1, text) for i, text in enumerate(("One.", "Two.")[:n])) for n in (1, 2))
    found, expected = (e.global_adapter(History("alice", 1, one), Kept()) for e in (mean, engine))
    assert found is not None
    assert expected is not None
    torch.testing.assert_close(found.delta(MODULE, 1), expected.delta(MODULE, 1))

    parameterizer = engine.parameterizer
    assert parameterizer is not None
    both = mean.global_adapter(History("alice", 2, two), Kept())
    assert both is not None
    first, second = (f.delta(MODULE, 1) for f in parameterizer.parameterize(["One.", "Two."]))
    own = parameterizer.bias.delta(MODULE, 1) if parameterizer.bias else torch.zeros_like(first)
    torch.testing.assert_close(both.delta(MODULE, 1), (first + 1.75 * second) / 2 + own, atol=1e-5, rtol=1e-5)


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


def test_a_folder_written_before_the_router_had_a_choice_loads_unchanged(network: Path) -> None:
    path = network / "config.json"
    config = json.loads(path.read_text())
    del config["answers"]["router"], config["answers"]["evidence_units"]
    path.write_text(json.dumps(config))

    assert checkpoint.read_manifest(network).answers == ANSWERS
    config["answers"] |= {"router": "likelihood", "evidence_units": 3}
    path.write_text(json.dumps(config))
    loaded = load_hypernetwork(tiny_base("llama"), network).settings
    assert (loaded.router, loaded.evidence_units) == ("likelihood", 3)


# --- routers ------------------------------------------------------------------------------------------


ROUTERS = (MethodSettings(evidence="kv"), MethodSettings(evidence="kv", router="likelihood"))


def units(*texts: str) -> tuple[Unit, ...]:
    return tuple(Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(texts))


def test_the_likelihood_router_scores_a_shortlist_by_the_base_model() -> None:
    engine = tiny_engine(settings=MethodSettings(router="likelihood"))
    texts = [f"Alice lives at number {i}." if i % 2 else f"Bob has {i} boats." for i in range(50)]
    question = "Where does Alice live?"
    read: list[int] = []
    hook = engine.base.model.model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(len(kwargs["input_ids"])), with_kwargs=True
    )

    found = engine.rank(UnitIndex(units(*texts)), question, k=50)
    hook.remove()

    assert sum(read) == SHORTLIST
    assert len({one.unit.position for one in found}) == 50
    shown = found[:SHORTLIST]
    assert {texts[i] for i in range(50) if i % 2} <= {one.unit.text for one in shown}, "the best by shared words"
    expected = question_likelihoods(engine.base, [one.unit.text for one in shown], question)
    assert [math.log(one.score) for one in shown] == pytest.approx(expected, abs=1e-5)
    assert {one.score for one in found[SHORTLIST:]} == {0.0}
    assert engine.rank(UnitIndex(units(*texts)), question, k=1) == found[:1]


def test_the_routers_disagree_and_the_settings_choose() -> None:
    base = tiny_base("llama")
    index = UnitIndex(units("Alice lives in Bern.", "x y z", "Where Alice does live, we say.", "Bob"))
    lexical, likelihood = (Engine(base, None, both) for both in ROUTERS)
    question = "Where does Alice live?"

    assert lexical.rank(index, question, k=4) == index.rank(question, delta=0.5, k=4)
    assert likelihood.rank(index, question, k=4) != index.rank(question, delta=0.5, k=4)


OBSERVATORY = (
    "The Varkesh Observatory stands on the Omblen Plateau at an elevation of 3,140 metres.",
    "Its principal instrument, a 2.6-metre reflector nicknamed the Heron, saw first light in 1987 under founding "
    "director Tislava Renquist.",
    "The observatory was built by the Polytechnic of Dorrafell, which still pays for its upkeep, while the "
    "neighbouring village of Sull supplies water and most of the kitchen staff.",
    "In 2007, two decades after it first looked at the sky, the Heron's mirror was stripped and re-coated with "
    "aluminium.",
    "The telescope is best known for the discovery of the ring arc around the minor planet Quenby.",
    "Visitors are admitted on the first Saturday of each month between May and September.",
)


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "at", "shared"),
    [("Where do the cooks mostly come from?", 2, {"the"}), ("How high above sea level is the facility?", 0, {"the"})],
)
def test_smollm2_finds_a_sentence_that_shares_no_telling_word_with_its_question(
    smollm2: BaseModel, question: str, at: int, shared: set[str]
) -> None:
    index = UnitIndex(units(*OBSERVATORY))
    lexical, likelihood = (Engine(smollm2, None, both) for both in ROUTERS)

    assert set(terms_of(question)) & set(terms_of(OBSERVATORY[at])) == shared
    assert lexical.rank(index, question, k=1)[0].unit.position != at
    assert index.rank(question, delta=0.0, k=1)[0].unit.position != at, "δ is not to blame"
    assert likelihood.rank(index, question, k=1)[0].unit.position == at


# --- several units as one evidence ----------------------------------------------------------------------

CHOSEN = units("Alice lives in Bern. ", "Bob has a boat.", "Carol plays chess.\n")
FRAMED = tiny_base("llama").chat.framed([{"role": "user", "content": "Who?"}])


@pytest.mark.parametrize("bias", [False, True])
def test_several_units_are_written_as_one_text_that_is_kept_in_the_process_only(bias: bool) -> None:
    engine, cache = tiny_engine(bias=bias), Kept()
    parameterizer = engine.parameterizer
    assert isinstance(parameterizer, HashParameterizer)

    found = engine.evidence((CHOSEN[2], CHOSEN[0]), FRAMED, cache)
    again = engine.evidence((CHOSEN[0], CHOSEN[2]), FRAMED, cache)

    assert parameterizer.calls == ["Alice lives in Bern. Carol plays chess."]
    expected = parameterizer.parameterize(parameterizer.calls)[0].delta(MODULE, 1)
    expected = expected + (parameterizer.bias.delta(MODULE, 1) if parameterizer.bias else 0)
    for one in (found, again):
        torch.testing.assert_close(one.delta(MODULE, 1), expected)  # type: ignore[union-attr]
    assert not cache.held


def test_one_unit_in_a_sequence_is_the_unit() -> None:
    engine, cache = tiny_engine(), Kept()

    alone = engine.evidence(CHOSEN[0], FRAMED, cache)

    assert engine.evidence(CHOSEN[:1], FRAMED, cache) is alone
    assert list(cache.held) == [engine.factors_key("Alice lives in Bern. ")]
    with pytest.raises(InvalidInput, match="at least one unit"):
        engine.evidence((), FRAMED, cache)


def test_a_parameterizer_that_trains_on_each_text_is_not_asked_for_a_joined_one() -> None:
    """Its units are added at 1/k each; the bias enters once."""
    engine, cache = tiny_engine(additive=True, bias=True), Kept()
    parameterizer = engine.parameterizer
    assert isinstance(parameterizer, HashParameterizer)

    found = engine.evidence(CHOSEN, FRAMED, cache)

    assert parameterizer.calls == [unit.text for unit in CHOSEN]
    assert set(cache.held) == {engine.factors_key(unit.text) for unit in CHOSEN}
    own = sum(f.delta(MODULE, 2) for f in parameterizer.parameterize([unit.text for unit in CHOSEN]))
    assert parameterizer.bias is not None
    torch.testing.assert_close(found.delta(MODULE, 2), own / 3 + parameterizer.bias.delta(MODULE, 2))  # type: ignore[union-attr]


def test_a_network_with_one_a_for_all_writes_the_joined_text(network: Path) -> None:
    parameterizer = load_fast_weight_parameterizer(tiny_base("llama"), network)
    engine, cache = Engine(tiny_base("llama"), parameterizer), Kept()

    found = engine.evidence(CHOSEN[:2], FRAMED, cache)

    expected = parameterizer.parameterize(["Alice lives in Bern. Bob has a boat."])[0]
    assert torch.equal(found.delta(MODULE, 1), expected.delta(MODULE, 1))  # type: ignore[union-attr]
    assert found.modules[MODULE].A is parameterizer.shared_a[MODULE]  # type: ignore[union-attr]
    assert not cache.held


def test_several_units_are_compiled_as_one_prefix_that_is_kept_in_the_process_only() -> None:
    engine, cache = Engine(tiny_base("llama"), None), Kept()

    found = engine.evidence(CHOSEN[1:], FRAMED, cache)

    assert isinstance(found, KVPrefix)
    expected = compile_prefix(engine.base, FRAMED.evidence_ids("Bob has a boat. Carol plays chess."))
    assert torch.equal(found.keys, expected.keys)
    assert engine.evidence(CHOSEN[1:], FRAMED, cache) is found
    assert not cache.held


@pytest.mark.parametrize("form", ["lora", "kv"])
def test_discarding_a_history_drops_what_its_units_became_together(form: str) -> None:
    engine = tiny_engine(settings=MethodSettings(evidence=form))  # type: ignore[arg-type]
    here, elsewhere = Kept(), Kept("elsewhere")
    first = [engine.evidence(CHOSEN, FRAMED, cache) for cache in (here, elsewhere)]

    engine.discard(History("alice", 1, (Transition(1, CHOSEN[0].text),)), here)

    assert engine.evidence(CHOSEN, FRAMED, here) is not first[0]
    assert engine.evidence(CHOSEN, FRAMED, elsewhere) is first[1]


def test_joined_units_stand_in_temporal_order_and_a_single_one_as_it_is() -> None:
    assert join_units(reversed(CHOSEN)) == "Alice lives in Bern. Bob has a boat. Carol plays chess."
    assert join_units(CHOSEN[2:]) == "Carol plays chess.\n"

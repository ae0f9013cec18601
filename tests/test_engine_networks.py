"""The engine on a fast-weight network, one A for all: windows, pieces, what is cached, and its settings."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.answering.answer import evidence_of
from plume_memory.answering.evidence import NAMED_SHARE
from plume_memory.errors import CheckpointError
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.parameterizer import load_fast_weight_parameterizer
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.lora.files import from_bytes
from plume_memory.policy import Calibration
from plume_memory.records import History, Transition, Unit
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import Reader
from plume_memory.retrieval.retrieve import WORDS_NATS, retrieve
from plume_memory.terms import stem_of
from plume_memory.testing import byte_tokenizer, tiny_base, tiny_engine

MODULE = "mlp.down_proj"
POLICY = AnswerPolicy(alpha=0.9, beta=0.6, lambda_max=2.0, tau=0.2, delta=0.1, unit_tokens=40)
CHOSEN = (Unit(0, 1, 0, 21, "Alice lives in Bern. "), Unit(1, 2, 0, 15, "Bob has a boat."))
FRAMED = tiny_base("llama").chat.framed([{"role": "user", "content": "Who?"}])


class Kept:
    """A cache that shows what it holds."""

    def __init__(self, place: str = "here") -> None:
        self.place, self.owner, self.held = place, "alice", dict[str, bytes]()
        self.kinds = dict[str, str]()

    def get(self, key: str) -> bytes | None:
        return self.held.get(key)

    def put(self, key: str, kind: str, content: bytes) -> None:
        self.held[key], self.kinds[key] = content, kind

    def is_current(self) -> bool:
        return True

    def discard(self, key: str) -> None:
        self.held.pop(key, None)

    def keys(self, kind: str) -> list[str]:
        return [key for key in self.held if self.kinds[key] == kind]

    def retire(self, key: str) -> None:
        self.discard(key)


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
    checkpoint.save(FastWeightNetwork(sizes), folder, base_model="tiny", max_tokens=30, policy=POLICY)
    return folder


def test_a_network_that_writes_in_a_pass_gets_pieces_of_its_trained_length_whatever_the_units_are(
    network: Path,
) -> None:
    """max_tokens is 30 and the tokenizer has a token per byte."""
    base = tiny_base("llama")
    parameterizer = load_fast_weight_parameterizer(base, network)
    told = (Transition(1, "Ann is in Bern. Bo is in Zug. Cy is in Chur. Di is in Olten."),)
    pieces = {
        unit_tokens: Engine(base, parameterizer, AnswerPolicy(unit_tokens=unit_tokens)).segmenter.windows(told)
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
    settings = AnswerPolicy(alpha=0.9, beta=0.6, unit_tokens=40)
    engine = Engine(base, parameterizer, settings)
    before = tuple(Transition(i + 1, f"Fact number {i}: the code of room {i} is {7 * i}, they say.") for i in range(4))
    after = (*before, Transition(5, "A new one: the code of room 2 is 99."))

    found = engine.global_adapter(History("alice", 5, after), Kept())

    assert found is not None
    assert found.rank == 8
    units = {side: engine.segmenter.windows(side) for side in (before, after)}
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
            Engine(base, parameterizer, AnswerPolicy(global_windows=way)).global_adapter(history, Kept())
            for way in ("sum", "mean")
        )
        assert summed is not None
        assert mean is not None
        windows = len(Engine(base, parameterizer).segmenter.windows(history.transitions))
        torch.testing.assert_close(mean.delta(MODULE, 1), summed.delta(MODULE, 1) / windows, atol=1e-6, rtol=1e-4)
        norms.append(float(mean.delta(MODULE, 1).norm()))
    assert norms[1] < 1.2 * norms[0]


def sentences_engine(network: Path) -> Engine:
    base = tiny_base("llama")
    settings = AnswerPolicy(unit_tokens=400, retrieval="reader", evidence_units=2)
    return Engine(base, load_fast_weight_parameterizer(base, network), settings)


def test_evidence_is_the_likeliest_sentences_of_the_whole_history(network: Path) -> None:
    engine = sentences_engine(network)
    rooms = " ".join(f"The code of room {i} is {7 * i}, they say." for i in range(6))
    told = (Transition(1, f"Bob has a boat.\n\n{rooms}"), Transition(2, "Alice lives in Bern."))
    units = engine.segmenter.units(told)
    asked = "What is the code of room 3?"

    found = evidence_of(engine, UnitIndex(units), asked, Kept())

    assert len(units) == 8
    assert all(told[unit.version - 1].text[unit.start : unit.end] == unit.text for unit in units)
    log_p = [one.log_p for one in Reader(engine.base).read([unit.text for unit in units], asked)]
    shared = UnitIndex(units, stem=stem_of).shared(asked)
    best = sorted(range(len(units)), key=lambda i: -log_p[i] - WORDS_NATS * shared[i])[:2]
    assert [one.unit.position for one in found] == best


def test_a_question_that_memory_does_not_bear_on_gets_neither_adapter(network: Path, tmp_path: Path) -> None:
    """The gain of its tokens by the evidence decides: just above the threshold memory answers, just below it not."""
    base = tiny_base("llama")
    told, asked = "Alice lives in Bern.", "Where does Alice live?"
    gain = Reader(base).read([told], asked)[0].gain
    assert gain > 0
    gain /= NAMED_SHARE  # both name Alice
    answers = {}
    for name, least in (("always", None), ("just", gain - 1e-4), ("never", gain + 1e-4)):
        settings = AnswerPolicy(unit_tokens=400, retrieval="reader", min_gain=least)
        engine = Engine(base, load_fast_weight_parameterizer(base, network), settings)
        with ParametricMemory.open(name, url=f"sqlite:///{tmp_path}/memory.db", engine=engine) as memory:
            empty = memory.ask(asked, max_new_tokens=6)
            memory.update(told)
            answers[name] = memory.ask(asked, max_new_tokens=6)

    assert answers["always"].evidence is not None
    assert answers["just"].evidence == answers["always"].evidence
    assert answers["just"].trace == answers["always"].trace
    assert answers["never"].evidence is None
    assert answers["never"].evidence_units == ()
    assert answers["never"].trace == empty.trace
    assert answers["never"].trace != answers["always"].trace


def test_discard_forgets_sentences_too(network: Path) -> None:
    engine = sentences_engine(network)
    told = (Transition(1, " ".join(f"The code of room {i} is {7 * i}, they say." for i in range(6))),)
    cache = Kept()
    sentence = evidence_of(engine, UnitIndex(engine.segmenter.units(told)), "What is the code of room 3?", cache)[
        0
    ].unit
    engine.encoder.factors(sentence.text, cache)
    assert engine.encoder.factors_key(sentence.text) in cache.held
    engine.discard(History("alice", 1, told), cache)
    assert engine.encoder.factors_key(sentence.text) not in cache.held


@pytest.mark.parametrize("bias", [False, True])
def test_the_mean_of_one_window_is_the_sum_and_leaves_the_bias_whole(bias: bool) -> None:
    engine = tiny_engine(additive=True, bias=bias)
    mean = Engine(engine.base, engine.parameterizer, AnswerPolicy(global_windows="mean"))
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
        read = engine.encoder.factors("The code is 7.", cache)
        assert read.modules[MODULE].A is parameterizer.shared_a[MODULE]

    ((content,),) = (tuple(cache.held.values()),)
    B = parameterizer.parameterize(["The code is 7."])[0].modules[MODULE].B
    assert len(content) < B.nbytes + 1000
    assert torch.equal(from_bytes(content, A=parameterizer.shared_a).modules[MODULE].B, B)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_memory_on_a_trained_network_answers_and_is_updated(tmp_path: Path, network: Path, family: str) -> None:
    base = tiny_base(family)
    settings = AnswerPolicy(max_new_tokens=4, unit_tokens=40)
    engine = Engine(base, load_fast_weight_parameterizer(base, network), settings)
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        memory.update("Alice lives in Bern.")
        memory.update("Alice lives in Zurich.")
        answer = memory.ask("Where does Alice live?")
        past = memory.at(version=1).ask("Where does Alice live?")

    assert (answer.version, past.version) == (2, 1)
    assert answer.trace[0].js > 0


def test_a_folder_brings_the_policy_it_was_measured_with(tmp_path: Path, network: Path) -> None:
    folder = tmp_path / "base"
    base = tiny_base("llama")
    base.model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)

    engine = Engine.load(str(folder), hypernetwork=str(network), device="cpu", dtype="float32")
    chosen = Engine.load(
        str(folder), hypernetwork=str(network), policy=AnswerPolicy(beta=0.1), device="cpu", dtype="float32"
    )

    expected = AnswerPolicy(alpha=0.9, beta=0.6, lambda_max=2.0, tau=0.2, delta=0.1, unit_tokens=40)
    assert engine.policy == expected
    assert chosen.policy == expected.model_copy(update={"beta": 0.1})
    assert engine.parameterizer is not None
    assert engine.parameterizer.shared_a is not None


OLD = {
    "alpha": 0.5,
    "beta": 0.25,
    "evidence": "lora",
    "router": "sentences",
    "evidence_units": 3,
    "relevance": 8.0,
    "alone_scale": 1.5,
    "alone_lead": 0.5,
    "insist_scale": 3.0,
    "insist_gain": 10.0,
    "alone_margin": 0.1,
    "confidence": [0.8, -4.0],
    "confidence_gain": 0.2,
}


def test_a_folder_of_format_1_is_read_and_what_is_gone_of_it_is_said(
    network: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = network / "config.json"
    config = json.loads(path.read_text())
    del config["policy"], config["calibration"]
    path.write_text(json.dumps({**config, "format": 1, "answers": OLD}))

    loaded = load_hypernetwork(tiny_base("llama"), network)

    assert loaded.policy == AnswerPolicy(
        alpha=0.5,
        beta=0.25,
        retrieval="reader",
        evidence_units=3,
        min_gain=8.0,
        lead=0.5,
        retry_scale=3.0,
    )
    assert loaded.calibration == Calibration(slope=0.8, offset=-4.0, per_nat=0.2)
    assert "is read as format 2, without alone_margin, alone_scale, insist_gain" in caplog.text


@pytest.mark.parametrize("router", ["lexical", "likelihood"])
def test_a_folder_of_format_1_keeps_no_setting_that_is_dead_now(network: Path, router: str) -> None:
    path = network / "config.json"
    config = json.loads(path.read_text())
    del config["policy"], config["calibration"]
    answers = {"router": router, "alone_lead": 0.5, "relevance": 5.0, "evidence_tokens": None}
    path.write_text(json.dumps({**config, "format": 1, "answers": answers}))

    policy = load_hypernetwork(tiny_base("llama"), network).policy

    assert policy.lead is None, "one unit leads nobody"
    assert policy.min_gain == (5.0 if router == "likelihood" else None)


@pytest.mark.parametrize(
    ("answers", "where"),
    [
        ([["alpha", 0.5]], "answers"),
        (None, "answers"),
        ({"confidence": 0.8}, "answers.confidence"),
        ({"confidence": [0.8]}, "answers.confidence"),
        ({"confidence": ["much", 0.0]}, "answers.confidence"),
        ({"router": ["lexical"]}, "answers.router"),
        ({"evidence": {"kv": 1}}, "answers.evidence"),
        ({"alpha": "much"}, "policy.alpha"),
    ],
)
def test_a_folder_of_format_1_that_is_damaged_says_where(network: Path, answers: object, where: str) -> None:
    path = network / "config.json"
    config = json.loads(path.read_text())
    del config["policy"], config["calibration"]
    path.write_text(json.dumps({**config, "format": 1, "answers": answers}))
    with pytest.raises(CheckpointError, match=f"describes no fast-weight network: {re.escape(where)}"):
        checkpoint.read_manifest(network)


def test_a_folder_of_a_later_format_says_what_to_do(network: Path) -> None:
    path = network / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 3}))
    with pytest.raises(CheckpointError, match="has format 3, this package reads 1 and 2; train or fetch anew"):
        checkpoint.read_manifest(network)


def test_a_network_with_one_a_for_all_writes_the_joined_text(network: Path) -> None:
    parameterizer = load_fast_weight_parameterizer(tiny_base("llama"), network)
    engine, cache = Engine(tiny_base("llama"), parameterizer), Kept()

    found = engine.evidence(CHOSEN[:2], FRAMED, cache)

    expected = parameterizer.parameterize(["Alice lives in Bern. Bob has a boat."])[0]
    assert found.factors is not None
    assert torch.equal(found.factors.delta(MODULE, 1), expected.delta(MODULE, 1))
    assert found.factors.modules[MODULE].A is parameterizer.shared_a[MODULE]
    assert not cache.held


def test_a_networks_reranker_reads_units_and_is_part_of_the_fingerprint(network: Path) -> None:
    """What comes first is what is likeliest to the model with the adapter, merged into its weights here."""
    chance = torch.Generator().manual_seed(3)
    pair = Pair(torch.randn(1, 2, 64, generator=chance), torch.randn(1, 2, 32, generator=chance))
    reranker = LoraFactors({MODULE: pair}, (1,))
    settings = AnswerPolicy(retrieval="reader")
    base, merged = tiny_base("llama"), tiny_base("llama")
    with torch.no_grad():
        merged.model.model.layers[1].get_submodule(MODULE).weight += reranker.delta(MODULE, 1)
    parameterizer = load_fast_weight_parameterizer(base, network)
    plain = Engine(base, parameterizer, settings)
    with_it = Engine(base, parameterizer, settings, reranker=reranker)
    index = UnitIndex(CHOSEN)

    asked = "Where does Alice live?"

    def scores(engine: Engine) -> dict[int, float]:
        ranked = retrieve(index, asked, engine.reader, engine.policy, k=3)
        return {one.unit.position: one.score for one in ranked}

    nothing = LoraFactors({MODULE: Pair(torch.zeros(1, 2, 64), torch.zeros(1, 2, 32))}, (1,))
    read = Reader(merged, nothing).read([unit.text for unit in CHOSEN], asked)  # it reads as a reranker does
    expected = {
        unit.position: math.exp(own.log_p - WORDS_NATS * (1 - index.shared(asked)[unit.position]))
        for unit, own in zip(CHOSEN, read, strict=True)
    }
    assert scores(with_it) == pytest.approx(expected)
    assert scores(with_it) != pytest.approx(scores(plain), rel=1e-3)

    other = with_it.composed_with(AnswerPolicy(retrieval="reader", evidence_units=2))
    assert len({plain.fingerprint, with_it.fingerprint, other.fingerprint}) == 3
    assert other.composed_with(settings).fingerprint == with_it.fingerprint

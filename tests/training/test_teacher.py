"""The in-context teacher and its cache."""

import sqlite3
from pathlib import Path

import pytest
import torch

from plume_memory.errors import TrainingError
from plume_memory.model.base import BaseModel
from plume_memory.testing import tiny_base
from plume_memory.training.items import Item
from plume_memory.training.teacher import Teacher, TopK

TEXTS = (tuple(range(40, 49)), tuple(range(60, 80)), (90,))
ITEMS = tuple(Item((30, 31 + i), (100 + i, 101, 2)[: 2 + i % 2], "answer") for i in range(3))
ASKED = list(zip(TEXTS, ITEMS, strict=True))


def assert_same(one: list[TopK], other: list[TopK]) -> None:
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a.ids, b.ids)
        assert torch.equal(a.probabilities, b.probabilities)


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_it_says_what_the_model_says_with_the_text_in_its_prompt(tmp_path: Path, family: str) -> None:
    """transformers' own forward, one prompt at a time; half precision keeps three digits."""
    base = tiny_base(family)
    taught = Teacher(base, 5, tmp_path / "deep" / "teacher.db").top(ASKED)
    for (text, item), top in zip(ASKED, taught, strict=True):
        prompt = [*base.chat.prefix_ids(), *text, *base.chat.encode("\n\n"), *item.prompt_ids]
        with torch.no_grad():
            logits = base.model(input_ids=torch.tensor([[*prompt, *item.target_ids[:-1]]])).logits[0]
        expected = torch.softmax(logits[len(prompt) - 1 :], -1).topk(5)
        assert torch.equal(top.ids, expected.indices)
        torch.testing.assert_close(top.probabilities, expected.values, atol=1e-4, rtol=2e-3)


def test_what_is_kept_is_what_was_computed(
    tmp_path: Path, tiny_llama: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = Teacher(tiny_llama, 4, tmp_path / "teacher.db")
    fresh = teacher.top(ASKED)
    reopened = Teacher(tiny_llama, 4, tmp_path / "teacher.db")
    monkeypatch.setattr(Teacher, "_compute", lambda *_: pytest.fail("computed again"))

    assert_same(teacher.top(ASKED), fresh)
    assert_same(reopened.top([*reversed(ASKED), ASKED[0]]), [*reversed(fresh), fresh[0]])


def test_other_models_texts_and_k_have_places_of_their_own(tmp_path: Path, tiny_llama: BaseModel) -> None:
    cache = tmp_path / "teacher.db"
    three = Teacher(tiny_llama, 3, cache).top(ASKED[:1])
    four = Teacher(tiny_llama, 4, cache).top(ASKED[:1])
    other = Teacher(tiny_base("llama", seed=1), 3, cache).top(ASKED[:1])
    moved = Teacher(tiny_llama, 3, cache).top([(TEXTS[1], ITEMS[0])])

    assert (three[0].ids.shape, four[0].ids.shape) == ((2, 3), (2, 4))
    for found in (other, moved):
        assert not torch.equal(found[0].probabilities, three[0].probabilities)


def test_more_than_a_batch_is_taught_in_order(tmp_path: Path, tiny_llama: BaseModel) -> None:
    asked = [((40 + i,), Item((30,), (100, 2), "answer")) for i in range(20)]
    together = Teacher(tiny_llama, 3, tmp_path / "one.db").top(asked)
    for one, top in zip(asked[::7], together[::7], strict=True):
        (alone,) = Teacher(tiny_llama, 3, tmp_path / "other.db").top([one])
        assert torch.equal(alone.ids, top.ids)


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path, tiny_llama: BaseModel) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at. " * 30)
    with pytest.raises(TrainingError, match="cannot be used: file is not a database"):
        Teacher(tiny_llama, 3, tmp_path / "text.db")
    with pytest.raises(TrainingError, match="cannot be used"):
        Teacher(tiny_llama, 3, tmp_path / "text.db" / "teacher.db")


@pytest.mark.parametrize("damage", ["UPDATE teacher SET tensors = x'00ff'", "DROP TABLE teacher"])
def test_a_damaged_cache_is_refused(tmp_path: Path, tiny_llama: BaseModel, damage: str) -> None:
    teacher = Teacher(tiny_llama, 3, tmp_path / "teacher.db")
    teacher.top(ASKED)
    with sqlite3.connect(tmp_path / "teacher.db") as other:
        other.execute(damage)
    other.close()

    with pytest.raises(TrainingError, match=r"teacher\.db cannot be used"):
        teacher.top(ASKED)


def test_pages_that_were_overwritten_are_refused(tmp_path: Path, tiny_llama: BaseModel) -> None:
    cache = tmp_path / "teacher.db"
    teacher = Teacher(tiny_llama, 3, cache)
    teacher.top(ASKED)
    teacher._rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    teacher._rows.close()
    content = bytearray(cache.read_bytes())
    content[1024:] = b"\x5a" * (len(content) - 1024)
    cache.write_bytes(bytes(content))

    with pytest.raises(TrainingError, match="cannot be used"):
        Teacher(tiny_llama, 3, cache).top(ASKED)

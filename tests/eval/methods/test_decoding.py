"""Answers in batches are the answers one by one, in the order asked."""

from collections.abc import Mapping

import pytest

from eval.methods.decoding import Answerer, replies, reply
from eval.methods.protocol import Reply
from plume_memory.errors import InvalidInput
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import Decoded, DecodeSettings, Query, Step
from plume_memory.model.running import RunningQueries
from plume_memory.model.streams import Row
from plume_memory.records import Usage
from plume_memory.scheduling import Scheduler
from plume_memory.testing import random_factors

SETTINGS = DecodeSettings(max_new_tokens=7)


def queries(base: BaseModel) -> list[Query]:
    """Nine questions of different lengths: none, one or two adapters."""
    texts = ["Who keeps the bridge of Ombry at night?", "When?", "What is it?", "Where is the quarry, then?"] * 2
    made = []
    for at, text in enumerate([*texts, "Why"]):
        prompt = tuple(base.chat.prompt_ids(f"{text}{at}"))
        first = Row(prompt, random_factors(base, rank=1 + at % 3, seed=at) if at % 2 else None)
        made.append(Query(first, Row(prompt, random_factors(base, seed=50 + at)) if at % 3 == 0 else None))
    return made


@pytest.mark.parametrize("batch", [2, 8])
def test_batches_answer_as_one_by_one_and_in_order(tiny: BaseModel, batch: int) -> None:
    decoder = Scheduler(tiny)
    asked = queries(tiny)

    found = Answerer(decoder, SETTINGS, batch).answer(asked)

    alone = [decoder.decode([query], SETTINGS)[0] for query in asked]
    assert [(d.text, d.finish_reason, d.usage) for d in found] == [(d.text, d.finish_reason, d.usage) for d in alone]
    assert len({d.text for d in found}) > 4  # else the order would not show


def test_batches_are_filled_with_queries_of_similar_length(
    tiny_llama: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    admit = RunningQueries.admit

    def watched(self: RunningQueries, asked: Mapping[int, tuple[Query, DecodeSettings]]) -> list[Step]:
        seen.append([query.global_row.tokens for query, _ in asked.values()])
        return admit(self, asked)

    monkeypatch.setattr(RunningQueries, "admit", watched)
    Answerer(Scheduler(tiny_llama), DecodeSettings(max_new_tokens=1), 4).answer(queries(tiny_llama))

    assert [len(batch) for batch in seen] == [4, 4, 1]
    lengths = [tokens for batch in seen for tokens in batch]
    assert lengths == sorted(lengths)


def test_no_question_is_no_answer(tiny_llama: BaseModel) -> None:
    assert Answerer(Scheduler(tiny_llama), SETTINGS).answer([]) == []


def test_a_batch_of_none_is_refused(tiny_llama: BaseModel) -> None:
    with pytest.raises(InvalidInput, match="batch=0"):
        Answerer(Scheduler(tiny_llama), SETTINGS, 0)


def test_a_reply_carries_what_the_decode_counted() -> None:
    decoded = Decoded("Zurich", "stop", Usage(prompt_tokens=9, completion_tokens=3), ())

    assert reply(decoded, {"pairs": 2}) == Reply("Zurich", 3, "stop", {"pairs": 2})
    assert replies([decoded, decoded]) == [Reply("Zurich", 3, "stop")] * 2

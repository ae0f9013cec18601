"""Forgetting a part: it is left out from there on, and a call names one place of what holds."""

from datetime import UTC, datetime
from unicodedata import normalize

import pytest

from plume_memory.errors import IdempotencyConflict, InvalidInput
from plume_memory.records import Span
from plume_memory.store.database import Database
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log

DATABASES = ("sqlite", "postgresql")
BERN = "Alice lives in Bern, Zytgloggelaube 7. She has a cat."
CAT = (39, 53)
HOME = (0, 38)


def said(log: Log, memory: str = "alice", version: int | None = None) -> list[str]:
    return [transition.text for transition in log.history(memory, version).transitions]


def verified(log: Log, **lengths: int) -> None:
    assert {name: log.verify(name) for name in lengths} == lengths


def test_a_forgotten_part_is_left_out_from_there_on_and_a_rollback_brings_it_back(filled: Log) -> None:
    forgotten = filled.forget("alice", 1, span=HOME, reason="moved")
    assert (forgotten.kind, forgotten.forgets, forgotten.span) == ("forget", 1, Span(*HOME))
    assert filled.version("alice", 4) == forgotten
    assert said(filled) == ["She has a cat.", "Bob has a boat.", "Carol paints."]
    assert said(filled, version=3)[0] == filled.version("alice", 1).text == BERN

    filled.forget("alice", text="She has a ")
    assert said(filled)[0] == "cat."
    filled.rollback("alice", 4)
    assert said(filled)[0] == "She has a cat."
    filled.rollback("alice", 3)
    assert said(filled)[0] == BERN
    verified(filled, alice=7, before=1, fork=3)


def test_a_text_that_is_forgotten_part_by_part_leaves_the_history(filled: Log) -> None:
    filled.forget("alice", 1, span=HOME)
    filled.forget("alice", 1, span=CAT)
    assert said(filled) == ["Bob has a boat.", "Carol paints."]
    with pytest.raises(InvalidInput, match="nothing of characters 0 to 5 of version 1 holds any more"):
        filled.forget("alice", 1, span=(0, 5))
    assert filled.forget("alice", 1).span is None
    verified(filled, alice=6)


def test_a_span_is_part_of_the_hash(filled: Log) -> None:
    """The same forget of another part, at the same time, has another chain hash."""
    moment = datetime(2099, 1, 1, tzinfo=UTC)
    hashes = set()
    for span in (None, (0, 5), (0, 6)):
        with Database("sqlite://") as database:
            log = Log(database, clock=lambda: moment)
            log.append("alice", BERN)
            hashes.add(log.forget("alice", 1, span=span).chain_hash)
    assert len(hashes) == 3


def test_words_must_stand_in_one_place_of_what_holds(filled: Log) -> None:
    filled.append("alice", "Dora has a boat, Emil has a boat.")
    with pytest.raises(InvalidInput, match=r"stand in 4 places that hold now: version 1 at 43, version 2 at 4, .*"):
        filled.forget("alice", text="has a")
    with pytest.raises(InvalidInput, match=r"2 places.*version 4 at 5, version 4 at 22") as refused:
        filled.forget("alice", 4, text="has a boat")
    assert "has a" not in str(refused.value)
    with pytest.raises(InvalidInput, match="not in the updates that hold now letter for letter"):
        filled.forget("alice", text="HAS A")
    assert filled.forget("alice", 2, text="has a").span == Span(4, 9)
    filled.forget("alice", 4)
    assert filled.forget("alice", text="has a").forgets == 1
    assert said(filled) == [BERN.replace(" has a ", " "), "Bob boat.", "Carol paints."]


BAD_TARGETS = [
    ({}, "Name what to forget"),
    ({"span": (0, 1)}, "give the version with it"),
    ({"version": 1, "span": (0, 1), "text": "A"}, "and no text"),
    ({"version": 1, "span": (3, 3)}, "not empty"),
    ({"version": 1, "span": (-1, 3)}, "from 0"),
    ({"version": 1, "span": (0, 3.0)}, "span is"),
    ({"version": 1, "span": (0, True)}, "span is"),
    ({"version": 1, "span": "ab"}, "span is"),
    ({"version": 1, "span": (0, 54)}, "has 53 characters"),
    ({"version": 1, "text": ""}, "white space"),
    ({"text": "a\x00"}, "cannot be stored"),
]


def test_a_target_that_is_none_is_refused(filled: Log, erasures: Erasures) -> None:
    for arguments, reason in BAD_TARGETS:
        for call in (filled.forget, erasures.erase):
            with pytest.raises(InvalidInput, match=reason):
                call("alice", **arguments, idempotency_key="k")
    with pytest.raises(InvalidInput, match="white space aside: there is nothing to forget"):
        filled.forget("alice", 1, span=(14, 15))
    assert filled.head_number("alice") == 3


def test_a_repeated_key_forgets_a_part_once(filled: Log) -> None:
    first = filled.forget("alice", 1, span=CAT, idempotency_key="k")
    assert filled.forget("alice", 1, span=CAT, idempotency_key="k") == first
    words = filled.forget("alice", text="boat", idempotency_key="w")
    assert filled.forget("alice", text="boat", idempotency_key="w") == words
    for arguments in ({"version": 1}, {"version": 1, "span": (0, 3)}, {"version": 2, "text": "She has"}):
        with pytest.raises(IdempotencyConflict):
            filled.forget("alice", idempotency_key="k", **arguments)


def test_a_repeated_key_forgets_the_same_words_and_no_others_of_that_length(filled: Log, erasures: Erasures) -> None:
    first = filled.forget("alice", text="boat", idempotency_key="boat")
    across = filled.forget("alice", 1, text=" has a", idempotency_key="across")
    reached = filled.forget("alice", 1, text="She cat", idempotency_key="reached")
    for text, key in (
        ("Bob ", "boat"),
        ("boa", "boat"),
        ("oat.", "boat"),
        ("She ca!", "reached"),
        (" had a", "across"),
    ):
        with pytest.raises(IdempotencyConflict, match="says something else"):
            filled.forget("alice", text=text, idempotency_key=key)

    erasures.erase("alice", 1, text="Alice ")  # shifts what was forgotten
    assert filled.forget("alice", text="boat", idempotency_key="boat") == first
    assert filled.forget("alice", 1, text=" has a", idempotency_key="across") == across
    assert filled.forget("alice", text="She cat", idempotency_key="reached") == reached
    erasures.erase("alice", 1)
    with pytest.raises(IdempotencyConflict, match="can no longer be compared"):
        filled.forget("alice", text="She cat", idempotency_key="reached")
    assert filled.head_number("alice") == 8


@pytest.mark.parametrize("told", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_a_word_with_an_accent_is_forgotten_and_erased_however_it_is_spelt(
    filled: Log, erasures: Erasures, told: str, asked: str
) -> None:
    for end in ("", "!"):
        filled.append("alice", normalize(told, f"We meet at the Café Zoë{end}."))
    words = [normalize(asked, f" at the Café Zoë{end}.") for end in ("", "!")]
    filled.forget("alice", text=words[0])
    assert said(filled)[-2] == "We meet"
    with pytest.raises(InvalidInput, match="repeats the words"):
        erasures.erase("alice", text=words[1], reason=f"no more{normalize(told, words[1])}")
    certificate = erasures.erase("alice", text=words[1], idempotency_key="e")
    assert said(filled)[-1] == "We meet"
    again = erasures.erase("alice", text=words[1], idempotency_key="e")
    assert again.version == certificate.version, "the same words, though they are gone"

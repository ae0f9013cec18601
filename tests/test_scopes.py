"""Names of memories by whose they are."""

import pytest

from plume_memory import enclosing, scope
from plume_memory.errors import InvalidInput


def test_an_owner_an_agent_and_a_session_make_a_name() -> None:
    assert scope("alice") == "alice"
    assert scope("alice", agent="support") == "alice/agent=support"
    assert scope("alice", agent="support", session="42") == "alice/agent=support/session=42"
    assert scope("alice", session="42") == "alice/session=42"
    assert scope("Jörg Müller") == "Jörg Müller"


def test_different_scopes_have_different_names() -> None:
    made = [
        scope("a/agent=b"),
        scope("a", agent="b"),
        scope("a%2Fagent=b"),
        scope("a%2fagent%3Db"),
        scope("a", agent="b/session=c"),
        scope("a", agent="b", session="c"),
    ]
    assert len(set(made)) == len(made)


def test_the_scopes_around_one_are_the_widest_first() -> None:
    assert enclosing(scope("alice", agent="support", session="42")) == (
        "alice",
        "alice/agent=support",
        "alice/agent=support/session=42",
    )
    assert enclosing(scope("a/b")) == ("a%2Fb",)


@pytest.mark.parametrize("wrong", [{"owner": ""}, {"owner": "a", "agent": " "}, {"owner": "a", "session": ""}])
def test_a_part_without_a_name_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="at least one character"):
        scope(**wrong)

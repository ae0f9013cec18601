"""LoCoMo (Maharana et al. 2024, snap-research/locomo, CC BY-NC 4.0): `locomo10.json`.

Two people, up to 35 sessions. Each turn has a `dia_id`, each question the ids of its evidence. Category 5 cannot be
answered from the conversation: its wrong `adversarial_answer` is no reference, and its `evidence` is where the other
person says it, no gold turn. A picture that is shared stands in its turn as its caption, as LoCoMo's own prompts have
it.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from eval.conversations.files import Row, layout, read_rows, texts
from eval.conversations.records import Conversation, Question, Session, Turn

KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_WANTED = "`sample_id`, `conversation` with `session_1` and `session_1_date_time`, and `qa`"
_UNANSWERABLE = 5
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
"""Also of `D8:6; D9:17`, `D:11:26` and `D30:05`, as some are written."""
_WHEN = "%I:%M %p on %d %B, %Y"


def read_locomo(path: Path) -> list[Conversation]:
    """Read the file, gzipped or not.

    Raises:
        InvalidInput: it cannot be read, or is of another form.
    """
    rows = read_rows(path)
    with layout(path, "LoCoMo", _WANTED):
        return [_conversation(row) for row in rows]


def _conversation(row: Row) -> Conversation:
    sessions = tuple(_sessions(row["conversation"]))
    if not sessions:
        raise KeyError("session_1")
    known = {turn.id for session in sessions for turn in session.turns}
    asked = tuple(_question(number, one, known) for number, one in enumerate(row["qa"], start=1))
    return Conversation(str(row["sample_id"]), sessions, asked)


def _sessions(conversation: Row) -> Iterator[Session]:
    number = 1
    while f"session_{number}" in conversation:
        said_at = datetime.strptime(conversation[f"session_{number}_date_time"], _WHEN)
        yield Session(said_at, tuple(_turn(one) for one in conversation[f"session_{number}"]))
        number += 1


def _turn(row: Row) -> Turn:
    caption = row.get("blip_caption")
    shared = f" [shares a picture: {caption}]" if caption else ""
    return Turn(row["dia_id"], row["speaker"], row["text"].strip() + shared)


def _question(number: int, row: Row, known: set[str]) -> Question:
    category = int(row["category"])
    answerable = category != _UNANSWERABLE
    return Question(
        id=f"q{number}",
        question=row["question"],
        answers=texts(row["answer"]) if answerable else (),
        kind=KINDS.get(category, f"category {category}"),
        gold=_gold(row.get("evidence") or (), known) if answerable else (),
        answerable=answerable,
    )


def _gold(evidence: Sequence[str], known: set[str]) -> tuple[str, ...]:
    """Turns that exist, each once; what names none is passed over."""
    found = (f"D{int(a)}:{int(b)}" for one in evidence for a, b in _EVIDENCE.findall(one))
    return tuple(dict.fromkeys(one for one in found if one in known))

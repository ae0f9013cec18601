"""LongMemEval (Wu et al. 2025, xiaowu0162/LongMemEval, MIT): `longmemeval_s`, `_m` and `_oracle`, `.json`.

One user and an assistant; a history ("haystack") of its own for every question, so a conversation here has one
question. Turns that hold the answer are marked `has_answer`. Questions whose id ends in `_abs` cannot be answered.
"""

from collections import Counter
from datetime import datetime
from pathlib import Path

from eval.conversations.files import Row, layout, read_rows, texts
from eval.conversations.records import Conversation, Question, Session, Turn

_WANTED = (
    "`question_id`, `question_type`, `question`, `answer`, `question_date`, `haystack_session_ids`, `haystack_dates` "
    "and `haystack_sessions`, a list of turns with `role` and `content`"
)
_ABSTENTION = "_abs"
_WHEN = "%Y/%m/%d (%a) %H:%M"
"""As in 2023/05/20 (Sat) 02:21."""


def read_longmemeval(path: Path) -> list[Conversation]:
    """Read the file, gzipped or not; all of it is held in memory.

    Raises:
        InvalidInput: it cannot be read, or is of another form.
    """
    rows = read_rows(path)
    with layout(path, "LongMemEval", _WANTED):
        return [_conversation(row) for row in rows]


def _conversation(row: Row) -> Conversation:
    held = list(zip(_ids(row["haystack_session_ids"]), row["haystack_dates"], row["haystack_sessions"], strict=True))
    gold: list[str] = []
    sessions = []
    for session, date, told in held:
        turns = []
        for number, one in enumerate(told, start=1):
            turn = Turn(f"{session}:{number}", one["role"], one["content"].strip())
            turns.append(turn)
            if one.get("has_answer"):
                gold.append(turn.id)
        sessions.append(Session(_time(date), tuple(turns)))
    sessions.sort(key=lambda one: one.said_at or datetime.min)  # the oracle's are not in their order
    own = str(row["question_id"])
    answerable = not own.endswith(_ABSTENTION)
    asked = Question(
        id=own,
        question=row["question"],
        answers=texts(row["answer"]) if answerable else (),
        kind=row["question_type"],
        gold=tuple(gold) if answerable else (),
        answerable=answerable,
        asked_at=_time(row["question_date"]),
    )
    return Conversation(own, tuple(sessions), (asked,))


def _ids(given: list[str]) -> list[str]:
    """Sessions' ids; one that is there twice is numbered."""
    met: Counter[str] = Counter()
    named = []
    for one in given:
        met[one] += 1
        named.append(one if met[one] == 1 else f"{one}#{met[one]}")
    return named


def _time(written: str) -> datetime:
    return datetime.strptime(written, _WHEN)

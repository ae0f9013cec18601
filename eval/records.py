"""MUSE records and chains, as their files hold them, and the transitions that are evaluated.

A record is one transition C_old → C_full with questions; a chain is a history of many transitions whose
questions change their answers over time. Both become `MuseTransition`s, the one thing methods see.
Validation here is about form; whether a record is a GOOD record is the gates' business (`eval/build/gates.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from plume_memory.errors import InvalidInput
from plume_memory.records import join_transitions

Text = Annotated[str, Field(min_length=1)]
Answers = Annotated[tuple[Text, ...], Field(min_length=1)]


Parsed = TypeVar("Parsed", "MuseRecord", "MuseChain")
_SHOWN = 20
"""Mistakes told at once."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MuseQuestion(_Model):
    """A question asked after the update."""

    id: Text
    question: Text
    answers: Answers
    """References under C_full; the first is canonical, the others are aliases."""
    old_answers: Answers
    """References before the update; `answers`, if not given, where the update leaves the question alone."""
    affected: bool = False
    """True: the answer changes at this transition (Q_upd). False: it stays (Q_keep)."""
    gold_evidence: str = ""
    """Sentence(s) of the history that support the answer; empty where unknown."""

    @model_validator(mode="before")
    @classmethod
    def _kept_answers_are_the_old_ones(cls, given: Any) -> Any:
        if isinstance(given, dict) and not given.get("affected") and "answers" in given:
            return {"old_answers": given["answers"], **given}
        return given


class MuseRecord(_Model):
    """One transition and the questions asked after it."""

    id: Text
    dataset: Text = "own"
    """Records of one data set stand in one row of a table."""
    source_id: Text
    """Of the text that it was made from; `id`, if not given."""
    context_old: Text
    """C_old, the source's text verbatim."""
    context_update: Text
    """C_update, a self-consistent account in the source's style."""
    qas: Annotated[tuple[MuseQuestion, ...], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _ids_are_given(cls, given: Any) -> Any:
        """Number questions that have no id: q1, q2."""
        if not isinstance(given, dict):
            return given
        asked = given.get("qas")
        if isinstance(asked, list):
            asked = [
                {"id": f"q{number}", **one} if isinstance(one, dict) else one
                for number, one in enumerate(asked, start=1)
            ]
        named = {"source_id": given["id"]} if "id" in given else {}
        return {**named, **given, "qas": asked} if asked is not None else {**named, **given}

    @property
    def context_full(self) -> str:
        """C_full: both texts with the notice between them."""
        return join_transitions([self.context_old, self.context_update])

    @model_validator(mode="after")
    def _ids_are_unique(self) -> "MuseRecord":
        ids = [q.id for q in self.qas]
        if len(set(ids)) != len(ids):
            raise ValueError(f"question ids of record {self.id} repeat: {sorted(ids)}")
        return self


class ChainUpdate(_Model):
    """One update of a chain."""

    t: Annotated[int, Field(ge=1)]
    text: Text


class TimedAnswer(_Model):
    """What holds from step t on."""

    t: Annotated[int, Field(ge=0)]
    answers: Answers


class ChainQuestion(_Model):
    """A question whose answer changes along a chain."""

    id: Text
    question: Text
    timeline: Annotated[tuple[TimedAnswer, ...], Field(min_length=1)]

    def at(self, step: int) -> TimedAnswer | None:
        """The entry that holds after step t; None before the fact exists."""
        return next((entry for entry in reversed(self.timeline) if entry.t <= step), None)


class MuseChain(_Model):
    """A first text, a row of updates, and questions with timelines."""

    id: Text
    dataset: Text
    context_0: Text
    updates: Annotated[tuple[ChainUpdate, ...], Field(min_length=1)]
    questions: Annotated[tuple[ChainQuestion, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _steps_are_dense(self) -> "MuseChain":
        if [u.t for u in self.updates] != list(range(1, len(self.updates) + 1)):
            raise ValueError(f"updates of chain {self.id} are not numbered 1, 2, 3, …")
        for question in self.questions:
            steps = [entry.t for entry in question.timeline]
            if steps != sorted(set(steps)) or steps[-1] > len(self.updates):
                raise ValueError(f"timeline of {question.id} is not ascending within the chain: {steps}")
        return self


@dataclass(frozen=True, slots=True)
class MuseTransition:
    """A history just after one of its transitions, with the questions asked then."""

    id: str
    """Of the record, or `chain@t`."""
    dataset: str
    step: int
    """t: the number of updates so far; 1 for a record."""
    texts: tuple[str, ...]
    """C(0) and the updates, oldest first; the last one is the newest."""
    questions: tuple[MuseQuestion, ...]

    @property
    def full(self) -> str:
        """C(t)."""
        return join_transitions(list(self.texts))

    @property
    def old(self) -> str:
        """C(t−1); empty before the first update."""
        return join_transitions(list(self.texts[:-1]))


def of_record(record: MuseRecord) -> MuseTransition:
    """The one transition of a record."""
    return MuseTransition(record.id, record.dataset, 1, (record.context_old, record.context_update), record.qas)


def before(record: MuseRecord) -> MuseTransition:
    """A record before its update: C_old alone, every question with its old references (static recall)."""
    asked = tuple(q.model_copy(update={"answers": q.old_answers, "affected": False}) for q in record.qas)
    return MuseTransition(f"{record.id}@0", record.dataset, 0, (record.context_old,), asked)


def of_chain(chain: MuseChain, step: int) -> MuseTransition:
    """A chain after `step` updates.

    A question counts as affected when its answer changed at this very step. Its `old_answers` are all that any earlier
    entry said and the current one does not, the latest first: an answer from two updates ago is stale too. Questions
    whose fact does not exist yet are left out.

    Raises:
        InvalidInput: the chain has fewer updates.
    """
    if not 0 <= step <= len(chain.updates):
        raise InvalidInput(f"Chain {chain.id} has {len(chain.updates)} updates; step {step} was asked for.")
    texts = (chain.context_0, *(u.text for u in chain.updates[:step]))
    asked = []
    for question in chain.questions:
        now = question.at(step)
        if now is None:
            continue
        earlier = [entry for entry in question.timeline if entry.t < now.t]
        changed = bool(earlier) and now.t == step
        said = (answer for entry in reversed(earlier) for answer in entry.answers)
        replaced = tuple(dict.fromkeys(answer for answer in said if answer not in now.answers))
        asked.append(
            MuseQuestion(
                id=f"{question.id}@{step}",
                question=question.question,
                answers=now.answers,
                old_answers=replaced or now.answers,
                affected=changed,
                gold_evidence=texts[now.t],
            )
        )
    return MuseTransition(f"{chain.id}@{step}", chain.dataset, step, texts, tuple(asked))


def read_records(path: Path) -> list[MuseRecord]:
    """Read a JSONL file of records.

    Raises:
        InvalidInput: the file cannot be read, lines are no records (all that is wrong with each), or an id repeats.
    """
    return _unique(path, _parsed(MuseRecord, path))


def read_chains(path: Path) -> list[MuseChain]:
    """Read a JSONL file of chains; see `read_records`."""
    return _unique(path, _parsed(MuseChain, path))


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise InvalidInput(f"Cannot read MUSE records from {path}: {err}") from err
    return [(number, line) for number, line in enumerate(content.split("\n"), start=1) if line.strip()]


def _parsed(kind: type[Parsed], path: Path) -> list[Parsed]:
    read: list[Parsed] = []
    wrong: list[str] = []
    for number, line in _lines(path):
        try:
            read.append(kind.model_validate_json(line))
        except ValidationError as err:
            wrong += [f"line {number}: {'.'.join(map(str, one['loc'])) or 'all'}: {one['msg']}" for one in err.errors()]
    if wrong:
        more = f"\n… and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        listed = "\n".join(wrong[:_SHOWN])
        raise InvalidInput(f"{path} is not of {kind.__name__}s (docs/evaluation.md has an example):\n{listed}{more}")
    return read


def _unique(path: Path, read: Sequence[Parsed]) -> list[Parsed]:
    seen: set[str] = set()
    for one in read:
        if one.id in seen:
            raise InvalidInput(f"{path} holds {one.id!r} twice; ids must be unique.")
        seen.add(one.id)
    return list(read)

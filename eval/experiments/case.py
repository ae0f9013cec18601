"""`case`: one question explained, token by token: the evidence, both streams' candidates, λ_t and the divergence."""

import math
from dataclasses import dataclass, replace

from eval.methods.parametric import Plume
from eval.records import MuseQuestion, MuseTransition
from eval.report.view import Line, LineFigure, Table, View
from plume_memory.answering.answer import decode_all
from plume_memory.errors import InvalidInput
from plume_memory.records import Candidate, ScoredUnit, TokenTrace
from plume_memory.retrieval.retrieve import retrieve

SHOWN = 5
"""Candidates of each stream per token."""
UNITS = 5
"""Units of the ranking."""


@dataclass(frozen=True, slots=True)
class Case:
    """What PLUME did with one question."""

    transition: MuseTransition
    question: MuseQuestion
    units: tuple[ScoredUnit, ...]
    """As they are ranked."""
    evidence: tuple[ScoredUnit, ...]
    """What the answer is from; none where the memory is not relevant."""
    text: str
    trace: tuple[TokenTrace, ...]


def find(transitions: list[MuseTransition], question_id: str) -> tuple[MuseTransition, MuseQuestion]:
    """The question with an id.

    Raises:
        InvalidInput: there is none.
    """
    for transition in transitions:
        for question in transition.questions:
            if question.id == question_id:
                return transition, question
    some = ", ".join(q.id for t in transitions[:3] for q in t.questions[:2])
    raise InvalidInput(f"No question {question_id!r} in the chosen datasets; ids look like {some}.")


def explain(method: Plume, transition: MuseTransition, question: MuseQuestion) -> Case:
    """Answer one question and keep the candidates."""
    prepared = method.prepare(transition)
    engine = method.engine
    units = retrieve(prepared.index, question.question, engine.reader.of(method.cache), engine.policy, k=UNITS)[:UNITS]
    settings = replace(method.answerer.settings, top_candidates=SHOWN)
    own = prepared.prepared(question)
    decoded = decode_all(engine.scheduler, [own], settings)[0]
    return Case(transition, question, tuple(units), own.evidence, decoded.text, decoded.trace)


def view(case: Case) -> View:
    """Question and answer, routing, tokens, and λ_t along the answer."""
    asked = Table(
        "Question",
        ("", ""),
        (
            ("question", case.question.question),
            ("reference", " / ".join(case.question.answers)),
            ("before the update", " / ".join(case.question.old_answers)),
            ("answer", case.text),
        ),
    )
    units = Table(
        "Units, as they are ranked",
        ("version", "score", "superseded", "evidence", "text"),
        tuple(
            (
                str(u.unit.version),
                f"{u.score:.3g}",
                "yes" if u.superseded else "no",
                "yes" if u.unit in [one.unit for one in case.evidence] else "no",
                u.unit.text,
            )
            for u in case.units
        ),
        ("Superseded: another unit takes its place; evidence is what the answer is from.",),
    )
    tokens = Table(
        "Tokens",
        ("chosen", "JS, nats", "λ", "global stream", "evidence stream"),
        tuple(
            (repr(t.text), f"{t.js:.3f}", f"{t.weight:.3f}", _listed(t.global_top), _listed(t.evidence_top))
            for t in case.trace
        ),
        ("Each stream's first candidates with their probabilities; chosen is argmax log p_g + λ·log p_e.",),
    )
    steps = tuple(float(n) for n in range(1, len(case.trace) + 1))
    lines = (
        Line("λ", steps, tuple(t.weight for t in case.trace)),
        Line("JS, nats", steps, tuple(t.js for t in case.trace)),
    )
    return View([asked, units, tokens], (LineFigure("case", case.question.question, "token", "", lines),))


def _listed(candidates: tuple[Candidate, ...]) -> str:
    return ", ".join(f"{one.text!r} {math.exp(one.log_prob):.2f}" for one in candidates)

"""From questions to answers, step by step, for one memory pinned at one version.

    1 pin a version        pinned.py: a `Snapshot` is one history, its index, its global adapter
    2 retrieve             retrieval/retrieve.py
    3 choose the evidence  evidence.py; none where the memory is not relevant: the bare model answers
    4 rows                 [model + ΔW_g] and [states of the evidence + model + H(evidence)]
    5 decode               model/decode.py
    6 once more            where the answer has no word of its evidence (grounding.py)
    7 source, confidence   grounding.py, calibration.py; is it known?

Values go from step to step; nothing here knows a database, a thread or a server.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from plume_memory.answering.calibration import confidence, mean_log_probability
from plume_memory.answering.evidence import choose_evidence
from plume_memory.answering.grounding import is_cut_short, is_grounded, source_of
from plume_memory.encoding import Cache
from plume_memory.engine import Engine
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.prompt import Framed
from plume_memory.model.queries import Decoded, DecodeSettings, Query, Step
from plume_memory.policy import AnswerPolicy
from plume_memory.records import Answer, Overrules, ScoredUnit, Signals, Usage, best_gain, join_units
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import NOTHING_RETIRED, Nears, retrieve
from plume_memory.retrieval.supersede import Retired
from plume_memory.scheduling import BATCH, Scheduler
from plume_memory.stages import stage

ABSTENTION = "I have nothing about that in memory."
"""What is said where `unknown="abstain"` and the memory does not know."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedQuestion:
    """A question with everything its answer is decoded from."""

    question: str
    """The words that were routed."""
    evidence: tuple[ScoredUnit, ...]
    """The first in rank first; none where the memory is not relevant, or empty."""
    query: Query
    retry: Query | None = None
    """The same with more weight on the evidence's adapter; None: it is not decoded again."""
    after_tool: bool = False
    """Whether what a tool said is the evidence, in place of what memory was told."""


def evidence_of(
    engine: Engine,
    index: UnitIndex,
    question: str,
    cache: Cache,
    *,
    near: Nears | None = None,
    retired: Retired = NOTHING_RETIRED,
    without: frozenset[int] = frozenset(),
    overrules: Mapping[int, Overrules] | None = None,
) -> tuple[ScoredUnit, ...]:
    """Steps 2 and 3: the evidence of a question; none where the memory is empty or not relevant.

    Of the units in `retired` none is evidence where it no longer holds for the question, of those in `without` none;
    `overrules` is what callers decided of their updates, by version.

    Raises:
        InvalidInput: the question has half a character.
    """
    policy = engine.policy
    reader, k = engine.reader.of(cache), policy.evidence_units
    ranked = retrieve(
        *(index, question, reader, policy),
        k=k,
        near=near,
        judge=engine.judge,
        retired=retired,
        without=without,
        overrules=overrules,
    )
    return choose_evidence(ranked, question, policy)


def prepare(
    engine: Engine,
    question: str,
    framed: Framed,
    evidence: Sequence[ScoredUnit],
    global_adapter: LoraFactors | None,
    cache: Cache,
    *,
    tools: bool = False,
) -> PreparedQuestion:
    """Step 4: the rows of a question.

    Args:
        engine: its policy says what the evidence row carries.
        question: the words that were routed.
        framed: the conversation.
        evidence: of `evidence_of`.
        global_adapter: ΔW_g; takes no part without evidence.
        cache: whose texts they are.
        tools: whether the answer may be a call: its words are not those of the evidence.
    """
    if not evidence:
        return PreparedQuestion(question, (), engine.query(framed, None, None))
    units = [one.unit for one in evidence]
    policy = engine.policy
    # beyond the paper, as the retry is: values are copied exactly, and an answer that runs on is ended
    watched = policy.retrieval == "reader" and not tools
    sources = (question, *(unit.text for unit in units)) if watched else None
    query = engine.query(framed, global_adapter, engine.evidence(units, framed, cache), sources=sources)
    if policy.retry_scale is None or not _gains_enough(policy, evidence):
        return PreparedQuestion(question, tuple(evidence), query)
    louder = engine.evidence(units, framed, cache, scale=policy.retry_scale)
    retry = engine.query(framed, global_adapter, louder, sources=sources)
    return PreparedQuestion(question, tuple(evidence), query, retry)


@stage("decode")
def decode_all(
    scheduler: Scheduler,
    prepared: Sequence[PreparedQuestion],
    settings: DecodeSettings,
    *,
    batch: int = BATCH,
    owner: str = "",
) -> list[Decoded]:
    """Steps 5 and 6: decode questions together, and once more those whose answers are not grounded.

    A second answer is given only if it is grounded; else the first stays. Errors: `Scheduler.stream`.
    """
    answers = scheduler.decode([one.query for one in prepared], settings, batch=batch, owner=owner)
    again = [i for i, one in enumerate(prepared) if _is_to_be_retried(one, answers[i].text, settings)]
    retries = [retry for i in again if (retry := prepared[i].retry) is not None]
    for i, second in zip(again, scheduler.decode(retries, settings, batch=batch, owner=owner), strict=True):
        said = second if is_grounded(second.text, prepared[i].question, prepared[i].evidence) else answers[i]
        answers[i] = replace(said, retried=True)
    return answers


def decode_stream(
    scheduler: Scheduler, prepared: PreparedQuestion, settings: DecodeSettings, *, owner: str = ""
) -> Generator[Step, None, None]:
    """Steps 5 and 6, token by token: the answer that `decode_all` gives.

    Where a question may be decoded again, the first step comes when its answer is grounded, or at its end.
    """
    if prepared.retry is None or settings.grammar is not None:
        yield from scheduler.stream([prepared.query], settings, owner=owner)
        return
    held: list[Step] = []
    with closing(scheduler.stream([prepared.query], settings, owner=owner)) as decoding:
        for step in decoding:
            held.append(step)
            if is_grounded(_whole_words(held), prepared.question, prepared.evidence):
                yield from held
                yield from decoding
                return
    with closing(scheduler.stream([prepared.retry], settings, owner=owner)) as decoding:
        again = list(decoding)
    said = again if is_grounded(_whole_words(again), prepared.question, prepared.evidence) else held
    yield from (replace(step, retried=True) for step in said)


def finish(
    engine: Engine,
    prepared: Sequence[PreparedQuestion],
    decoded: Sequence[Decoded],
    *,
    memory: str,
    version: int,
    known_at: float | None = None,
) -> list[Answer]:
    """Step 7: the answers with their sources, how sure they are, and whether that is enough to count as known."""
    least = (engine.policy.known_at or 0.0) if known_at is None else known_at
    prepared = [replace(one, evidence=()) if one.after_tool else one for one in prepared]  # nothing of it is memory's
    judged = iter(_judged(engine, prepared, decoded))
    answers = []
    for one, own in zip(prepared, decoded, strict=True):
        evidence = one.evidence
        signals = _signals(own, evidence, next(judged) if evidence and own.trace else None)
        sure = confidence(signals, engine.calibration) if signals and evidence else 0.0
        is_cut = least > 0 and own.finish_reason == "length" and is_cut_short(own.text, evidence)
        answers.append(
            Answer(
                text=own.text,
                memory=memory,
                version=version,
                evidence=source_of(own.text, one.question, evidence),
                usage=own.usage,
                finish_reason=own.finish_reason,
                confidence=sure,
                known=bool(evidence) and sure >= least and not is_cut,
                retried=own.retried,
                signals=signals,
                trace=own.trace,
                evidence_units=tuple(sorted(evidence, key=lambda each: (each.unit.position, each.unit.start))),
            )
        )
    return answers


def unknown_answer(memory: str, version: int) -> Answer:
    """The abstention to a question that the memory has no evidence for: nothing is decoded."""
    return Answer(
        text=ABSTENTION,
        memory=memory,
        version=version,
        evidence=None,
        usage=Usage(0, 0),
        finish_reason="stop",
        confidence=0.0,
        known=False,
    )


def abstained(answer: Answer) -> Answer:
    """The abstention in place of an answer that is not known; what it would have been from is left in it."""
    return replace(answer, text=ABSTENTION)


def _judged(
    engine: Engine, prepared: Sequence[PreparedQuestion], decoded: Sequence[Decoded]
) -> list[tuple[float, float] | None]:
    """The judge's log-odds on each answer that has evidence: that it answers the question, and says the answer."""
    pairs = [(one, own) for one, own in zip(prepared, decoded, strict=True) if one.evidence and own.trace]
    if engine.judge is None:
        return [None for _ in pairs]
    claims = []
    for one, own in pairs:
        text = join_units([each.unit for each in one.evidence])
        claims += [(text, one.question, ""), (text, one.question, own.text)]
    odds = engine.judge.support(claims)
    return list(zip(odds[::2], odds[1::2], strict=True))


def _signals(decoded: Decoded, evidence: Sequence[ScoredUnit], judged: tuple[float, float] | None) -> Signals | None:
    if not decoded.trace:
        return None
    answerable, support = judged or (None, None)
    gain = best_gain(evidence) if evidence else 0.0  # nothing was gained
    return Signals(mean_log_probability(decoded.trace), gain, answerable, support)


def _gains_enough(policy: AnswerPolicy, evidence: Sequence[ScoredUnit]) -> bool:
    """Whether to decode again at all: what is relevant only faintly would be said louder too."""
    gain = best_gain(evidence)
    return gain is None or policy.min_gain is None or gain >= policy.min_gain


def _is_to_be_retried(prepared: PreparedQuestion, answer: str, settings: DecodeSettings) -> bool:
    """Whether to decode again; a grammar leaves no choice of words."""
    if prepared.retry is None or settings.grammar is not None:
        return False
    return not is_grounded(answer, prepared.question, prepared.evidence)


def _whole_words(steps: Sequence[Step]) -> str:
    """What was said so far, without the word that may go on."""
    text = "".join(step.text for step in steps)
    if steps[-1].finish_reason is not None:
        return text
    return text[: max((at for at, letter in enumerate(text, start=1) if letter.isspace()), default=0)]

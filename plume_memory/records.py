"""Values that cross module boundaries. Frozen; no torch, no SQL."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict

NOTICE = "[Correction & Update Notice]: The following account supersedes the corresponding details above."
"""Stands between two transitions of a history, exactly once per transition (METHOD: task)."""


Form = Literal["notes", "chat", "markdown", "email", "html", "table", "data", "prose", "transcript"]
"""How a text is written; docs/forms.md."""
VersionKind = Literal["update", "rollback", "forget", "erase"]


class Span(NamedTuple):
    """A part of a text: from `start` to before `end`, in characters (code points)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Version:
    """One immutable entry of a memory's log."""

    memory: str
    """Name of the memory."""
    number: int
    """1 for the first entry, then dense and ascending."""
    kind: VersionKind
    text: str
    """The update's text as given, without what was erased of it; empty for every other kind."""
    text_sha256: str
    """Of the text as given, erased or not."""
    restores: int | None
    """For a rollback: the version whose history holds again from here on."""
    forgets: int | None
    """For a forget or an erase: the update whose text no longer holds from here on."""
    metadata: dict[str, Any]
    """For a forget or an erase with a reason: `{"reason": …}`; an erase has "erased" too, which vouches for what is
    left of the erased update (store/chain.py)."""
    created_at: datetime
    """Aware, UTC."""
    idempotency_key: str | None
    parent_hash: str
    """chain_hash of the entry before; 64 zeros for the first."""
    chain_hash: str
    """sha256 over (parent_hash, number, kind, restores or forgets with the span, text_sha256, created_at, metadata)."""
    span: Span | None = None
    """For a forget or an erase of a part: which, in the update's text as the log held it until this version."""
    erased_by: int | None = None
    """For an update that was erased, whole or in part: the last version of kind erase that names it."""


@dataclass(frozen=True, slots=True)
class Overrules:
    """What the caller of an update decided of what it replaces; kept in the version's metadata."""

    replaces: tuple[int, ...] = ()
    """Updates whose texts it replaces, whatever the judge says."""
    keeps: tuple[int, ...] = ()
    """Updates of which it replaces nothing, whatever judge and words say."""
    keeps_all: bool = False
    """It replaces nothing but what `replaces` names."""

    def keep(self, version: int) -> bool:
        """Whether nothing of an update is replaced, whatever judge and words say."""
        return self.keeps_all or version in self.keeps


@dataclass(frozen=True, slots=True)
class Context:
    """What the caller of an update said of its text beside it; kept in the version's metadata."""

    form: Form | None = None
    """How it is written; None: as it looks."""
    speaker: str | None = None
    """Whose words it is, where it names nobody; None: the owner's."""
    observed_at: datetime | None = None
    """When it was said or seen, where it names no time; "yesterday" is counted from there."""
    in_answer_to: str | None = None
    """What was asked before it: "Bern." says nothing without."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One text of a history, with the version that brought it."""

    version: int
    text: str
    overrules: Overrules = Overrules()
    context: Context = Context()
    expires_at: datetime | None = None
    """Aware; from then on it is not read any more. None: it holds until something replaces it."""
    written_at: datetime | None = field(default=None, compare=False)
    """Aware, UTC; None of a text that is in no log."""


class ForgetOptions(TypedDict, total=False):
    """What is to be forgotten, beside the version's number, and how; see `ParametricMemory.forget`."""

    text: str | None
    """Exact words, which must stand in one place; with a version, in one place of its text."""
    span: tuple[int, int] | None
    """The part of the version's text: first character and one past the last, in the text as the log holds it."""
    reason: str | None
    """Kept in the new version's metadata under "reason"."""
    idempotency_key: str | None
    """The same key with the same target is one forget, however often it is sent."""
    expected_version: int | None
    """Append only if this is still the newest version."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What one version's history holds and another's does not."""

    before: int
    after: int
    removed: tuple[Transition, ...]
    """Held at `before`, not at `after` (a rollback, a forget or an erasure in between)."""
    added: tuple[Transition, ...]
    """Held at `after`, not at `before`."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` checked; it raises instead of returning when anything is wrong."""

    versions: int
    head_hash: str
    """Chain hash of the newest version; 64 zeros for an empty log."""
    derived: int = 0
    """Texts whose kept factors were compared with factors derived anew."""


@dataclass(frozen=True, slots=True)
class History:
    """C(t): the transitions that hold at one version, oldest first."""

    memory: str
    version: int
    transitions: tuple[Transition, ...]

    @property
    def text(self) -> str:
        """The transitions joined by one line break, the notice, one line break."""
        return join_transitions([t.text for t in self.transitions])

    @property
    def overrules(self) -> dict[int, Overrules]:
        """What callers decided of what their updates replace, by version; of those that did."""
        return {one.version: one.overrules for one in self.transitions if one.overrules != Overrules()}

    @property
    def predecessor(self) -> tuple[Transition, ...]:
        """C(t−1) of the method: the history without its newest transition.

        After a rollback or a forget too: the newest text that still holds is what the update weight β
        stresses. The history of the version before would not do: it holds the text that was taken back,
        which would then stand in the adapter, at −β.
        """
        return self.transitions[:-1]


def join_transitions(texts: list[str]) -> str:
    """C(t) = C(t−1) ‖ C_u(t): joined by a line break, the notice and a line break."""
    return f"\n{NOTICE}\n".join(texts)


@dataclass(frozen=True, slots=True)
class ErasedText:
    """One row of the log whose text was erased, whole or in part."""

    memory: str
    version: int
    """The erased update."""
    span: Span | None
    """The part, in the text as the log held it until then; None for the whole text."""
    erased_by: int
    """The version of kind erase that was appended to this memory; in its chain."""
    text_sha256: str
    """Of the text as it was written."""
    left_sha256: str
    """Of what is left of it; that of the empty text when nothing is."""
    chain_hash: str
    """Of the erased update; unchanged."""


@dataclass(frozen=True, slots=True)
class ErasureCertificate:
    """What `forget(…, erase=True)` removed, and what it could not. Every number in it can be checked in the log."""

    memory: str
    version: int
    """The version of kind erase that was appended to it."""
    reason: str | None
    erased: tuple[ErasedText, ...]
    """One per row: the memory's own first, then copies of it in forks and imports of the same database."""
    artifacts: tuple[str, ...]
    """sha256 of every artifact that was deleted: all that were derived from a memory that held the text, and all
    whose origin an older release did not record. Empty when an erasure is asked about again later."""
    artifacts_place: str
    """The only place that was searched for artifacts."""
    still_said_by: tuple[int, ...]
    """Other versions of the memory whose text, metadata or key holds the same words, or that quote some of them as what
    they answer: they were left alone."""
    journal_items: int
    """Items of a LangChain store's journal in the same database that were deleted: those whose texts were erased. 0
    when an erasure is asked about again later."""
    rebuilt: tuple[int, ...]
    """Versions whose adapter was derived anew before this was returned; any other is when it is next read."""
    erased_at: datetime
    """Aware, UTC."""
    limits: tuple[str, ...]
    """What this does not cover, in words."""
    confirmed_by: int = 0
    """Processes with a `MemoryPool` on this PostgreSQL database that said they have let go of the text, this one
    included if it has one. 0 on SQLite."""
    unconfirmed_by: int = 0
    """Such processes that did not say so within two seconds: each lets go when it next reads the memory, or ends."""

    def to_json(self) -> str:
        """Return one JSON document, keys sorted, times in ISO 8601."""
        found = dataclasses.asdict(self)
        for text in found["erased"]:  # asdict makes an object of a NamedTuple's own kind, JSON a list
            text["span"] = None if text["span"] is None else {"start": text["span"].start, "end": text["span"].end}
        return json.dumps({**found, "erased_at": self.erased_at.isoformat()}, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """What an archive holds: of an export what was written, of an import what was read."""

    memory: str
    versions: int
    head_hash: str
    """Chain hash of the newest version; 64 zeros for an empty memory."""
    artifacts: int
    """0 unless they were asked for."""
    artifacts_left_out: int
    """Derived and noted, but missing or damaged where the artifacts are; the log rebuilds them."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A routable segment of a history."""

    position: int
    """Temporal order: 0 for the oldest unit of the history."""
    version: int
    """The version whose text this unit is part of."""
    start: int
    """First character in that version's text."""
    end: int
    """One past the last character in that version's text."""
    text: str
    """What it says: `version_text[start:end]`, or a cell or field of a record as a sentence; beside days that are named
    from there ("yesterday") their dates. Before it, a line each, the headings it stands under and whose words it is."""
    own: int = 0
    """First character of `text` that is the unit's own: what stands before it are headings, of other units too."""
    speaker: str | None = None
    """Whose words it is; None: nobody is named, or the owner."""
    observed_at: datetime | None = None
    """When it was said; without a zone where the text names none, None where nothing says."""

    @property
    def words(self) -> str:
        """The text without its headings."""
        return self.text[self.own :]


def join_units(units: Iterable[Unit]) -> str:
    """One text of several units, in temporal order, joined by a blank; a single unit's text stays as it is."""
    texts = [unit.text for unit in sorted(units, key=lambda unit: (unit.position, unit.start))]
    return texts[0] if len(texts) == 1 else " ".join(text.strip() for text in texts)


class Verdict(NamedTuple):
    """What a later text does to an earlier one: probabilities that add up to 1."""

    unrelated: float
    """It is about something else."""
    adds: float
    """Both hold."""
    replaces: float
    """What the earlier one says no longer holds."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A unit that no longer holds, and what took its place."""

    earlier: Unit
    later: Unit
    probability: float
    """That the later one replaces it, as the judge found (retrieval/judge.py); 1.0 where the caller said so."""
    by_caller: bool = False


@dataclass(frozen=True, slots=True)
class ScoredUnit:
    """A unit with its score for one query."""

    unit: Unit
    score: float
    """Between 0 and 1; 0 only for a unit that has no term of the query.

    With `retrieval="lexical"` the equation of METHOD (query-activated memory evidence). With `reader` the geometric
    mean probability of the query's tokens behind the unit, lowered by the words it lacks (retrieval/retrieve.py); a
    unit that was not read has its lexical score times the least of those that were, so it never stands above one of
    them.
    """
    gain: float | None = field(default=None, compare=False)
    """Nats by which reading the unit makes the query likelier than reading no text, summed over the tokens that gain.
    None where it was not read."""
    superseded: bool = field(default=False, compare=False)
    """Whether a later unit replaced it (`Replacement`): it is no evidence."""


def best_gain(units: Sequence[ScoredUnit]) -> float | None:
    """Return the largest `gain` of some units; None where none has one."""
    return max((one.gain for one in units if one.gain is not None), default=None)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token a stream would have chosen."""

    token_id: int
    text: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """What the fused decode did for one token."""

    token_id: int
    text: str
    js: float
    """Jensen-Shannon divergence of the two streams, nats; between 0 and ln 2."""
    weight: float
    """λ_t, the evidence stream's weight."""
    log_prob: float
    """Of the token under both streams, nats: their geometric mean by the weights 1 and λ_t, normalised.

    That is the fused distribution S_t / (1 + λ_t); undivided, a large λ_t makes every token certain.
    """
    global_top: tuple[Candidate, ...] = ()
    evidence_top: tuple[Candidate, ...] = ()
    top: tuple[Candidate, ...] = ()
    """Of the distribution that `log_prob` is of."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one stream: the two rows of a query share the same prompt and the same answer."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Signals:
    """What `Answer.confidence` may be made of; see answering/calibration.py."""

    mean_log_prob: float
    """Of the answer's tokens, nats, below 0."""
    gain: float | None = None
    """Best of the evidence's units, nats; 0 without evidence, None where none was read."""
    answerable: float | None = None
    """Log-odds, by the judge, that the evidence answers the question; None without evidence or judge."""
    support: float | None = None
    """Log-odds, by the judge, that the evidence says what the answer says; None without evidence or judge."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a memory answered, and from what."""

    text: str
    memory: str
    version: int
    """The one version this answer was decoded against."""
    evidence: ScoredUnit | None
    """The unit the answer is from, of several the one whose words it has (answering/grounding.py); None while the
    memory is empty, or if it is not relevant to the question (`AnswerPolicy.min_gain`): then no adapter took part."""
    usage: Usage
    finish_reason: Literal["stop", "length"]
    """`stop`: the model ended it, or a stop text, or it ran on. `length`: the budget did, or it went in a circle."""
    confidence: float
    """How sure the answer is, in [0, 1]; see answering/calibration.py. Calibrated for the network where it brings a
    calibration: then the share of answers of such confidence that said what the memory was told. 0 without
    evidence: nothing the memory was told is in the answer."""
    trace: tuple[TokenTrace, ...] = field(default=(), repr=False)
    evidence_units: tuple[ScoredUnit, ...] = ()
    """Every unit the answer is from, in temporal order."""
    known: bool = True
    """Whether the memory was told this, as far as it can tell: there is evidence, the confidence reaches the
    policy's `known_at`, and no value of it was cut short by `max_new_tokens`."""
    retried: bool = False
    """Whether it was decoded a second time, with more weight on its evidence: at first it had no word of it."""
    signals: Signals | None = None
    """None where nothing was decoded."""

    @property
    def mean_weight(self) -> float:
        """Mean λ_t over the answer's tokens; 0.0 for an empty answer."""
        return sum(t.weight for t in self.trace) / len(self.trace) if self.trace else 0.0


@dataclass(frozen=True, slots=True)
class AnswerChunk:
    """A piece of a streamed answer."""

    text: str
    answer: Answer | None = None
    """The whole answer, on the last chunk only."""

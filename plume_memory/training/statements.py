"""Turns a question and its answer into one statement that ends with the answer.

A small model opens a reply with the question's words, and finds a fact best behind them: "The badge code
of Mira Holm is" recalls what a bare "assistant:" does not. So memories are trained to answer in statements.
The rules keep the question's words and their order, and prefer a plain cleft to fine grammar
(verbs are not inflected):

    In what year did the bridge open?   1937     The year in which the bridge open is 1937.
    Who wrote Hamlet?                   Anna     The one who wrote Hamlet is Anna.
    How many towers stand there?        three    The number of towers that stand there is three.
"""

import re
from typing import NamedTuple


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_DO = _words("do does did")
_BE = _words("is are was were")
_AUXILIARIES = _DO + _BE + _words("has have had can could will would should may might must")
_PREPOSITIONS = _words("in at on by to of from for with under during through within between after before into as about")
_HOW = {
    "many": "number of",
    "much": "amount of",
    "long": "length of time that",
    "old": "age that",
    "often": "frequency with which",
    "far": "distance that",
    "large": "size that",
    "big": "size that",
    "tall": "height that",
    "high": "height that",
}
_OPENS_NOUN = _words("the a an this that these those his her its their my your our one each every all another")
_LEADS = {
    "who": "The one who",
    "whom": "The one whom",
    "what": "What",
    "when": "The time when",
    "where": "The place where",
    "why": "The reason why",
    "how": "The way in which",
}
_VERB = re.compile(
    r"^(?:\w{3,}ed|happens|makes|causes|became|began|broke|came|caught|cost|drove|fell|gave|grew|held|kept|led|made|took|"
    r"won)$"
)
_EMBEDDED = re.compile(r"\b(?:what|which|who|whom|where|when|how (?:many|much))\b(?:\s[\w'-]+){0,2}$", re.IGNORECASE)
_PARTICIPLE = re.compile(
    r"^(?:\w{2,}ed|\w{3,}ing|\w+(?:own|orn|itten|oken|aken|iven|osen|ought|uilt)|born|made|held|known|called|found|set|"
    r"sold|told|said|seen|done|sent|led|lost|won|put|met|paid|left|kept|laid|read|cut|used|able|based)$"
)


class _Asked(NamedTuple):
    """A question behind its wh-phrase."""

    lead: str
    """Opens the statement in the wh-phrase's place: "The year in which"."""
    rest: list[str]


def as_statement(question: str, answer: str) -> str | None:
    """Return one sentence that ends with the answer as it stands; None where no rule fits.

    Args:
        question: of any form.
        answer: short, as the text has it.
    """
    words = question.strip().rstrip("?!. ").split()
    asked = _asked(words)
    if asked is None:
        stem = _embedded(words)
    elif not asked.rest:
        stem = None
    else:
        stem = _clause(asked)
    if stem is None or not stem or answer.lower() in stem.lower():
        return None
    return _closed(f"{stem[0].upper()}{stem[1:]} {answer}")


def _asked(words: list[str]) -> _Asked | None:
    """Find the wh-phrase at the beginning, behind a preposition or not."""
    low = [word.lower().rstrip(",") for word in words]
    if len(words) > 2 and low[0] in _PREPOSITIONS and low[1] in ("what", "which", "whom", "whose", "how"):
        inner = _asked(words[1:])
        if inner is None or not inner.lead.startswith("The "):
            return None
        noun = inner.lead.removesuffix(" that")
        return _Asked(f"{noun} {low[0]} which", inner.rest) if inner.lead.endswith(" that") else None
    if not words or low[0] not in (*_LEADS, "which", "whose"):
        return None
    at = next((i for i, word in enumerate(low) if i and word in _AUXILIARIES), None)
    if low[0] == "what" and len(low) > 2 and _VERB.match(low[1]):
        return _Asked("What", words[1:])
    if low[0] == "whose" and at is not None and at > 1:
        return _Asked(f"The one whose {' '.join(words[1:at])}", words[at:])
    if low[0] in ("what", "which", "whose") and at != 1:
        # "what year did …", "which company owns …": the noun ends at the auxiliary, or else at the verb
        end = at if at is not None and at <= 6 else _noun_end(low)
        return None if end is None else _Asked(f"The {' '.join(words[1:end])} that", words[end:])
    if low[0] == "how" and len(low) > 1 and low[1] in _HOW:
        return _how(words, low, at)
    if low[0] == "which":
        return _Asked("What", words[1:])
    return _Asked(_LEADS.get(low[0], "What"), words[1:])


def _how(words: list[str], low: list[str], at: int | None) -> _Asked | None:
    measure = _HOW[low[1]]
    if not measure.endswith("of"):
        return _Asked(f"The {measure}", words[2:])
    if at is not None and at <= 6:
        end = at
    else:  # the counted noun is a plural: most end in -s
        end = next((i + 1 for i in range(2, min(5, len(low))) if low[i].endswith("s")), 3)
    noun, rest = " ".join(words[2:end]), words[end:]
    return _Asked(f"The {measure} {noun} that" if noun else "The amount that", rest)


def _noun_end(low: list[str]) -> int | None:
    """Where a noun of one to three words ends and a verb in -s or -ed begins: "company owns", "band played"."""
    return next(
        (
            i
            for i in range(2, min(5, len(low)))
            if re.search(r"(?:[^s]s|ed)$", low[i]) and not low[i - 1].endswith("'s")
        ),
        2 if len(low) > 2 else None,
    )


def _clause(asked: _Asked) -> str | None:
    """Put the clause behind its lead, with the verb after its subject, and close it with "is"."""
    if asked.lead.startswith("The one whose"):
        return f"{asked.lead} {' '.join(asked.rest)} is"
    first, rest = asked.rest[0].lower(), asked.rest[1:]
    if not rest:
        return None
    if first in _BE:
        opens = rest[0].lower() in _OPENS_NOUN or rest[0][0].isupper() or rest[0].endswith("'s")
        split = _split(rest)
        if asked.lead in ("What", "The one who") and opens and split is None:
            return f"{' '.join(rest)} {first}"
        if split is not None and opens:
            return f"{asked.lead} {' '.join(rest[:split])} {first} {' '.join(rest[split:])} is"
        if asked.lead.startswith(("The time", "The place")) or (asked.lead.endswith(" that") and opens):
            return f"{asked.lead} {' '.join(rest)} {first} is"
        return f"{asked.lead} {first} {' '.join(rest)} is"
    if first in _DO:
        return f"{asked.lead} {' '.join(rest)} is"
    if first in _AUXILIARIES:
        split = _split(rest)
        if split is None:
            return f"{asked.lead} {first} {' '.join(rest)} is"
        return f"{asked.lead} {' '.join(rest[:split])} {first} {' '.join(rest[split:])} is"
    return f"{asked.lead} {' '.join(asked.rest)} is"


def _split(words: list[str]) -> int | None:
    """Where the subject ends: before the first participle that no noun follows closely."""
    closed = _PREPOSITIONS + _OPENS_NOUN
    return next(
        (
            i
            for i, word in enumerate(words)
            if i and _PARTICIPLE.match(word.lower()) and words[i - 1].lower() not in closed
        ),
        None,
    )


def _embedded(words: list[str]) -> str | None:
    """A question that names its gap at the end: "The bridge opened in what year"."""
    text = " ".join(words)
    found = _EMBEDDED.search(text)
    return text[: found.start()].rstrip(" ,") if found and found.start() else None


def _closed(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."

"""Cases that are drawn from samples: texts with a correction, and passages of which one value was changed.

Of single invented facts they are drawn in `facts/cases.py`. Knows no tokens, models or losses.
"""

import random
from collections.abc import Sequence

from plume_memory.segmentation.statements import statements_of
from plume_memory.training.cases import ClaimSet, PairSet, Verdict, garbled
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.sources.matching import holds


def pairs_of(sample: Sample, chance: random.Random, *, most: int) -> PairSet | None:
    """Take a sentence of an update, and sentences of the text before it; None where there is none to tell from another.

    One that gives the new value replaces those that gave the old one. What else may be said of a changed value is left
    out: it may be half outdated.
    """
    if sample.update is None:
        return None
    changed = [ask for ask in sample.asks if ask.stale is not None]
    told = statements_of(sample.update)
    newer = [one for one in told if any(holds(one, ask.answer) for ask in changed)]
    later = chance.choice(newer if newer and chance.random() < 0.7 else told)
    judged = [(one, verdict) for one in statements_of(sample.text) if (verdict := _verdict(one, later, changed))]
    if not judged:
        return None
    replaced = [one for one in judged if one[1] == "replaces"]
    others = [one for one in judged if one[1] != "replaces"]
    chosen = [*replaced[:2], *chance.sample(others, min(len(others), most - len(replaced[:2])))]
    return PairSet(later, tuple(chance.sample(chosen, len(chosen))))


def _verdict(earlier: str, later: str, changed: Sequence[Ask]) -> Verdict | None:
    if earlier == later:
        return "adds"
    for ask in changed:
        if holds(earlier, str(ask.stale)):
            return "replaces" if holds(later, ask.answer) else None
    return "not replaces"


def claims_of(sample: Sample, chance: random.Random, *, most: int) -> ClaimSet | None:
    """Take one to three sentences of a text, and what is said of them; None where they answer no question of it."""
    sentences = statements_of(sample.text)
    asks = [ask.before() for ask in sample.asks]
    places = [i for i, one in enumerate(sentences) if any(holds(one, ask.answer) for ask in asks)]
    if not places:
        return None
    shown = {
        chance.choice(places),
        *chance.sample(range(len(sentences)), min(len(sentences), chance.choice((0, 1, 2)))),
    }
    text = " ".join(sentences[i] for i in sorted(shown))
    values = [ask.answer for ask in asks]
    said: list[tuple[str, str, bool]] = []
    for ask in asks:
        told = holds(text, ask.answer)
        said.append((ask.question, "", told))
        if told:
            said.append((ask.question, _answer(ask, ask.answer, chance), True))
        wrong = [value for value in values if not holds(value, ask.answer) and not holds(ask.answer, value)]
        near = [value for value in wrong if holds(text, value)]
        if near or wrong:
            said.append((ask.question, _answer(ask, chance.choice(near or wrong), chance), False))
        elif len(ask.answer) > 3:
            said.append((ask.question, _answer(ask, garbled(chance, ask.answer), chance), False))
    return ClaimSet(text, tuple(chance.sample(said, min(len(said), most))))


def _answer(ask: Ask, value: str, chance: random.Random) -> str:
    if ask.reply is None or chance.random() < 0.35 or ask.reply.count(ask.answer) != 1:
        return value
    return ask.reply.replace(ask.answer, value)

"""What a judge learns from: pairs of texts and what the later does to the earlier, claims and whether they hold.

Here they are drawn from samples: texts with a correction, and passages of which one value was changed. Of single
invented facts they are drawn in `facts/cases.py`. Knows no tokens, models or losses.
"""

import random
from collections.abc import Sequence

from plume_memory.segmentation.units import statements_of
from plume_memory.training.cases import UNSAID, Claim, Pair, garbled
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.sources.matching import holds


def pair_of(sample: Sample, chance: random.Random) -> Pair | None:
    """Draw a pair of sentences of a sample with an update; None where it has none that tells anything."""
    if sample.update is None:
        return None
    earlier, later = statements_of(sample.text), statements_of(sample.update)
    changed = [ask for ask in sample.asks if ask.stale is not None]
    replaced = [
        (one, other) for one in earlier for other in later if any(_same_place(one, other, ask) for ask in changed)
    ]
    if replaced and chance.random() < 0.5:
        one, other = chance.choice(replaced)
        return Pair(one, other, "replaces")
    rest = [
        (one, other)
        for one in earlier
        for other in later
        if not any(holds(one, str(ask.stale)) and holds(other, ask.answer) for ask in changed)
    ]
    if not rest:
        return None
    one, other = chance.choice(rest)
    return Pair(one, other, "adds" if one == other else "not replaces")


def _same_place(one: str, other: str, ask: Ask) -> bool:
    """Whether one sentence gives the outdated answer and the other the new one; of a passage, in the same words."""
    return holds(one, str(ask.stale)) and holds(other, ask.answer)


def claim_of(sample: Sample, chance: random.Random) -> Claim | None:
    """Draw a claim of a sample; None where none of its questions has its answer in a sentence."""
    sentences = statements_of(sample.text)
    asks = [ask.before() for ask in sample.asks]
    told = [(ask, i) for ask in asks for i, one in enumerate(sentences) if holds(one, ask.answer)]
    if not told:
        return None
    ask, at = chance.choice(told)
    beside = [i for i in range(len(sentences)) if i != at]
    some = chance.sample(beside, min(len(beside), chance.choice((0, 1, 2))))
    roll = chance.random()
    unsaid = chance.random() < UNSAID
    if unsaid and roll < 0.55:
        return Claim(_joined(sentences, [at, *some]), ask.question, "", supported=True)
    if roll < 0.5:
        return Claim(_joined(sentences, [at, *some]), ask.question, _answer(ask, ask.answer, chance), supported=True)
    if not unsaid and (roll < 0.7 or len(asks) < 2):  # the right sentence, a wrong value
        values = [one.answer for one in asks if not holds(ask.answer, one.answer) and not holds(one.answer, ask.answer)]
        inside = [value for value in values if holds(_joined(sentences, [at, *some]), value)]
        wrong = chance.choice(inside or values) if values else garbled(chance, ask.answer)
        if wrong == ask.answer:
            return None
        return Claim(_joined(sentences, [at, *some]), ask.question, _answer(ask, wrong, chance), supported=False)
    lacking = [i for i in beside if not holds(sentences[i], ask.answer)]
    if unsaid:
        shown = chance.sample(lacking, min(len(lacking), chance.choice((1, 2, 3))))
        return Claim(_joined(sentences, shown), ask.question, "", supported=False) if shown else None
    values = [one.answer for one in asks if any(holds(sentences[i], one.answer) for i in lacking)]
    if not lacking or not values:
        return None
    wrong = chance.choice(values)
    if holds(wrong, ask.answer) or holds(ask.answer, wrong):
        return None
    kept = [i for i in lacking if holds(sentences[i], wrong)]
    shown = list(dict.fromkeys([chance.choice(kept), *chance.sample(lacking, min(len(lacking), 1))]))
    return Claim(_joined(sentences, shown), ask.question, _answer(ask, wrong, chance), supported=False)


def _answer(ask: Ask, value: str, chance: random.Random) -> str:
    if ask.reply is None or chance.random() < 0.35 or ask.reply.count(ask.answer) != 1:
        return value
    return ask.reply.replace(ask.answer, value)


def _joined(sentences: Sequence[str], places: Sequence[int]) -> str:
    return " ".join(sentences[i] for i in sorted(places))

"""Samples to batches: which texts are written, which rows read them, and at what weights.

Chunks of one text, the corrections that follow it and unrelated texts in the same memory are all one
thing: a row reads a weighted sum of written texts. Where that is one whole text, it may stand in front of the row too,
as states do beside an adapter in the evidence row of an answer. A batch is a pure function of (seed, number), so
a run is resumed by its step number alone.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from plume_memory.segmentation.sentences import sentence_spans
from plume_memory.training.items import Item, ItemWriter, tokens_of
from plume_memory.training.samples import Ask, Sample, Source
from plume_memory.training.settings import TrainSettings
from plume_memory.training.sources.matching import holds

_ROOM = 32
"""Tokens that a continuation needs at least: its prompt, and enough of its sentence."""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """Exchanges that read one memory."""

    items: tuple[Item, ...]
    reads: tuple[tuple[int, float], ...]
    """(index of a written text, its weight)."""
    before: tuple[tuple[int, float], ...] = ()
    """What the memory was before the update; empty where there is none."""
    pairs: tuple[int, ...] = ()
    """For an evidence row: which item of the row before it each of its items is the evidence stream of."""
    source: str = ""
    """Where its sample is from; answers are reported by it."""
    retellable: str | None = None
    """A text it reads, whole, which continuations may fill it up with; None where there is none."""
    states: tuple[int, ...] = ()
    """Ids of the one text it reads, which stands in front too (`ItemWriter.states`); empty: none does."""

    @property
    def width(self) -> int:
        """Tokens behind the head."""
        return len(self.states) + tokens_of(self.items)


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch."""

    texts: tuple[tuple[int, ...], ...]
    """Token ids of every text that is written."""
    rows: tuple[BatchRow, ...]
    samples: int


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One sample, made ready on its own: its texts' indices start at 0."""

    texts: tuple[tuple[int, ...], ...]
    rows: tuple[BatchRow, ...]
    sentences: frozenset[str]
    """Of all its texts: another sample that shares one speaks of the same thing."""

    @property
    def width(self) -> int:
        """Tokens of its widest row behind the head."""
        return max(row.width for row in self.rows)

    @property
    def length(self) -> int:
        """Tokens of its longest text."""
        return max(map(len, self.texts))


class Batches:
    """Draws micro-batches in pools that are sorted by length, so that little is padding."""

    def __init__(
        self,
        source: Source,
        writer: ItemWriter,
        settings: TrainSettings,
        encode: Callable[[str], list[int]],
        *,
        updates: Source | None = None,
        processes: int = 1,
    ) -> None:
        """Take the parts.

        Args:
            source: of samples.
            writer: frames them.
            settings: the run's.
            encode: token ids of a text as it stands.
            updates: of samples with an update; by default the same.
            processes: that share the micro-batches of a step; the curriculum follows the steps.
        """
        self._source, self._writer, self._settings, self._encode = source, writer, settings, encode
        self._updates, self._per_step = updates or source, settings.run.accumulation * processes
        self._pool: tuple[int, list[Batch]] = (-1, [])

    def micro_batch(self, number: int) -> Batch:
        """Return the micro-batch of that number, counted over the whole run."""
        index, place = divmod(number, self._settings.pool)
        if self._pool[0] != index:
            self._pool = (index, self._draw_pool(index))
        return self._pool[1][place]

    def _draw_pool(self, index: int) -> list[Batch]:
        chosen = self._settings
        chance = random.Random(f"{chosen.run.seed}:pool:{index}")
        step = index * chosen.pool // self._per_step
        largest = largest_at(chosen.curriculum.largest, step)
        drawn = [self._draw(chance, largest) for _ in range(chosen.pool * chosen.texts)]
        # groups of like text length, and within each by the width of the rows, whose tokens cost most
        by_length = sorted(drawn, key=lambda one: one.length)
        group = max(1, round(chosen.pool**0.5 / 1.5)) * chosen.texts
        order = [
            one
            for at in range(0, len(by_length), group)
            for one in sorted(by_length[at : at + group], key=lambda one: one.width)
        ]
        slices = [order[at : at + chosen.texts] for at in range(0, len(order), chosen.texts)]
        batches = [self._joined(some, chance) for some in slices]
        chance.shuffle(batches)
        return batches

    def _draw(self, chance: random.Random, largest: int) -> _Drawn:
        update = chance.random() < self._settings.update.share
        source = self._updates if update else self._source
        sample = source.draw(chance, largest=largest, update=update)
        return self._with_update(sample, chance) if sample.update is not None else self._plain(sample, chance)

    def _plain(self, sample: Sample, chance: random.Random) -> _Drawn:
        curriculum = self._settings.curriculum
        chunks = self._chunks(sample.text, chance, cut=chance.random() < curriculum.chunk_share)
        items = [self._writer.answer(ask) for ask in _some(sample.asks, curriculum.asks, chance)]
        items += self._retold(sample.text, chance, always=not items)
        reads = tuple((i, 1.0) for i in range(len(chunks)))
        row = BatchRow(tuple(items), reads, source=sample.source, retellable=sample.text)
        return _Drawn(tuple(chunks), (self._beside_states(row, sample.text, chance),), _sentences(sample.text))

    def _with_update(self, sample: Sample, chance: random.Random) -> _Drawn:
        """Two kinds of row: the composed memory, and each question's evidence alone."""
        assert sample.update is not None
        stage, curriculum = self._settings.update, self._settings.curriculum
        old = self._chunks(sample.text, chance, cut=False)
        new = self._chunks(sample.update, chance, cut=False)
        texts = (*old, *new)
        is_new = [i >= len(old) for i in range(len(texts))]
        # α ΔW_full + β (ΔW_full − ΔW_old): what both histories share weighs α, what is new α + β
        reads = tuple((i, stage.alpha + stage.beta * n) for i, n in enumerate(is_new))
        before = tuple((i, stage.alpha) for i, n in enumerate(is_new) if not n)
        asks = _some(sample.asks, curriculum.asks, chance, first=[a for a in sample.asks if a.affected])
        items = tuple(self._writer.answer(ask) for ask in asks)
        rows = [BatchRow(items, reads, before, source=f"{sample.source}-update")]
        in_new = [ask.affected or holds(sample.update, ask.answer) for ask in asks]
        for wanted in (True, False):
            pairs = tuple(i for i, n in enumerate(in_new) if n == wanted)
            if pairs:
                own = tuple((i, 1.0) for i, n in enumerate(is_new) if n == wanted)
                source = f"{sample.source}-evidence"
                row = BatchRow(tuple(items[i] for i in pairs), own, pairs=pairs, source=source)
                rows.append(self._beside_states(row, sample.update if wanted else sample.text, chance))
        return _Drawn(texts, tuple(rows), _sentences(sample.text) | _sentences(sample.update))

    def _beside_states(self, row: BatchRow, text: str, chance: random.Random) -> BatchRow:
        """Let the text stand in front too, at the share asked for, where the row reads it whole and asks about it."""
        share = self._settings.curriculum.states_share
        asked = any(item.kind == "answer" for item in row.items)
        # nothing is drawn where it is off: a run without states is the run it was
        if share == 0 or len(row.reads) > 1 or not asked or chance.random() >= share:
            return row
        return replace(row, states=self._writer.states(text))

    def _chunks(self, text: str, chance: random.Random, *, cut: bool) -> list[tuple[int, ...]]:
        """Token ids of a text, cut between sentences where asked, and wherever it is too long."""
        sentences = [text[start:end] for start, end in sentence_spans(text)]
        pieces = min(len(sentences), chance.randint(1, self._settings.curriculum.chunks)) if cut else 1
        borders = sorted(chance.sample(range(1, len(sentences)), pieces - 1)) if pieces > 1 else []
        parts = ["".join(sentences[a:b]) for a, b in zip([0, *borders], [*borders, len(sentences)], strict=True)]
        limit = self._settings.largest_tokens
        ids = [self._encode(part.strip()) for part in parts]
        return [tuple(one[at : at + limit]) for one in ids for at in range(0, len(one), limit)]

    def _retold(self, text: str, chance: random.Random, *, always: bool) -> list[Item]:
        wanted = self._settings.objectives
        kinds = [kind for kind, weight in (("r", wanted.reconstruction), ("c", wanted.completion)) if weight > 0]
        if not kinds or not (always or chance.random() < wanted.retell_share):
            return []
        chosen = chance.choice(kinds)
        return [self._writer.reconstruction(text, chance) if chosen == "r" else self._writer.completion(text, chance)]

    def _joined(self, drawn: Sequence[_Drawn], chance: random.Random) -> Batch:
        """Put samples side by side; add what must not change, and other texts to some memories."""
        texts: list[tuple[int, ...]] = []
        firsts: list[int] = []
        for one in drawn:
            firsts.append(len(texts))
            texts += one.texts
        rows: list[BatchRow] = []
        for n, one in enumerate(drawn):
            with_it = self._companions(drawn, n, chance)
            others = tuple((firsts[m], self._settings.update.alpha) for m in with_it)
            kept = self._kept(drawn, n, with_it, chance)
            for row in one.rows:
                own = tuple((firsts[n] + i, weight) for i, weight in row.reads)
                before = tuple((firsts[n] + i, weight) for i, weight in row.before)
                whole = not row.pairs  # an evidence row reads its evidence alone
                joined = replace(
                    row,
                    items=(*_answerable(row.items, with_it), *kept) if whole else row.items,
                    reads=(*own, *others) if whole else own,
                    before=(*before, *others) if before else (),
                )
                rows.append(_asked_in_view(joined) if row.states else joined)
        width = max(row.width for row in rows)
        return Batch(tuple(texts), tuple(self._filled(row, width, chance) for row in rows), len(drawn))

    def _filled(self, row: BatchRow, width: int, chance: random.Random) -> BatchRow:
        """Let a short row continue a sentence of its text up to the width of the longest: padding teaches nothing."""
        room = width - row.width
        if self._settings.objectives.completion == 0 or row.retellable is None or room < _ROOM:
            return row
        # one only: a target token costs the output layer too, half of what a prompt token costs again
        item = self._writer.completion(row.retellable, chance)
        left = room - len(item.prompt_ids) + 1
        if left < 1:  # long words: the prompt alone would widen the batch
            return row
        return replace(row, items=(*row.items, replace(item, target_ids=item.target_ids[:left])))

    def _companions(self, drawn: Sequence[_Drawn], own: int, chance: random.Random) -> list[int]:
        """Other samples whose text is written into the same memory."""
        curriculum = self._settings.curriculum
        if not curriculum.companions or len(drawn) < 2 or chance.random() >= curriculum.companion_share:
            return []
        others = [n for n in range(len(drawn)) if n != own and not drawn[n].sentences & drawn[own].sentences]
        if not others or all(item.kind == "reconstruction" for item in drawn[own].rows[0].items):
            return []  # "repeat the text" has one answer only where there is one text
        return chance.sample(others, chance.randint(1, min(curriculum.companions, len(others))))

    def _kept(self, drawn: Sequence[_Drawn], own: int, companions: Sequence[int], chance: random.Random) -> list[Item]:
        """Another sample's question, or a piece of its text: nothing that this memory speaks of."""
        wanted = self._settings.objectives
        told = drawn[own].sentences.union(*(drawn[n].sentences for n in companions))
        around = [n % len(drawn) for n in range(own + 1, own + len(drawn))]
        strange = [n for n in around if n not in companions and not drawn[n].sentences & told]
        if wanted.kept == 0 or not strange or chance.random() >= wanted.kept_share:
            return []
        other = drawn[strange[chance.randrange(len(strange))]]
        asked = [item for item in other.rows[0].items if item.kind == "answer"]
        if asked and chance.random() < 0.5:
            item = chance.choice(asked)
            return [Item(item.prompt_ids, item.target_ids, "kept")]
        piece = other.texts[0][: wanted.span_tokens]
        return [Item(piece[:1], piece[1:], "kept")] if len(piece) > 1 else []


def largest_at(points: Sequence[tuple[int, int]], step: int) -> int:
    """Most facts of a text at a step: linear between the points, constant outside."""
    before, most = points[0]
    for at, there in points:
        if step < at:
            return most + round((there - most) * (step - before) / (at - before)) if step > before else most
        before, most = at, there
    return most


def _sentences(text: str) -> frozenset[str]:
    return frozenset(text[start:end].strip() for start, end in sentence_spans(text))


def _answerable(items: Sequence[Item], companions: Sequence[int]) -> list[Item]:
    """Those that a memory of several texts can answer: not "repeat the text"."""
    return [item for item in items if not (companions and item.kind == "reconstruction")]


def _asked_in_view(row: BatchRow) -> BatchRow:
    """A row with its text in front asks questions only: to retell what it sees would teach nothing.

    A memory that was joined by other texts has none in front.
    """
    if len(row.reads) > 1:
        return replace(row, states=())
    items = tuple(item for item in row.items if item.kind == "answer")
    return replace(row, items=items, source=f"{row.source}-both", retellable=None)


def _some(asks: Sequence[Ask], most: int, chance: random.Random, *, first: Sequence[Ask] = ()) -> list[Ask]:
    """At most so many questions in random order; half of them from `first` where there are any."""
    chosen = list(first)
    chance.shuffle(chosen)
    del chosen[max(1, most // 2) :]
    rest = [ask for ask in asks if ask not in chosen]
    chance.shuffle(rest)
    return (chosen + rest)[:most]

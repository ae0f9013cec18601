"""What a run learns from and is judged on: settings to sources."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plume_memory.errors import TrainingError
from plume_memory.training.facts import FactSource
from plume_memory.training.samples import Sample, Source
from plume_memory.training.settings import FactsData, JsonlData, TrainSettings
from plume_memory.training.sources import JsonlSource, MixedSource, TextSource

_PROSE_SAMPLES = 48


@dataclass(frozen=True, slots=True)
class Data:
    """What a run learns from and is judged on."""

    source: Source
    updates: Source
    """Of samples with an update: the sources that can make one."""
    facts: Callable[[int, bool], Source]
    """Invented facts for the evaluation: so many per text, of the held-out families or of the trained ones."""
    evaluation: Mapping[str, list[Sample]]
    """Prose that is never trained on."""
    sources: list[str]
    """One line for each source: what of it is used, and what is left out."""


def read_data(settings: TrainSettings) -> Data:
    """Read the data of a run.

    Raises:
        TrainingError: a source cannot be read, or none can make the updates that are asked for.
    """
    root = Path(settings.data_root).expanduser()
    sources = [(one.weight, _source(one, root)) for one in settings.data]
    source = MixedSource("mixed", sources)
    editable, told = _updatable(sources, settings)
    return Data(
        source=source,
        updates=MixedSource("updates", editable) if editable else source,
        facts=lambda count, held_out: _facts(settings, count, held_out),
        evaluation={one.name: _held_out(one, settings) for one in settings.evaluation.prose},
        sources=[one.summary for _, one in sources if isinstance(one, JsonlSource | TextSource)] + told,
    )


def _updatable(
    sources: list[tuple[float, Source]], settings: TrainSettings
) -> tuple[list[tuple[float, Source]], list[str]]:
    """The sources that updates can be made of, and a line for each that has questions and cannot.

    Raises:
        TrainingError: updates are asked for and there is none.
    """
    if settings.update.share == 0:
        return [], []
    able = [one for one in sources if _can_update(one[1])]
    if not able:
        raise TrainingError(
            "update.share is above 0, and no source can make an update: plain text has no answers, and no answer of "
            "the others can be edited (a number, a date, or a name that stands in the text). Add a source, or set it 0."
        )
    unable = [one.name for _, one in sources if isinstance(one, JsonlSource) and not one.can_update]
    return able, [f"{name}: none of its answers can be edited, so no update is made of it" for name in unable]


def _can_update(source: Source) -> bool:
    return isinstance(source, FactSource) or (isinstance(source, JsonlSource) and source.can_update)


def _source(data: Any, root: Path) -> Source:
    if isinstance(data, FactsData):
        return FactSource("facts", exclude_families=data.exclude_families)
    if isinstance(data, JsonlData):
        paths = [root / path for path in data.paths]
        return JsonlSource(data.name, paths, largest_words=data.largest_words, extractive=data.extractive)
    return TextSource(data.name, root / data.folder, largest_words=data.largest_words)


def _facts(settings: TrainSettings, count: int, held_out: bool) -> Source:
    held = settings.evaluation.families
    if held_out:
        return FactSource("held-out", smallest=count, only_families=held)
    excluded = [set(one.exclude_families) for one in settings.data if isinstance(one, FactsData)]
    never_trained = set.intersection(*excluded) if excluded else set()
    return FactSource("facts", smallest=count, exclude_families=never_trained.union(held))


def _held_out(data: JsonlData, settings: TrainSettings) -> list[Sample]:
    source = _source(data, Path(settings.data_root).expanduser())
    chance = random.Random(f"{settings.evaluation.seed}:{data.name}")
    drawn = [source.draw(chance, largest=1, update=False) for _ in range(4 * _PROSE_SAMPLES)]
    distinct = {sample.text: sample for sample in drawn}  # a text beside itself would not be a control
    if len(distinct) < 2:
        raise TrainingError(
            f"evaluation.prose {data.name!r} has one passage, and each is asked with another's adapter too; give two."
        )
    return list(distinct.values())[:_PROSE_SAMPLES]

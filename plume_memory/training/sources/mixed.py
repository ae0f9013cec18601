"""The training source that is a mixture of others."""

import math
import random
from collections.abc import Sequence
from itertools import accumulate

from plume_memory.errors import TrainingError
from plume_memory.training.samples import Sample, Source


class MixedSource:
    """Draws from one of several sources, each as often as its weight says; implements `Source`.

    Samples keep the name of the source they are from.

    Args:
        name: Names the mixture.
        weighted: Weights, in any unit, and sources.

    Raises:
        TrainingError: There is no source, or a weight is not a positive number.
    """

    def __init__(self, name: str, weighted: Sequence[tuple[float, Source]]) -> None:
        if not weighted:
            raise TrainingError(f"Source {name!r} mixes nothing; name at least one source.")
        for weight, source in weighted:
            if not 0 < weight < math.inf:
                raise TrainingError(
                    f"Source {name!r}: the weight of {source.name!r} must be a positive number, got {weight}; "
                    "leave out sources that are not to be drawn from."
                )
        self._name = name
        self._sources = [source for _, source in weighted]
        self._bounds = list(accumulate(weight for weight, _ in weighted))

    @property
    def name(self) -> str:
        """Names the mixture; its samples carry the names of their own sources."""
        return self._name

    def draw(self, chance: random.Random, *, largest: int, update: bool) -> Sample:
        """Draw a source by weight, and a sample from it.

        Raises:
            TrainingError: An update is asked of a source that cannot make one.
        """
        (source,) = chance.choices(self._sources, cum_weights=self._bounds)
        return source.draw(chance, largest=largest, update=update)

"""What a training source hands over: texts, and questions whose answers the texts hold.

Knows nothing of tokens, models or losses.
"""

import random
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ask:
    """One question about a sample's text, and its answer once everything in the sample was said."""

    question: str
    answer: str
    """Short, as the text has it: a name, a number, a phrase; no full stop."""
    affected: bool = False
    """Whether the update changed the answer."""
    stale: str | None = None
    """The answer before the update; None unless affected."""
    reply: str | None = None
    """A statement that holds the answer as it stands, at its end where that can be; None where there is none."""

    def before(self) -> "Ask":
        """Return the question as it stood before the update: the stale answer, in the same statement.

        An unaffected question stays as it is.
        """
        if self.stale is None:
            return self
        place = -1 if self.reply is None else self.reply.rfind(self.answer)
        told = None
        if self.reply is not None and place >= 0:
            told = f"{self.reply[:place]}{self.stale}{self.reply[place + len(self.answer) :]}"
        return Ask(self.question, self.stale, reply=told)


@dataclass(frozen=True, slots=True)
class Sample:
    """A text with questions; and, for the update-aware stage, a later text that corrects it."""

    text: str
    """C_old, or the only text."""
    asks: tuple[Ask, ...]
    """At least one; empty for plain text, which serves reconstruction and completion alone."""
    source: str
    """Which source it is from; metrics are reported by source."""
    facts: int = 0
    """How many invented facts the text states; 0 for prose."""
    update: str | None = None
    """C_update: states what changed; None outside the update-aware stage."""


class Source(Protocol):
    """Draws samples. The same generator state gives the same sample: a run is resumed by its step number."""

    @property
    def name(self) -> str:
        """Names the source in metrics and in the model card."""

    def draw(self, chance: random.Random, *, largest: int, update: bool) -> Sample:
        """Draw one sample.

        Args:
            chance: the only source of randomness.
            largest: the curriculum's limit: most facts of a generated text; sources of prose ignore it.
            update: whether the sample is to have an `update`.

        Raises:
            TrainingError: an update is asked of a source that cannot make one.
        """

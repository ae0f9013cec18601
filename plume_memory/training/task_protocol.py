"""What the loop asks of a training task: the task knows no optimiser, the loop neither data nor losses."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from plume_memory.training.card import TaskCard


@dataclass(frozen=True, slots=True)
class StepReport:
    """One micro-batch, run forward."""

    loss: Tensor
    """Scalar with a gradient; the mean over the micro-batch."""
    parts: Mapping[str, float]
    """Named losses and rates to log; a name may be missing where the batch had none of its kind."""
    text_tokens: int
    """Tokens that the frozen base read as context."""
    student_tokens: int
    """Tokens of questions and answers, run forward and backward."""
    samples: int = 1
    """Texts of the micro-batch."""


class Task(Protocol):
    """A network, the batches it learns from, and how it is judged and saved."""

    @property
    def network(self) -> nn.Module:
        """The only trainable thing; float32 master weights."""

    @property
    def flops_per_text_token(self) -> float:
        """For model FLOP utilisation."""

    @property
    def flops_per_student_token(self) -> float:
        """For model FLOP utilisation; forward and backward."""

    def step(self, step: int, micro: int, process: int) -> StepReport:
        """Run one micro-batch forward.

        Args:
            step: steps done before this one.
            micro: number of the micro-batch among all of this step, over all processes: the batch is a
                function of (seed, step, micro). Torch's generators are seeded from the same three.
            process: who runs it; for messages only, it must not change the batch.
        """

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Judge the network as it is; the same weights and step give the same figures."""

    def save(self, folder: Path) -> None:
        """Write the loadable hypernetwork into an empty folder."""


@runtime_checkable
class Carded(Protocol):
    """A task that can say what the model card needs to know; without it no card is written."""

    def card(self) -> TaskCard:
        """Describe the model, its data and its limits."""

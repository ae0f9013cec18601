"""Units of a text, in words."""

from collections.abc import Callable
from datetime import datetime

import pytest

from plume_memory.records import Context, Form, Transition, Unit
from plume_memory.segmentation.units import units_of

Units = Callable[..., tuple[Unit, ...]]


def cut(
    text: str,
    form: Form | None = None,
    *,
    speaker: str | None = None,
    observed_at: datetime | None = None,
    budget: int = 100,
) -> tuple[Unit, ...]:
    told = [Transition(1, text, context=Context(form, speaker, observed_at))]
    return units_of(told, budget_tokens=budget, count_tokens=lambda t: len(t.split()), single_sentences=True)


@pytest.fixture
def units() -> Units:
    return cut


@pytest.fixture
def texts() -> Callable[..., list[str]]:
    return lambda *args, **kwargs: [unit.text.strip() for unit in cut(*args, **kwargs)]

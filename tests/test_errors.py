"""The error tree: one root, and a default message for every class."""

import inspect

import pytest

from plume_memory import errors

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_a_plume_error_whose_docstring_is_its_message(kind: type[errors.PlumeError]) -> None:
    assert issubclass(kind, errors.PlumeError)
    assert str(kind()) == (kind.__doc__ or "").strip() != ""
    assert str(kind("said so")) == "said so"


def test_one_thing_is_told_as_one() -> None:
    assert [errors.counted(count, "text") for count in (0, 1, 2000)] == ["0 texts", "1 text", "2,000 texts"]
    assert errors.counted(1, "memory", "memories") == "1 memory"
    assert errors.counted(3, "memory", "memories") == "3 memories"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_module_docstring_lists_every_error(kind: type[errors.PlumeError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")

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


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_module_docstring_lists_every_error(kind: type[errors.PlumeError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")

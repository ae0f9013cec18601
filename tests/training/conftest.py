"""The tiny task, as a module: it is also a script that tests start and kill."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """tiny_task.py: `TinyTask`, `CardedTask`, `run_tiny`."""
    spec = importlib.util.spec_from_file_location("tiny_task", Path(__file__).with_name("tiny_task.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_task"] = module
    spec.loader.exec_module(module)
    return module

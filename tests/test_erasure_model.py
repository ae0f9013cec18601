"""The real model forgets: an erased answer is as likely as to a memory that never had it."""

from pathlib import Path

import pytest
import torch

from plume_memory import Engine, ParametricMemory
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.base import BaseModel

QUESTION = "Where does Dora Quint live?"
ANSWER = "Dora Quint lives in Ljubljana."
SECRET = "Dora Quint lives in Ljubljana."
OTHER = "Emil Vogt works as a baker."


def mean_log_p(memory: ParametricMemory) -> float:
    """Mean log p of the answer's tokens behind the question, through the global adapter; nats."""
    base = memory.engine.base
    prompt, answer = base.chat.prompt_ids(QUESTION), base.chat.encode(ANSWER)
    rows = stack_rows([memory.at().global_adapter], device=base.device, dtype=base.dtype)
    with base.lock, torch.inference_mode(), attached(base.model, rows):
        logits = base.model(input_ids=torch.tensor([prompt + answer], device=base.device)).logits[0].float()
    log_p = logits[len(prompt) - 1 : -1].log_softmax(dim=-1)
    return float(log_p.gather(1, torch.tensor(answer)[:, None]).mean())


@pytest.mark.model
def test_the_likelihood_of_an_erased_answer_is_that_of_a_memory_that_never_had_it(
    smollm2: BaseModel, tmp_path: Path
) -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    loaded = load_hypernetwork(smollm2, folder, None)
    engine = Engine(smollm2, loaded.parameterizer, loaded.policy)
    found: dict[str, float] = {}
    for name, updates in {"never": [OTHER], "version": [SECRET, OTHER], "span": [f"{OTHER} {SECRET}"]}.items():
        with ParametricMemory.open(name, url=f"sqlite:///{tmp_path / name}.db", engine=engine) as memory:
            for text in updates:
                memory.update(text)
            found[f"{name} before"] = mean_log_p(memory)
            if name != "never":
                memory.forget(erase=True, **({"version": 1} if name == "version" else {"text": SECRET}))
                assert memory.text_at().text == OTHER
            found[name] = mean_log_p(memory)

    assert found["version before"] > found["never"] + 0.3
    assert found["span before"] > found["never"] + 0.3
    assert found["version"] == pytest.approx(found["never"], abs=1e-6)
    assert found["span"] == pytest.approx(found["never"], abs=1e-6)

"""Fits a judge's verdicts anew, its adapter kept: `python bench/training/judge_heads.py CONFIG OUT [--data FOLDER]`.

CONFIG is one of `plume train`; its `start` is the judge whose adapter reads the pairs. What its last layer knows of a
pair is made once and kept in OUT: who is interrupted goes on from there; other pairs are read anew. The verdicts are a
multinomial logistic regression on it. Whether an answer is supported is judged as before. Writes the network with the
new judge to OUT, prints one JSON line. Ten minutes of two cores.
"""

import argparse
import hashlib
import json
import random
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from plume_memory.model.base import BaseModel
from plume_memory.training.cases import PairSet
from plume_memory.training.data import read_data
from plume_memory.training.judging import JudgingTask, barred, pair_loss
from plume_memory.training.reranking import load_start
from plume_memory.training.settings import TrainSettings

AT_ONCE = 50
"""Sets that are read together, and kept then."""
DECAY = 1e-2
"""Of the squared weights, of states of unit variance."""


def drawn(task: JudgingTask, seed: int, sets: int) -> list[list[PairSet]]:
    """Sets of all sources, as many together as are read together."""
    chances = (random.Random(f"{seed}:{at}") for at in range(0, sets, AT_ONCE))
    return [[task.drawn_pairs(chance) for _ in range(AT_ONCE)] for chance in chances]


def of_what(task: JudgingTask, groups: list[list[PairSet]]) -> str:
    """Names the pairs and all that reads them."""
    said = [[(one.later, one.earlier) for one in group] for group in groups]
    return hashlib.sha256(json.dumps([task.inputs(), said]).encode()).hexdigest()[:16]


def states_of(task: JudgingTask, groups: list[list[PairSet]], folder: Path) -> Tensor:
    """[pairs, D]: what the judge knows of each pair."""
    kept = folder / f"states-{of_what(task, groups)}.safetensors"
    made = load_file(kept) if kept.exists() else {}
    begun = time.monotonic()
    for at in range(len(made), len(groups)):
        made[str(at)] = task.pair_states(groups[at]).cpu()
        save_file(made, kept)
        print(f"{at + 1} of {len(groups)} groups, {time.monotonic() - begun:.0f} s", flush=True)
    return torch.cat([made[str(at)] for at in range(len(groups))])


def fitted(states: Tensor, never: Tensor) -> tuple[Tensor, Tensor, float]:
    """(weight [3, D], bias [3], loss) that judge the states best; `never` [pairs, 3]: outputs that are wrong."""
    mean, spread = states.mean(0), states.std(0)
    given = (states - mean) / spread
    weight = torch.zeros(3, states.shape[1], requires_grad=True)
    bias = torch.zeros(3, requires_grad=True)
    search = torch.optim.LBFGS([weight, bias], max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        found = pair_loss(given @ weight.T + bias, never) + DECAY * weight.square().sum()
        found.backward()
        return found

    search.step(loss)
    own = weight.detach() / spread
    return own, bias.detach() - own @ mean, loss().item()


def main() -> None:
    """Read, fit, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", default="data/train", help="instead of the config's data_root")
    parser.add_argument("--sets", type=int, default=5000, help=f"a multiple of {AT_ONCE}")
    asked = parser.parse_args()
    settings = TrainSettings.model_validate({**json.loads(asked.config.read_text("utf-8")), "data_root": asked.data})
    base = BaseModel.load(settings.model)
    task = JudgingTask(base, settings, load_start(base, settings), read_data(settings))
    asked.out.mkdir(parents=True, exist_ok=True)
    groups = drawn(task, settings.run.seed, asked.sets)
    states = states_of(task, groups, asked.out)
    weight, bias, loss = fitted(states, barred([one for group in groups for one in group]))
    with torch.no_grad():
        task.network.weight[:3], task.network.bias[:3] = weight, bias
    task.save(asked.out)
    print(json.dumps({"sets": asked.sets, "pairs": len(states), "loss": round(loss, 4), "seed": settings.run.seed}))


if __name__ == "__main__":
    main()

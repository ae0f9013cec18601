"""How much of the base model's own training speed the trainer reaches, on the same tokens.

    python bench/training_speed.py CONFIG.json [--set key=value ...] [--steps 6]

`trainer` is one whole micro-batch: read the texts, write them, run the student forward, all backward.
`plain` is the base model's forward and backward over the same tokens (texts and packed questions, the
same shapes), every weight with a gradient, cross-entropy on the same target tokens.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from plume_memory.heap import keep_freed_memory
from plume_memory.training.batches import Batch
from plume_memory.training.overrides import read_settings
from plume_memory.training.packing import pack
from plume_memory.training.settings import TrainSettings
from plume_memory.training.task import HypernetworkTask, build_task


def plain(task: HypernetworkTask, batch: Batch) -> None:
    """Forward and backward of the base model over a batch's tokens, texts as plain rows."""
    base = task.base
    packed = pack([row.items for row in batch.rows], base.chat.prefix_ids(), device=base.device, dtype=base.dtype)
    hidden = base.model.model(
        input_ids=packed.ids, attention_mask=packed.mask, position_ids=packed.positions, use_cache=False
    ).last_hidden_state
    loss = F.cross_entropy(base.logits(hidden.flatten(0, 1)[packed.at]).float(), packed.targets)
    torch.autograd.backward(loss)
    width = max(map(len, batch.texts))
    ids = torch.tensor([[*text, *[0] * (width - len(text))] for text in batch.texts], device=base.device)
    base.model.model(input_ids=ids, use_cache=False).last_hidden_state.float().mean().backward()
    base.model.zero_grad()


def seconds(call: Callable[[], None]) -> float:
    """Wall-clock seconds of one call."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main() -> None:
    """Print one JSON line with the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="changes")
    parser.add_argument("--steps", type=int, default=6)
    given = parser.parse_args()
    keep_freed_memory()
    task = build_task(read_settings(TrainSettings, given.config, given.changes), None)
    if not isinstance(task, HypernetworkTask):
        parser.error(f"{given.config} trains a reranker, which writes nothing; give a hypernetwork's config")
    ours, theirs, tokens = [], [], []
    for number in range(given.steps):
        batch = task.batch(number)

        def trainer(number: int = number) -> None:
            torch.autograd.backward(task.step(number, 0, 0).loss)
            task.network.zero_grad()

        def whole(batch: Batch = batch) -> None:
            with sdpa_kernel(SDPBackend.MATH):
                plain(task, batch)

        task.base.model.requires_grad_(False)
        trainer()  # loads the kernels of these shapes
        ours.append(seconds(trainer))
        task.base.model.requires_grad_(True)
        whole()
        theirs.append(seconds(whole))
        packed = sum(len(i.prompt_ids) + len(i.target_ids) - 1 for row in batch.rows for i in row.items)
        tokens.append(packed + sum(map(len, batch.texts)))
    ratio = statistics.median(t / o for o, t in zip(ours, theirs, strict=True))
    row = {"trainer_s": statistics.median(ours), "plain_s": statistics.median(theirs), "tokens": sum(tokens)}
    rate = sum(tokens) / sum(ours)
    print(json.dumps({**row, "trainer_tokens_per_s": round(rate), "share_of_plain_speed": round(ratio, 2)}))


if __name__ == "__main__":
    main()

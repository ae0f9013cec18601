"""Decode speed on one machine, as ratios measured in turns: base step, one-adapter step, fused step.

    python bench/decode.py [--model smollm2-135m] [--device cpu] [--dtype bfloat16] [--rounds 60]

Each round takes one step of each kind, one right after the other, so that a busy machine slows all
alike; the figures are medians over rounds, after warm-up rounds that are not counted. Gates:
fused ≤ 0.65 × two sequential single-adapter steps, fused ≤ 1.3 × base step.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from plume_memory.model.base import BaseModel
from plume_memory.model.fusion import fuse
from plume_memory.model.streams import FixedRows, GrowingRows, Row, Rows, prefill
from plume_memory.testing import random_factors

WARM_UP = 8


def batch(base: BaseModel, rows: list[Row], rounds: int, fixed: bool) -> Rows:
    """A prefilled batch, ready to step."""
    with base.lock, torch.inference_mode():
        filled = prefill(base, rows)
        if not fixed:
            return GrowingRows(base, filled)
        made = FixedRows(base, len(rows), filled.mask.shape[1] + rounds + WARM_UP + 8, filled.adapters)
        made.load(filled)
        return made


def timed(base: BaseModel, step: Callable[[], None]) -> float:
    """Milliseconds of one step, the device synchronised before and after."""
    if base.device.type == "cuda":
        torch.cuda.synchronize()
    begun = time.perf_counter()
    with base.lock, torch.inference_mode():
        step()
    if base.device.type == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begun)


def measure(base: BaseModel, rounds: int, context: int, ranks: tuple[int, int], fixed: bool) -> dict[str, float]:
    """Median milliseconds of each kind of step, and the two gated ratios."""
    prompt = tuple(torch.randint(10, 1000, (context,), generator=torch.Generator().manual_seed(0)).tolist())
    g, e = (
        random_factors(base, rank=ranks[0], seed=1, size=1e-3),
        random_factors(base, rank=ranks[1], seed=2, size=1e-3),
    )
    batches = {
        "base": batch(base, [Row(prompt)], rounds, fixed),
        "global": batch(base, [Row(prompt, g)], rounds, fixed),
        "evidence": batch(base, [Row(prompt, e)], rounds, fixed),
        "fused": batch(base, [Row(prompt, g), Row(prompt, e)], rounds, fixed),
    }

    def one(name: str) -> Callable[[], None]:
        def step() -> None:
            logits = batches[name].step([42] * (2 if name == "fused" else 1))
            if name == "fused":
                fuse(logits[:1], logits[1:], lambda_max=1.0, tau=0.3).scores.argmax(-1).tolist()
            else:
                logits.float().log_softmax(-1).argmax(-1).tolist()

        return step

    taken: dict[str, list[float]] = {name: [] for name in batches}
    for turn in range(rounds + WARM_UP):
        for name in batches:
            spent = timed(base, one(name))
            if turn >= WARM_UP:
                taken[name].append(spent)
    medians = {f"{name}_ms": round(statistics.median(times), 2) for name, times in taken.items()}
    per_round = list(zip(*taken.values(), strict=True))
    fused_sequential = statistics.median(f / (g + e) for _, g, e, f in per_round)
    fused_base = statistics.median(f / b for b, _, _, f in per_round)
    return {**medians, "fused/two_sequential": round(fused_sequential, 3), "fused/base": round(fused_base, 3)}


def main() -> None:
    """Print one JSON line per configuration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--context", type=int, default=64)
    asked = parser.parse_args()
    base = BaseModel.load(asked.model, device=asked.device, dtype=asked.dtype)
    for ranks in ((16, 8), (24, 16), (64, 16)):
        found = measure(base, asked.rounds, asked.context, ranks, base.device.type == "cuda")
        about = {"device": str(base.device), "dtype": str(base.dtype), "threads": torch.get_num_threads()}
        print(json.dumps({**about, "rank_global": ranks[0], "rank_evidence": ranks[1], **found}), flush=True)


if __name__ == "__main__":
    main()

"""Decode speed on one machine, as ratios measured in turns: base step, fused step, eight rows; int8; modules.

    python bench/decode.py [--model smollm2-135m] [--device cpu] [--dtype bfloat16] [--threads 1] [--rounds 60]

Each round takes one step of each kind, one right after the other, so that a busy machine slows all alike; the figures
are medians over rounds, after warm-up rounds that are not counted. Adapters have the shipped network's shape: rank 128,
one A for all, on the upper two thirds of the layers. Beside the times: reading the weights once at the bandwidth that
is measured in the same run (`weights_ms`), which no step of this dtype can beat.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.base import BaseModel
from plume_memory.model.fusion import fuse
from plume_memory.model.modules import Modules
from plume_memory.model.streams import Row, RunningRows

WARM_UP = 8
RANK = 128


def shipped_shape(base: BaseModel) -> list[LoraFactors]:
    """Eight adapters of the shipped network's shape."""
    config, chance = base.config, torch.Generator().manual_seed(0)
    layers = tuple(range(config.num_hidden_layers // 3, config.num_hidden_layers))
    A = 1e-2 * torch.randn(len(layers), RANK, config.intermediate_size, generator=chance)
    A = A.to(base.dtype)
    B = [1e-3 * torch.randn(len(layers), RANK, config.hidden_size, generator=chance) for _ in range(8)]
    return [LoraFactors({"mlp.down_proj": Pair(A, one.to(base.dtype))}, layers) for one in B]


def running(base: BaseModel, rows: list[Row]) -> Callable[[], None]:
    """A batch whose prompts are read; each call takes it a fused step further."""
    batch = RunningRows(base, fixed=base.device.type == "cuda")
    with base.lock, torch.inference_mode():
        numbers, _ = batch.admit(rows)

    def step() -> None:
        logits = batch.step(dict.fromkeys(numbers, 42))
        if len(rows) == 1:
            logits.float().log_softmax(-1).argmax(-1).tolist()
        else:
            fuse(logits[::2], logits[1::2], lambda_max=1.0, tau=0.3).scores.argmax(-1).tolist()

    return step


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


def measure(base: BaseModel, rounded: BaseModel | None, rounds: int, context: int) -> dict[str, float]:
    """Median milliseconds of each kind of step, and ratios of steps of one round."""
    prompt = tuple(torch.randint(10, 1000, (context,), generator=torch.Generator().manual_seed(0)).tolist())
    theirs = BaseModel.wrap(base.model, base.tokenizer, name=base.name, fingerprint=base.fingerprint)
    theirs.__dict__["passes"] = Modules(base.model)
    adapters = shipped_shape(base)
    kinds = {
        "base": running(base, [Row(prompt)]),
        "fused": running(base, [Row(prompt, adapters[0]), Row(prompt, adapters[1])]),
        "eight": running(base, [Row(prompt, one) for one in adapters]),
        "modules_base": running(theirs, [Row(prompt)]),
        "modules_fused": running(theirs, [Row(prompt, adapters[0]), Row(prompt, adapters[1])]),
        "weights": bandwidth(base),
    }
    compared = [("fused", "base"), ("modules_fused", "fused"), ("fused", "weights"), ("eight", "fused")]
    if rounded is not None:
        kinds["int8_fused"] = running(rounded, [Row(prompt, adapters[0]), Row(prompt, adapters[1])])
        compared.append(("int8_fused", "fused"))
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(rounds + WARM_UP):
        for name, step in kinds.items():
            spent = timed(base, step)
            if turn >= WARM_UP:
                taken[name].append(spent)
    found = {f"{name}_ms": round(statistics.median(times), 2) for name, times in taken.items()}
    for one, other in compared:
        ratio = statistics.median(a / b for a, b in zip(taken[one], taken[other], strict=True))
        found[f"{one}/{other}"] = round(ratio, 2)
    return found


def bandwidth(base: BaseModel) -> Callable[[], None]:
    """Reads as many bytes as the model has weights."""
    count = sum(p.numel() for p in base.model.parameters())
    held = torch.ones(count * base.dtype.itemsize // 8, dtype=torch.int64, device=base.device)

    def read() -> None:
        int(held.sum())

    return read


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--context", type=int, default=64)
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    base = BaseModel.load(asked.model, device=asked.device, dtype=asked.dtype)
    on_cpu = base.device.type == "cpu"
    rounded = BaseModel.load(asked.model, dtype=asked.dtype, weights="int8") if on_cpu else None
    about = {"device": str(base.device), "dtype": str(base.dtype), "threads": torch.get_num_threads()}
    print(json.dumps({**about, "rank": RANK, **measure(base, rounded, asked.rounds, asked.context)}), flush=True)


if __name__ == "__main__":
    main()

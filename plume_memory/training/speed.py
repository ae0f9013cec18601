"""What the machine could do at most, for model FLOP utilisation. Knows no model."""

import time

import torch


@torch.no_grad()
def peak_flops(device: torch.device, *, seconds: float = 0.1) -> float:
    """Measure the floating-point operations per second of a square matrix product.

    In bfloat16 and float32, whichever is faster here: processors without bfloat16 emulate it slowly.
    """
    size = 8192 if device.type == "cuda" else 1024
    return max(_rate(device, dtype, size, seconds / 2) for dtype in (torch.bfloat16, torch.float32))


def _rate(device: torch.device, dtype: torch.dtype, size: int, seconds: float) -> float:
    a = torch.ones(size, size, device=device, dtype=dtype)
    b = torch.ones(size, size, device=device, dtype=dtype)
    best = 0.0
    _product_seconds(a, b)  # loads the kernel
    begun = time.monotonic()
    while not best or time.monotonic() - begun < seconds:
        best = max(best, 2 * size**3 / _product_seconds(a, b))
    return best


def _product_seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    _wait(a.device)
    begun = time.perf_counter()
    torch.mm(a, b)
    _wait(a.device)
    return time.perf_counter() - begun


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

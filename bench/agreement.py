"""How far bfloat16 and eight-bit weights are from float32: the own pass, and Hugging Face's modules, on CPU or CUDA.

    python bench/agreement.py [--model smollm2-135m] [--tokens 2000] [--threads 1] [--passes int8 own_cuda …]

Texts of the bundled chains, teacher-forced in 8 rows of 250 tokens, token by token as a decode takes them. For each
pass: in how many places the likeliest token is that of float32, and the KL divergence of its distribution from
float32's. One JSON line.
"""

import argparse
import json

import torch
from torch import Tensor

from eval.datasets.muse import load
from plume_memory.model.base import BaseModel
from plume_memory.model.key_values import Passes
from plume_memory.model.modules import Modules

WIDTH = 250
PASSES = ("own_float32", "int8", "own", "modules")
ON_CUDA = ("own_float32_cuda", "own_cuda", "modules_cuda")


def main() -> None:
    """Read, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--passes", nargs="+", choices=(*PASSES, *ON_CUDA), default=PASSES)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    wide = BaseModel.load(asked.model, dtype="float32", device="cpu")
    text = " ".join(text for chain in load("muse-chains", steps=(20,)) for text in chain.texts)
    ids = torch.tensor(wide.chat.encode(text)[: asked.tokens]).view(-1, WIDTH)
    expected = log_probs(Modules(wide.model), ids)
    found: dict[str, float] = {"tokens": ids.numel()}
    for name in asked.passes:
        passes = made(name, asked.model, wide)
        own = log_probs(passes, ids)
        divergence = (expected.exp() * (expected - own)).sum(-1)
        found[f"{name}_same"] = int((own.argmax(-1) == expected.argmax(-1)).sum())
        found[f"{name}_kl_mean"] = float(f"{divergence.mean():.3g}")
        found[f"{name}_kl_max"] = float(f"{divergence.max():.3g}")
    print(json.dumps(found))


def made(name: str, model: str, wide: BaseModel) -> Passes:
    """A forward pass by its name."""
    if name == "own_float32":
        return wide.passes
    if name == "int8":
        return BaseModel.load(model, dtype="float32", weights="int8", device="cpu").passes
    device = "cuda" if name in ON_CUDA else "cpu"
    dtype = "float32" if name == "own_float32_cuda" else "bfloat16"
    narrow = BaseModel.load(model, dtype=dtype, device=device)
    return Modules(narrow.model) if name.startswith("modules") else narrow.passes


@torch.inference_mode()
def log_probs(passes: Passes, ids: Tensor) -> Tensor:
    """Log-probabilities [R, W, V] of what follows each token, read one at a time; float32."""
    cache = passes.room(len(ids), ids.shape[1])
    ids = ids.to(passes.device)
    found = []
    for at in range(ids.shape[1]):
        positions = torch.full((len(ids), 1), at, device=ids.device)
        hidden = passes.run(ids[:, at : at + 1], positions, cache)
        found.append(passes.logits(hidden)[:, 0].float().log_softmax(-1).cpu())
    return torch.stack(found, dim=1)


if __name__ == "__main__":
    main()

"""Average the weights of two trained fast-weight networks that share a start.

    python bench/average_networks.py runs/A/hypernetwork runs/B/hypernetwork 0.35 OUT    # 0.65 A + 0.35 B

A run that recalls more and one that disturbs less trade along the line between their weights; see
bench/results/statements.md for what it gave.
"""

import argparse
from pathlib import Path

import torch

from plume_memory.hypernet.fastweight.checkpoint import load, read_manifest, save
from plume_memory.hypernet.reranker import load_reranker, save_reranker


def main() -> None:
    """Write (1 − w) A + w B."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("weight", type=float, help="of the second, between 0 and 1")
    parser.add_argument("out", type=Path, help="a new or empty folder")
    given = parser.parse_args()
    if not 0 <= given.weight <= 1:
        parser.error(f"the weight must lie between 0 and 1, got {given.weight}")
    first, second = load(given.first), load(given.second)
    if first.config != second.config:
        parser.error(f"{given.first} and {given.second} have different shapes; average networks of one config")
    with torch.no_grad():
        for own, other in zip(first.parameters(), second.parameters(), strict=True):
            own.lerp_(other.to(own.dtype), given.weight)
    given.out.mkdir(parents=True, exist_ok=True)
    if any(given.out.iterdir()):
        parser.error(f"{given.out} is not empty")
    manifest = read_manifest(given.first)
    sha256 = manifest.reranker_sha256
    if sha256 is not None:  # it is no part of what is averaged
        save_reranker(load_reranker(given.first, sha256), given.out)
    save(
        first,
        given.out,
        base_model=manifest.base_model,
        base_fingerprint=manifest.base_fingerprint,
        max_tokens=manifest.max_tokens,
        answers=manifest.answers,
        reranker_sha256=sha256,
    )
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()

"""Where in a text an answer stands, and whether it is recalled: exact answers by the place of the value.

    python bench/experiments/places.py [--hypernetwork shipped] [--facts 1] [--texts 128]

Unseen invented texts, teacher-forced: `exact` is the share of answers of which every token is the most likely one
behind the words that lead to it, `first` the same of the first token alone, `rest` of the others given the right ones
before. A value is `at text start`, `at sentence start` or `later`, and of `digits`, a `name` or a `word`. One JSON
line per group.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from common import NEWER

from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.model.base import BaseModel
from plume_memory.training.facts import FactSource
from plume_memory.training.items import ItemWriter
from plume_memory.training.packing import pack
from plume_memory.training.student import target_logits
from plume_memory.training.writing import FastWeightWriter, rows_of

AT_ONCE = 8
Hit = tuple[bool, bool, bool]


def place_of(text: str, value: str) -> str:
    """Where the value first stands."""
    at = text.find(value)
    if at < 2:
        return "at text start"
    sentence = text[max(text.rfind(mark, 0, at) for mark in (".", "\n")) + 1 :]
    return "at sentence start" if sentence.find(value) < 5 else "later"


def kind_of(value: str) -> str:
    """What its tokens are like."""
    if any(letter.isdigit() for letter in value):
        return "digits"
    return "name" if value[:1].isupper() else "word"


def main() -> None:
    """Write the texts, ask, and count by group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--facts", type=int, default=1)
    parser.add_argument("--texts", type=int, default=128)
    given = parser.parse_args()
    base = BaseModel.load("smollm2-135m")
    own = shipped_hypernetwork(base.name) if given.hypernetwork == "shipped" else Path(given.hypernetwork)
    assert own is not None, "the package carries one for this model"
    writer = FastWeightWriter(checkpoint.load(own).to(base.device), base)
    items = ItemWriter(base.chat, base.chat.suffix_ids()[0], 20, statements=True)
    chance = random.Random("bench:places")
    source = FactSource("facts", smallest=given.facts, exclude_families=NEWER)
    samples = [source.draw(chance, largest=given.facts, update=False) for _ in range(given.texts)]
    groups: dict[str, list[Hit]] = {}
    for at in range(0, len(samples), AT_ONCE):
        some = samples[at : at + AT_ONCE]
        with torch.no_grad():
            written = writer.write([tuple(base.chat.encode(sample.text)) for sample in some])
            rows = [[items.answer(ask) for ask in sample.asks] for sample in some]
            packed = pack(rows, base.chat.prefix_ids(), device=base.device, dtype=base.dtype)
            reads = [((i, 1.0),) for i in range(len(some))]
            logits = target_logits(base, packed, rows_of(written, reads, writer.layers, base.dtype))
        right = logits.argmax(-1) == packed.targets
        for n, (text, ask) in enumerate((sample.text, ask) for sample in some for ask in sample.asks):
            hits = right[(packed.item == n) & packed.in_answer].tolist()
            for group in ("all", place_of(text, ask.answer), kind_of(ask.answer)):
                groups.setdefault(group, []).append((all(hits), hits[0], all(hits[1:])))
    for group, found in sorted(groups.items()):
        exact, first, rest = (round(sum(column) / len(found), 3) for column in zip(*found, strict=True))
        print(json.dumps({"group": group, "answers": len(found), "exact": exact, "first": first, "rest": rest}))


if __name__ == "__main__":
    main()

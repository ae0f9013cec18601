"""What of a trained hypernetwork's adapters matters: their rank, and how many pieces a text is written in.

    python bench/experiments/ablations.py [rank chunks] [--hypernetwork shipped] [--seeds 3]

`mini_squad`, static, ROUGE-L recall through one adapter per text, nothing routed: a seed draws 12 of the records, with
one question each of three. `rank` truncates ΔW by SVD; `chunks` writes a text in so many pieces of whole
sentences and adds the adapters up, or takes their mean. One JSON line per row, with the 95 % interval over texts.
"""

import argparse
import random
from collections.abc import Sequence
from itertools import pairwise

from common import data_folder, mean, recall, say
from hypernetwork import Bench, options

from eval.metrics.confidence import estimate
from plume_memory.lora.algebra import truncated, weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.queries import Query
from plume_memory.segmentation.sentences import sentence_spans

RANKS = (8, 16, 32, 64, 128)
CHUNKS = (1, 2, 4)


def pieces(text: str, count: int) -> list[str]:
    """Cut into so many runs of whole sentences, of about the same number of characters; fewer if it has fewer."""
    spans = sentence_spans(text)
    cuts = [0]
    for part in range(1, count):
        wanted = part * len(text) / count
        place = min(range(len(spans)), key=lambda i: abs(spans[i].start - wanted))
        if place > cuts[-1]:
            cuts.append(place)
    starts = [spans[i].start for i in cuts] + [len(text)]
    return [text[a:b].strip() for a, b in pairwise(starts)]


class Ablations:
    """One bench, its adapters changed in several ways."""

    def __init__(self, bench: Bench, seeds: int) -> None:
        self.bench, self.seeds = bench, seeds
        self.records = bench.mini_records()

    def rank(self) -> None:
        """Truncated SVD of every layer's ΔW."""
        whole = self.bench.whole([record["context_old"] for record in self.records])
        for rank in RANKS:
            cut = [truncated(factors, max_rank=rank) for factors in whole]
            error = max(float(layers.max()) for one in cut for layers in one.relative_error.values())
            self.measure([one.factors for one in cut], what="rank", rank=rank, largest_error=round(error, 4))

    def chunks(self) -> None:
        """Sum and mean of the pieces' adapters."""
        for count in CHUNKS:
            cut = [pieces(record["context_old"], count) for record in self.records]
            made = [self.bench.whole(some) for some in cut]
            for name in ("sum", "mean") if count > 1 else ("sum",):
                scale = [1.0 if name == "sum" else 1 / len(some) for some in made]
                factors = [weighted_sum([(c, f) for f in some]) for c, some in zip(scale, made, strict=True)]
                self.measure(factors, what="chunks", chunks=count, composed=name)

    def measure(self, factors: Sequence[LoraFactors], **row: object) -> None:
        """Ask every seed's questions of the adapters, and print."""
        by_seed = []
        scores: dict[str, list[float]] = {}
        for seed in range(self.seeds):
            chance = random.Random(f"bench:ablations:{seed}")
            chosen = chance.sample(range(len(self.records)), 12)
            asked = [(i, qa) for i in chosen for qa in chance.sample(self.records[i]["qas"], 3)]
            outputs = self.bench.ask([Query(self.bench.row(qa["question"], factors[i])) for i, qa in asked])
            found = [recall(output, qa["old_answers"]) for output, (_, qa) in zip(outputs, asked, strict=True)]
            for value, (i, _) in zip(found, asked, strict=True):
                scores.setdefault(self.records[i]["id"], []).append(value)
            by_seed.append(mean(found))
        whole = estimate(scores)
        assert whole is not None, "questions were asked"
        interval = [round(whole.low, 3), round(whole.high, 3)]
        say({**row, "recall": round(whole.mean, 3), "interval": interval, "seeds": by_seed})


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["rank", "chunks"])
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    bench = Bench(options().parse_args(["--hypernetwork", given.hypernetwork]), data_folder())
    ablations = Ablations(bench, given.seeds)
    for what in given.what:
        getattr(ablations, what)()


if __name__ == "__main__":
    main()

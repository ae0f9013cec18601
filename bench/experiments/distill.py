"""Context distillation on MUSE records: recall from the weights, against reading and against guessing.

    python bench/experiments/distill.py [--records 12] [--set learning_rate=0.03 epochs=8 ...]

For each record the old context is distilled into one adapter; its questions are then asked without
any text. ROUGE-L recall with stemming, greedy, 48 new tokens; `in context` is the same model with
the text in its prompt, `guessing` without. `unrelated` is the recall of the adapter's answers to
six general questions against the bare model's own. Records: $PLUME_DATA or ../shared/data.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import GENERAL, mean, recall

from plume_memory.distill import DistillationParameterizer, DistillSettings
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler

UNRELATED = GENERAL[:6]


class Bench:
    """One model, one setting."""

    def __init__(self, settings: DistillSettings) -> None:
        self.base = BaseModel.load("smollm2-135m")
        self.parameterizer = DistillationParameterizer(self.base, settings)
        self.decoder = Scheduler(self.base)

    def answers(self, prompts: Sequence[str], factors: LoraFactors | None = None) -> list[str]:
        """Greedy answers to prompts under one adapter."""
        queries = [Query(Row(tuple(self.base.chat.prompt_ids(prompt)), factors)) for prompt in prompts]
        return [d.text for d in self.decoder.decode(queries, DecodeSettings(max_new_tokens=48))]

    def record(self, record: dict[str, Any]) -> dict[str, Any]:
        """Distil one record and ask its questions three ways."""
        begun = time.perf_counter()
        factors = self.parameterizer.parameterize([record["context_old"]])[0]
        seconds = time.perf_counter() - begun
        questions = [qa["question"] for qa in record["qas"]]
        references = [qa["old_answers"] for qa in record["qas"]]
        ways = {
            "memory": self.answers(questions, factors),
            "in_context": self.answers([f"{record['context_old']}\n\n{q}" for q in questions]),
            "guessing": self.answers(questions),
        }
        scores = {w: [recall(o, r) for o, r in zip(out, references, strict=True)] for w, out in ways.items()}
        bare, edited = self.answers(UNRELATED), self.answers(UNRELATED, factors)
        kept = [recall(e, [b]) for e, b in zip(edited, bare, strict=True)]
        return {"id": record["id"], "seconds": round(seconds, 1), "unrelated": kept, **scores}


def main() -> None:
    """Print one JSON line per record and one with the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=12)
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=JSON")
    asked = parser.parse_args()
    changes = {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in asked.set)}
    bench = Bench(DistillSettings(**changes))
    data = Path(os.environ.get("PLUME_DATA", "../shared/data")) / "muse" / "mini_squad_dev.jsonl"
    lines = data.read_text(encoding="utf-8").splitlines()[: asked.records]
    rows = []
    for line in lines:
        rows.append(bench.record(json.loads(line)))
        print(json.dumps({k: v if isinstance(v, str | float) else mean(v) for k, v in rows[-1].items()}), flush=True)
    totals = {k: mean([x for row in rows for x in row[k]]) for k in ("memory", "in_context", "guessing", "unrelated")}
    seconds = mean([row["seconds"] for row in rows])
    print(json.dumps({"records": len(rows), "seconds": seconds, **totals, "settings": changes}))


if __name__ == "__main__":
    main()

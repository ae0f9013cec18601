"""Compiled evidence without a parameterizer: λ_max, τ and δ on MUSE records, after one update.

    python bench/experiments/prefix.py [--records 8]

Both contexts of a record are updates of one memory; its questions are asked with `evidence="states"` and
the bare model as the global stream. ROUGE-L recall with stemming, greedy, 48 new tokens. Records:
$PLUME_DATA or ../shared/data.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from rouge_score.rouge_scorer import RougeScorer

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.model.base import BaseModel

SETTINGS = ((1.0, 0.3, 0.5), (5.0, 0.3, 0.5), (10.0, 0.05, 0.5), (30.0, 0.05, 0.5), (10.0, 0.05, 0.4))
SCORER = RougeScorer(["rougeL"], use_stemmer=True)


def ask(engine: Engine, record: dict[str, Any]) -> list[tuple[bool, float]]:
    """Whether each question is affected by the update, and the recall of its answer."""
    with tempfile.TemporaryDirectory() as folder:
        with ParametricMemory.open("bench", url="sqlite://", engine=engine, artifacts=folder) as memory:
            memory.update(record["context_old"])
            memory.update(record["context_update"])
            answers = memory.ask_many([qa["question"] for qa in record["qas"]], max_new_tokens=48)
    return [
        (qa["affected"], max(SCORER.score(ref, answer.text)["rougeL"].recall for ref in qa["answers"]))
        for qa, answer in zip(record["qas"], answers, strict=True)
    ]


def main() -> None:
    """Print one JSON line per setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=8)
    asked = parser.parse_args()
    data = Path(os.environ.get("PLUME_DATA", "../shared/data")) / "muse" / "mini_squad_dev.jsonl"
    records = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()[: asked.records]]
    base = BaseModel.load("smollm2-135m")
    for lambda_max, tau, delta in SETTINGS:
        engine = Engine(base, None, AnswerPolicy(evidence="states", lambda_max=lambda_max, tau=tau, delta=delta))
        scores = [pair for record in records for pair in ask(engine, record)]
        by_kind = {kind: [s for affected, s in scores if affected == kind] for kind in (True, False)}
        row = {"lambda_max": lambda_max, "tau": tau, "delta": delta, "questions": len(scores)}
        for name, values in (("affected", by_kind[True]), ("kept", by_kind[False]), ("all", [s for _, s in scores])):
            row[name] = round(sum(values) / len(values), 3)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

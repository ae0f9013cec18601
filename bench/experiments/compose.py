"""How to weigh distilled adapters: α, β, λ_max and τ on MUSE records, after one update.

    python bench/experiments/compose.py [--records 6] [--cache /tmp/plume-compose]

Both contexts of a record are distilled once and kept in the cache folder; the global adapter is
α·ΔW(old) + (α+β)·ΔW(update), the evidence adapter that of the routed context. ROUGE-L recall with
stemming, greedy, 48 new tokens; `stale` is the share of affected questions answered with an old
reference and no new one. Records: $PLUME_DATA or ../shared/data.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rouge_score.rouge_scorer import RougeScorer

from plume_memory.distill import DistillationParameterizer
from plume_memory.lora.algebra import weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import load_factors, save_factors
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.records import Unit, join_transitions
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.scheduling import Scheduler

WEIGHTS = ((1.0, 0.75), (0.5, 0.5), (0.4, 0.5), (0.3, 0.5))
LAMBDAS = ((1.0, 0.3), (2.0, 0.3), (5.0, 0.3), (10.0, 0.05))
DELTA = 0.4
SCORER = RougeScorer(["rougeL"], use_stemmer=True)
Asked = tuple[dict[str, Any], dict[str, Any]]


class Sweep:
    """Records, their adapters, and one model."""

    def __init__(self, records: list[dict[str, Any]], cache: Path) -> None:
        self.base = BaseModel.load("smollm2-135m")
        self.decoder = Scheduler(self.base)
        self.asked: list[Asked] = [(record, qa) for record in records for qa in record["qas"]]
        self.factors = {record["id"]: self._distilled(record, cache) for record in records}

    def _distilled(self, record: dict[str, Any], cache: Path) -> tuple[LoraFactors, LoraFactors]:
        parameterizer = DistillationParameterizer(self.base)
        made = []
        for part in ("context_old", "context_update"):
            path = cache / f"{parameterizer.fingerprint[:12]}-{record['id']}-{part}.safetensors"
            if not path.is_file():
                save_factors(parameterizer.parameterize([record[part]])[0], path)
            made.append(load_factors(path))
        return made[0], made[1]

    def prompt(self, text: str) -> tuple[int, ...]:
        """Prompt ids of one question."""
        return tuple(self.base.chat.prompt_ids(text))

    def routed(self, record: dict[str, Any], question: str) -> LoraFactors:
        """The adapter of the context the router activates."""
        units = [Unit(0, 1, 0, 1, record["context_old"]), Unit(1, 2, 0, 1, record["context_update"])]
        return self.factors[record["id"]][UnitIndex(units).route(question, delta=DELTA).unit.position]

    def run(
        self, name: str, make: Callable[[dict[str, Any], str], Query], lambda_max: float = 1.0, tau: float = 0.3
    ) -> None:
        """Ask everything one way and print a line."""
        settings = DecodeSettings(max_new_tokens=48, lambda_max=lambda_max, tau=tau)
        queries = [make(record, qa["question"]) for record, qa in self.asked]
        texts = []
        for at in range(0, len(queries), 16):
            texts += [d.text for d in self.decoder.decode(queries[at : at + 16], settings)]
        scores: dict[bool, list[float]] = {True: [], False: []}
        stale = 0
        for (_, qa), text in zip(self.asked, texts, strict=True):
            scores[qa["affected"]].append(max(SCORER.score(a, text)["rougeL"].recall for a in qa["answers"]))
            said_old, said_new = (any(a.lower() in text.lower() for a in qa[k]) for k in ("old_answers", "answers"))
            stale += qa["affected"] and said_old and not said_new
        means = {k: round(sum(v) / len(v), 3) for k, v in (("affected", scores[True]), ("kept", scores[False]))}
        everything = round(sum(map(sum, scores.values())) / len(texts), 3)
        row = {"way": name, **means, "all": everything, "stale": round(stale / len(scores[True]), 3)}
        print(json.dumps(row), flush=True)


def main() -> None:
    """Print one JSON line per way of answering."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=6)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "plume-compose")
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ.get("PLUME_DATA", "../shared/data")) / "muse" / "mini_squad_dev.jsonl"
    sweep = Sweep([json.loads(line) for line in data.read_text().splitlines()[: given.records]], given.cache)
    print(json.dumps({"records": given.records, "questions": len(sweep.asked)}))
    sweep.run("base without context", lambda _, q: Query(Row(sweep.prompt(q))))
    sweep.run(
        "base with context",
        lambda r, q: Query(Row(sweep.prompt(f"{join_transitions([r['context_old'], r['context_update']])}\n\n{q}"))),
    )
    sweep.run("evidence only", lambda r, q: Query(Row(sweep.prompt(q), sweep.routed(r, q))))
    for alpha, beta in WEIGHTS:
        weighed = {k: weighted_sum([(alpha, o), (alpha + beta, u)]) for k, (o, u) in sweep.factors.items()}

        def plume(r: dict[str, Any], q: str, weighed: dict[str, LoraFactors] = weighed) -> Query:
            return Query(Row(sweep.prompt(q), weighed[r["id"]]), Row(sweep.prompt(q), sweep.routed(r, q)))

        def alone(r: dict[str, Any], q: str, plume: Callable[[dict[str, Any], str], Query] = plume) -> Query:
            return Query(plume(r, q).global_row)

        sweep.run(f"global only α={alpha} β={beta}", alone)
        for lambda_max, tau in LAMBDAS:
            sweep.run(f"fused α={alpha} β={beta} λ_max={lambda_max} τ={tau}", plume, lambda_max, tau)


if __name__ == "__main__":
    main()

"""A trained hypernetwork against its targets: one JSON line per measurement.

    python bench/hypernetwork.py [facts squad mini update damage long speed] [--hypernetwork DIR] [--contexts 500]

ROUGE-L recall with stemming, greedy, 48 new tokens. `in_context` is the same model reading the same
text in its prompt, with the best of three plain prompts; `swapped` answers with another text's
adapter. Data: $PLUME_DATA or ../shared/data, of which nothing here was trained on.
"""

import argparse
import gzip
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rouge_score.rouge_scorer import RougeScorer

from plume_memory.engine import Engine
from plume_memory.evidence.route import UnitIndex
from plume_memory.lora.algebra import weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.decode import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.records import Transition, Unit, join_transitions
from plume_memory.training.facts import FactSource

PROMPTS = ("{text}\n\n{question}", "{text}\n\nQuestion: {question}\nAnswer:", "{question}\n\n{text}")
GENERAL = (
    "What is the capital of France?",
    "Who wrote Romeo and Juliet?",
    "What is 2+2?",
    "Name a primary color.",
    "What is the largest ocean?",
    "How many legs does a spider have?",
    "What is the boiling point of water?",
    "Who painted the Mona Lisa?",
    "What language is spoken in Brazil?",
    "What is the opposite of hot?",
    "Name a planet.",
    "What do bees make?",
    "How many days are in a week?",
    "What is H2O?",
    "Who was the first president of the United States?",
    "What colour is the sky?",
    "Write a short greeting.",
    "Name three fruits.",
    "What is the square root of 81?",
    "What animal says meow?",
)
SCORER = RougeScorer(["rougeL"], use_stemmer=True)
SETTINGS = DecodeSettings(max_new_tokens=48)


def recall(output: str, references: Sequence[str]) -> float:
    """Best ROUGE-L recall over the references."""
    return max(SCORER.score(reference, output)["rougeL"].recall for reference in references)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, rounded for print."""
    return round(sum(values) / max(1, len(values)), 4)


class Bench:
    """One engine, asked in several ways."""

    def __init__(self, hypernetwork: str, data: Path, contexts: int) -> None:
        self.engine = Engine.load("smollm2-135m", hypernetwork=hypernetwork)
        self.data, self.contexts = data, contexts
        self.base = self.engine.base

    def adapters(self, texts: Sequence[str]) -> list[LoraFactors]:
        """One adapter per text: the sum over its evidence units, as the engine writes a history."""
        parameterizer = self.engine.parameterizer
        assert parameterizer is not None, "a hypernetwork was loaded"
        made = []
        for text in texts:
            units = [unit.text for unit in self.engine.units([Transition(1, text)])]
            made.append(weighted_sum([(1.0, f) for f in parameterizer.parameterize(units)]))
        return made

    def ask(self, queries: Sequence[Query], settings: DecodeSettings = SETTINGS) -> list[str]:
        """Greedy answers, prompts of like length together."""
        order = sorted(range(len(queries)), key=lambda i: len(queries[i].global_row.prompt_ids))
        texts: dict[int, str] = {}
        for at in range(0, len(order), 16):
            some = order[at : at + 16]
            for i, decoded in zip(some, self.engine.decoder.decode([queries[i] for i in some], settings), strict=True):
                texts[i] = decoded.text
        return [texts[i] for i in range(len(queries))]

    def row(self, prompt: str, factors: LoraFactors | None = None) -> Row:
        """A prompt under an adapter."""
        return Row(tuple(self.base.chat.prompt_ids(prompt)), factors)

    def static(self, name: str, texts: list[str], asked: list[list[tuple[str, list[str]]]]) -> dict[str, Any]:
        """Recall from the weights, in context, with swapped adapters, and by guessing."""
        flat = [(i, q, refs) for i, own in enumerate(asked) for q, refs in own]
        factors = self.adapters(texts)
        ways = {
            "memory": [Query(self.row(q, factors[i])) for i, q, _ in flat],
            "swapped": [Query(self.row(q, factors[(i + 1) % len(texts)])) for i, q, _ in flat],
            "guessing": [Query(self.row(q)) for _, q, _ in flat],
        }
        for n, prompt in enumerate(PROMPTS):
            ways[f"in_context_{n}"] = [Query(self.row(prompt.format(text=texts[i], question=q))) for i, q, _ in flat]
        scores = {}
        for way, queries in ways.items():
            outputs = self.ask(queries)
            scores[way] = mean([recall(o, refs) for o, (_, _, refs) in zip(outputs, flat, strict=True)])
        best = max(scores[f"in_context_{n}"] for n in range(len(PROMPTS)))
        counts = {"texts": len(texts), "questions": len(flat)}
        return {"what": name, **counts, **scores, "ratio": round(scores["memory"] / best, 3)}

    # --- the targets ------------------------------------------------------------------------------

    def facts(self) -> None:
        """Exactly right answers on unseen generated texts."""
        for count in (1, 4, 8, 20):
            chance = random.Random(f"bench:{count}")
            source = FactSource("facts", smallest=count)
            samples = [source.draw(chance, largest=count, update=False) for _ in range(max(6, 96 // count))]
            factors = self.adapters([s.text for s in samples])
            flat = [(i, ask) for i, s in enumerate(samples) for ask in s.asks]
            shares = {}
            for way, shift in (("exact", 0), ("swapped", 1)):
                outputs = self.ask([Query(self.row(a.question, factors[(i + shift) % len(samples)])) for i, a in flat])
                shares[way] = mean([float(o.strip() == a.answer) for o, (_, a) in zip(outputs, flat, strict=True)])
            say({"what": f"facts_{count}", "texts": len(samples), "questions": len(flat), **shares})

    def squad(self) -> None:
        """SQuAD dev, one question per context."""
        with gzip.open(self.data / "qa" / "squad_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        chance = random.Random("bench:squad")
        chosen = chance.sample(records, min(self.contexts, len(records)))
        asked = [[(qa["question"], qa["answers"])] for qa in (chance.choice(r["qas"]) for r in chosen)]
        say(self.static("squad_dev", [r["context"] for r in chosen], asked))

    def mini(self) -> None:
        """The original records, before the update."""
        records = self._records()
        asked = [[(qa["question"], qa["old_answers"]) for qa in r["qas"]] for r in records]
        say(self.static("mini_squad", [r["context_old"] for r in records], asked))

    def update(self) -> None:
        """The original records after the update: PLUME, D2L-style H(C_full) alone, in context."""
        records = self._records()
        asked = [(r, qa) for r in records for qa in r["qas"]]
        old = self.adapters([r["context_old"] for r in records])
        new = self.adapters([r["context_update"] for r in records])
        pair = {r["id"]: (o, n) for r, o, n in zip(records, old, new, strict=True)}
        chosen = self.engine.settings

        def plume(r: dict[str, Any], q: str, alpha: float = chosen.alpha, beta: float = chosen.beta) -> Query:
            o, n = pair[r["id"]]
            units = [Unit(0, 1, 0, 1, r["context_old"]), Unit(1, 2, 0, 1, r["context_update"])]
            routed = UnitIndex(units).route(q, delta=chosen.delta).unit.position
            return Query(self.row(q, weighted_sum([(alpha, o), (alpha + beta, n)])), self.row(q, (o, n)[routed]))

        ways: dict[str, Callable[[dict[str, Any], str], Query]] = {
            "plume": plume,
            "global_only": lambda r, q: Query(plume(r, q).global_row),
            "d2l": lambda r, q: Query(self.row(q, weighted_sum([(1.0, f) for f in pair[r["id"]]]))),
            "static": lambda r, q: Query(self.row(q, pair[r["id"]][0])),
        }
        for n, prompt in enumerate(PROMPTS):
            ways[f"in_context_{n}"] = lambda r, q, p=prompt: Query(
                self.row(p.format(text=join_transitions([r["context_old"], r["context_update"]]), question=q))
            )
        for way, make in ways.items():
            settings = DecodeSettings(max_new_tokens=48, lambda_max=chosen.lambda_max, tau=chosen.tau)
            outputs = self.ask([make(r, qa["question"]) for r, qa in asked], settings)
            hits = [recall(o, qa["answers"]) for o, (_, qa) in zip(outputs, asked, strict=True)]
            stale = [
                float(_says(o, qa["old_answers"]) and not _says(o, qa["answers"]))
                for o, (_, qa) in zip(outputs, asked, strict=True)
                if qa["affected"]
            ]
            affected = [h for h, (_, qa) in zip(hits, asked, strict=True) if qa["affected"]]
            kept = [h for h, (_, qa) in zip(hits, asked, strict=True) if not qa["affected"]]
            row = {"what": "mini_squad_update", "way": way, "questions": len(asked), "all": mean(hits)}
            say(row | {"affected": mean(affected), "kept": mean(kept), "stale": mean(stale)})

    def damage(self) -> None:
        """Perplexity of unrelated prose and answers to general questions, with an adapter and without."""
        records = self._records()
        factors = self.adapters([r["context_old"] for r in records])
        ratios = []
        for i, own in enumerate(factors):
            text = records[(i + 1) % len(records)]["context_old"]
            ratios.append(self._perplexity(text, own) / self._perplexity(text, None))
        bare = self.ask([Query(self.row(q)) for q in GENERAL])
        same = []
        for own in factors[:6]:
            outputs = self.ask([Query(self.row(q, own)) for q in GENERAL])
            same += [float(o == b) for o, b in zip(outputs, bare, strict=True)]
        say({"what": "damage", "perplexity_ratio": mean(ratios), "general_unchanged": mean(same), "asked": len(same)})

    def long(self) -> None:
        """Texts of 100, 200 and 300 words: several SQuAD passages of one article joined, one asked about."""
        with gzip.open(self.data / "qa" / "squad_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        for words in (100, 200, 300):
            chance = random.Random(f"bench:long:{words}")
            texts, asked = [], []
            while len(texts) < 60:
                at = chance.randrange(len(records) - 6)
                first = records[at]
                text, more = first["context"], at + 1
                while len(text.split()) < words and more < len(records):
                    text, more = f"{text}\n{records[more]['context']}", more + 1
                if abs(len(text.split()) - words) <= words * 0.15:
                    qa = chance.choice(first["qas"])
                    texts.append(text)
                    asked.append([(qa["question"], qa["answers"])])
            say(self.static(f"words_{words}", texts, asked))

    def speed(self) -> None:
        """Seconds of one update of about 150 tokens, and of the base model's forward over the same tokens."""
        text = self._records()[0]["context_old"]
        ids = self.base.chat.encode(text)[:150]
        text = self.base.tokenizer.decode(ids)
        parameterizer = self.engine.parameterizer
        assert parameterizer is not None, "a hypernetwork was loaded"
        write = _median(lambda: parameterizer.parameterize([text]))
        row = torch.tensor([self.base.chat.prefix_ids() + self.base.chat.encode(text)])
        with torch.no_grad():
            forward = _median(lambda: self.base.model(input_ids=row, use_cache=False))
        seconds = {"write_s": round(write, 4), "forward_s": round(forward, 4)}
        say({"what": "speed", "tokens": row.shape[1], **seconds, "ratio": round(write / forward, 2)})

    def _perplexity(self, text: str, factors: LoraFactors | None) -> float:
        ids = torch.tensor([self.base.chat.prefix_ids() + self.base.chat.encode(text)], device=self.base.device)
        rows = stack_rows([factors], device=self.base.device, dtype=self.base.dtype)
        skip = len(self.base.chat.prefix_ids())
        with torch.no_grad(), attached(self.base.model, rows):
            logits = self.base.model(input_ids=ids, use_cache=False).logits[0, skip:-1].float()
        return float(torch.nn.functional.cross_entropy(logits, ids[0, skip + 1 :]).exp())

    def _records(self) -> list[dict[str, Any]]:
        path = self.data / "muse" / "mini_squad_dev.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _says(output: str, references: Sequence[str]) -> bool:
    return any(reference.lower() in output.lower() for reference in references)


def _median(call: Callable[[], object], times: int = 7) -> float:
    call()
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return sorted(seconds)[times // 2]


def say(row: dict[str, Any]) -> None:
    """Print one measurement."""
    print(json.dumps(row), flush=True)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["facts", "mini", "update", "damage", "speed", "long", "squad"])
    parser.add_argument("--hypernetwork", default="auto")
    parser.add_argument("--contexts", type=int, default=500)
    given = parser.parse_args()
    bench = Bench(given.hypernetwork, Path(os.environ.get("PLUME_DATA", "../shared/data")), given.contexts)
    for what in given.what:
        getattr(bench, what)()


if __name__ == "__main__":
    main()

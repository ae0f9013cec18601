"""A trained hypernetwork against its targets: one JSON line per measurement.

    python bench/experiments/hypernetwork.py [facts squad mini update damage long source speed] [--hypernetwork DIR]
    python bench/experiments/hypernetwork.py squad --shard 0/4      # a quarter; rows add up by `questions`
    python bench/experiments/hypernetwork.py facts --product-only   # after a change of policy: no other moves

ROUGE-L recall with stemming, greedy, 48 new tokens. `memory` is one adapter of the text alone, `product` what
`memory.ask` says (routed, both streams), `in_context` the same model reading the same text in its prompt, with
the best of three plain prompts; `swapped` answers with another text's adapter. Of invented facts, `exact`
replies are the answer or a statement that ends with it, and `says` ones hold it as whole words. Data:
$PLUME_DATA or ../shared/data; nothing of it is training data, but six SQuAD contexts share a long passage
with some that are.
"""

import argparse
import gzip
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from common import DRAWN, GENERAL, PROMPTS, data_folder, mean, recall, say, with_interval

from plume_memory.engine import Engine
from plume_memory.lora.algebra import weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.memory import ParametricMemory
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.records import Transition, join_transitions
from plume_memory.segmentation.sentences import sentence_spans
from plume_memory.training.facts import FAMILIES, FactSource
from plume_memory.training.sources.matching import holds

SETTINGS = DecodeSettings(max_new_tokens=48)


class Bench:
    """One engine, asked in several ways."""

    def __init__(self, given: argparse.Namespace, data: Path) -> None:
        self.engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
        self.data, self.contexts, self.records = data, given.contexts, given.records
        self.counts: list[int] = given.facts
        self.families: list[str] = given.families
        self.shard, self.shards = (int(part) for part in given.shard.split("/"))
        self.product_only: bool = given.product_only
        self.prompts = () if given.without_context or given.product_only else PROMPTS
        self.base = self.engine.base

    def adapters(self, texts: Sequence[str]) -> list[LoraFactors]:
        """One adapter per text: the sum over its windows, as the engine writes a history."""
        parameterizer = self.engine.parameterizer
        assert parameterizer is not None, "a hypernetwork was loaded"
        windows = [self.engine.segmenter.windows([Transition(1, text)]) for text in texts]
        return [weighted_sum([(1.0, f) for f in parameterizer.parameterize(own)]) for own in windows]

    def through_product(
        self, texts: Sequence[str], asked: Sequence[Sequence[str]], *, one_by_one: bool = False
    ) -> list[str]:
        """Answers of a memory that was told one text (nothing, if it is empty), as an application asks it."""
        outputs = []
        with tempfile.TemporaryDirectory() as folder:
            for number, (text, questions) in enumerate(zip(texts, asked, strict=True)):
                url = f"sqlite:///{folder}/bench.db"
                with ParametricMemory.open(f"text-{number}", url=url, engine=self.engine) as memory:
                    if text:
                        memory.update(text)
                    parts = [[question] for question in questions] if one_by_one else [questions]
                    for part in parts:
                        outputs += [answer.text for answer in memory.ask_many(part, max_new_tokens=48, unknown="bare")]
        return outputs

    def whole(self, texts: Sequence[str]) -> list[LoraFactors]:
        """One adapter per text, written as one text."""
        parameterizer = self.engine.parameterizer
        assert parameterizer is not None, "a hypernetwork was loaded"
        return parameterizer.parameterize(texts)

    def ask(self, queries: Sequence[Query], settings: DecodeSettings = SETTINGS) -> list[str]:
        """Greedy answers, prompts of like length together."""
        order = sorted(range(len(queries)), key=lambda i: len(queries[i].global_row.prompt_ids))
        texts: dict[int, str] = {}
        for at in range(0, len(order), 16):
            some = order[at : at + 16]
            for i, decoded in zip(
                some, self.engine.scheduler.decode([queries[i] for i in some], settings), strict=True
            ):
                texts[i] = decoded.text
        return [texts[i] for i in range(len(queries))]

    def row(self, prompt: str, factors: LoraFactors | None = None) -> Row:
        """A prompt under an adapter."""
        return Row(tuple(self.base.chat.prompt_ids(prompt)), factors)

    def static(self, name: str, texts: list[str], asked: list[list[tuple[str, list[str]]]]) -> dict[str, Any]:
        """Recall from one adapter, through the product, in context, with swapped adapters, and by guessing."""
        flat = [(i, q, refs) for i, own in enumerate(asked) for q, refs in own]
        ways: dict[str, list[Query]] = {}
        if not self.product_only:
            factors = self.adapters(texts)
            ways = {
                "memory": [Query(self.row(q, factors[i])) for i, q, _ in flat],
                "swapped": [Query(self.row(q, factors[(i + 1) % len(texts)])) for i, q, _ in flat],
                "guessing": [Query(self.row(q)) for _, q, _ in flat],
            }
        for n, prompt in enumerate(self.prompts):
            ways[f"in_context_{n}"] = [Query(self.row(prompt.format(text=texts[i], question=q))) for i, q, _ in flat]
        answered = {way: self.ask(queries) for way, queries in ways.items()}
        answered["product"] = self.through_product(texts, [[q for q, _ in own] for own in asked])
        scores: dict[str, Any] = {}
        for way, outputs in answered.items():
            recalls = [recall(o, refs) for o, (_, _, refs) in zip(outputs, flat, strict=True)]
            scores |= with_interval(way, recalls, [i for i, _, _ in flat])
        counts = {"texts": len(texts), "questions": len(flat)}
        if not self.prompts:
            return {"what": name, **counts, **scores}
        best = max(scores[f"in_context_{n}"] for n in range(len(self.prompts)))
        return {"what": name, **counts, **scores, "ratio": round(scores["memory"] / best, 3)}

    # --- the targets ------------------------------------------------------------------------------

    def facts(self) -> None:
        """Exactly right answers on unseen generated texts."""
        for count in self.counts:
            chance = random.Random(f"bench:{count}")
            source = FactSource("facts", smallest=count, only_families=self.families)
            samples = [source.draw(chance, largest=count, update=False) for _ in range(max(6, 96 // count))]
            flat = [(i, ask) for i, s in enumerate(samples) for ask in s.asks]
            ways: dict[str, list[Query]] = {}
            if not self.product_only:
                factors = self.adapters([s.text for s in samples])
                ways = {
                    "memory": [Query(self.row(a.question, factors[i])) for i, a in flat],
                    "swapped": [Query(self.row(a.question, factors[(i + 1) % len(samples)])) for i, a in flat],
                }
            for n, prompt in enumerate(self.prompts):
                ways[f"in_context_{n}"] = [
                    Query(self.row(prompt.format(text=samples[i].text, question=a.question))) for i, a in flat
                ]
            answered = {way: self.ask(queries) for way, queries in ways.items()}
            asked = [[ask.question for ask in s.asks] for s in samples]
            answered["product"] = self.through_product([s.text for s in samples], asked)
            shares: dict[str, Any] = {}
            for way, outputs in answered.items():
                told = list(zip(outputs, (a.answer for _, a in flat), strict=True))
                of_text = [i for i, _ in flat]
                shares |= with_interval(
                    f"{way}_exact", [float(_ends(output, answer)) for output, answer in told], of_text
                )
                shares |= with_interval(
                    f"{way}_says", [float(holds(output, answer)) for output, answer in told], of_text
                )
            families = {} if self.families == DRAWN else {"families": self.families}
            say({"what": f"facts_{count}", **families, "texts": len(samples), "questions": len(flat), **shares})

    def squad(self) -> None:
        """SQuAD dev, one question per context."""
        records = self._squad()
        chance = random.Random("bench:squad")
        chosen = chance.sample(records, min(self.contexts, len(records)))
        asked = [[(qa["question"], qa["answers"])] for qa in (chance.choice(r["qas"]) for r in chosen)]
        own = slice(self.shard, None, self.shards)
        row = self.static("squad_dev", [r["context"] for r in chosen[own]], asked[own])
        say(row | {"shard": f"{self.shard}/{self.shards}"})

    def mini(self) -> None:
        """The original records, before the update."""
        records = self.mini_records()
        asked = [[(qa["question"], qa["old_answers"]) for qa in r["qas"]] for r in records]
        say(self.static("mini_squad", [r["context_old"] for r in records], asked))

    def update(self) -> None:
        """The original records after the update, through the product: a memory of two versions per record.

        `d2l` writes C_full alone (pieces of the trained length, one after the other), `static` is version 1.
        """
        records = self.mini_records()
        asked = [(r, qa) for r in records for qa in r["qas"]]
        outputs: dict[str, list[str]] = {"plume": [], "static": []}
        with tempfile.TemporaryDirectory() as folder:
            for record in records:
                url = f"sqlite:///{folder}/bench.db"
                with ParametricMemory.open(record["id"], url=url, engine=self.engine) as memory:
                    memory.update(record["context_old"])
                    memory.update(record["context_update"])
                    questions = [qa["question"] for qa in record["qas"]]
                    for way, snapshot in (("plume", memory.at()), ("static", memory.at(version=1))):
                        outputs[way] += [
                            a.text for a in snapshot.ask_many(questions, max_new_tokens=48, unknown="bare")
                        ]
        joined = {r["id"]: join_transitions([r["context_old"], r["context_update"]]) for r in records}
        if not self.product_only:
            full = dict(zip(joined, self.whole(list(joined.values())), strict=True))
            outputs["d2l"] = self.ask([Query(self.row(qa["question"], full[r["id"]])) for r, qa in asked])
        for n, prompt in enumerate(self.prompts):
            queries = [Query(self.row(prompt.format(text=joined[r["id"]], question=qa["question"]))) for r, qa in asked]
            outputs[f"in_context_{n}"] = self.ask(queries)
        for way, texts in outputs.items():
            hits = [recall(o, qa["answers"]) for o, (_, qa) in zip(texts, asked, strict=True)]
            stale = [
                float(_says(o, qa["old_answers"]) and not _says(o, qa["answers"]))
                for o, (_, qa) in zip(texts, asked, strict=True)
                if qa["affected"]
            ]
            affected = [h for h, (_, qa) in zip(hits, asked, strict=True) if qa["affected"]]
            kept = [h for h, (_, qa) in zip(hits, asked, strict=True) if not qa["affected"]]
            row = {"what": "mini_squad_update", "way": way, "questions": len(asked), "all": mean(hits)}
            say(row | {"affected": mean(affected), "kept": mean(kept), "stale": mean(stale)})

    def damage(self) -> None:
        """Perplexity of SQuAD prose and answers to general questions, with a mini_squad adapter and without."""
        texts = [r["context_old"] for r in self.mini_records()]
        factors = self.adapters(texts)
        prose = [r["context"] for r in random.Random("bench:damage").sample(self._squad(), len(factors))]
        ratios = [self._perplexity(t, own) / self._perplexity(t, None) for t, own in zip(prose, factors, strict=True)]
        bare = self.ask([Query(self.row(q)) for q in GENERAL])
        same, recalls = [], []
        for own in factors[:6]:
            outputs = self.ask([Query(self.row(q, own)) for q in GENERAL])
            same += [float(o == b) for o, b in zip(outputs, bare, strict=True)]
            recalls += [recall(o, [b]) for o, b in zip(outputs, bare, strict=True)]
        kept = {"general_unchanged": mean(same), "general_recall_of_bare": mean(recalls)}
        # rounding in bfloat16 differs with the batch: each question is asked alone, of an empty memory too
        alike = self.through_product([""], [GENERAL], one_by_one=True)
        asked = self.through_product(texts[:6], [GENERAL] * 6, one_by_one=True)
        kept["general_unchanged_product"] = mean([float(o == b) for o, b in zip(asked, alike * 6, strict=True)])
        say({"what": "damage", "perplexity_ratio": mean(ratios), **kept, "asked": len(same)})

    def long(self) -> None:
        """Texts of about 100, 200 and 300 words: passages of one article joined, one of them asked about."""
        articles: dict[str, list[dict[str, Any]]] = {}
        for record in self._squad():
            articles.setdefault(record["title"], []).append(record)
        for words in (100, 200, 300):
            chance = random.Random(f"bench:long:{words}")
            texts: list[str] = []
            asked: list[list[tuple[str, list[str]]]] = []
            while len(texts) < 40:
                passages = chance.choice(list(articles.values()))
                at = chance.randrange(len(passages))
                chosen = passages[at : at + 1]
                while sum(len(p["context"].split()) for p in chosen) < 0.85 * words and at + 1 < len(passages):
                    at += 1
                    chosen.append(passages[at])
                text = "\n".join(p["context"] for p in chosen)
                if abs(len(text.split()) - words) <= 0.15 * words:
                    qa = chance.choice(chance.choice(chosen)["qas"])
                    texts.append(text)
                    asked.append([(qa["question"], qa["answers"])])
            say(self.static(f"words_{words}", texts, asked))

    def source(self) -> None:
        """COVID-QA, unseen by the shipped network: about 150 words around one answer of each paper."""
        with gzip.open(self.data / "train" / "covidqa.jsonl.gz", "rt", encoding="utf-8") as lines:
            papers = [json.loads(line) for line in lines]
        chance = random.Random("bench:source")
        texts: list[str] = []
        asked: list[list[tuple[str, list[str]]]] = []
        for paper in papers:
            # an answer that stands in the paper once is in no other place of it either
            found = [qa for qa in paper["qas"] if paper["context"].count(qa["answers"][0]) == 1]
            if found:
                qa = chance.choice(found)
                texts.append(_around(paper["context"], qa["answers"][0], words=150))
                asked.append([(qa["question"], qa["answers"])])
        say(self.static("covid_qa", texts, asked))

    def speed(self) -> None:
        """Seconds of one update of about 150 tokens, and of the base model's forward over the same tokens."""
        text = self.mini_records()[0]["context_old"]
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

    def _squad(self) -> list[dict[str, Any]]:
        with gzip.open(self.data / "qa" / "squad_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def mini_records(self) -> list[dict[str, Any]]:
        """The original records; the first `records` of them where that is set."""
        path = self.data / "muse" / "mini_squad_dev.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[: self.records]]


def _around(context: str, answer: str, *, words: int) -> str:
    """The whole sentences around an answer, taken after and before it in turn until there are so many words."""
    spans = sentence_spans(context)
    start = context.index(answer)
    stop = start + len(answer)
    first = max(i for i, span in enumerate(spans) if span.start <= start)
    last = min(i for i, span in enumerate(spans) if span.end >= stop)
    before = False
    while len(context[spans[first].start : spans[last].end].split()) < words and (first > 0 or last < len(spans) - 1):
        if (before or last == len(spans) - 1) and first > 0:
            first -= 1
        elif last < len(spans) - 1:
            last += 1
        before = not before
    return context[spans[first].start : spans[last].end].strip()


def _ends(output: str, answer: str) -> bool:
    """Whether the reply is the answer, or one statement that ends with it."""
    return output.strip().removesuffix(".").endswith(answer.removesuffix("."))


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


def options() -> argparse.ArgumentParser:
    """What can be asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", nargs="*", default=["facts", "mini", "update", "damage", "speed", "long", "source", "squad"]
    )
    parser.add_argument("--hypernetwork", default="auto")
    parser.add_argument("--contexts", type=int, default=500)
    parser.add_argument("--shard", default="0/1", help="of squad's contexts: the i-th of n parts")
    parser.add_argument("--records", type=int, help="of mini_squad: the first so many; all by default")
    parser.add_argument("--facts", type=int, nargs="*", default=[1, 4, 8, 20], help="facts per invented text")
    parser.add_argument(
        "--families",
        nargs="+",
        choices=FAMILIES,
        default=DRAWN,
        help="of invented facts; travel is untrained",
    )
    parser.add_argument(
        "--without-context", action="store_true", help="leave out the prompts, which no network changes"
    )
    parser.add_argument(
        "--product-only",
        action="store_true",
        help="ask through the product alone: all that a router or a setting changes",
    )
    return parser


def main() -> None:
    """Measure what was asked for."""
    given = options().parse_args()
    bench = Bench(given, data_folder())
    for what in given.what:
        getattr(bench, what)()


if __name__ == "__main__":
    main()

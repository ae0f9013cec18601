"""Which of several answers to one question is given: the rules of model/rivals.py, over answers decoded once.

    python bench/rivals.py decode --out rivals.jsonl [--hypernetwork shipped] [--dataset mini-squad …] [--limit 8]
    python bench/rivals.py choose rivals.jsonl

`decode` goes on where it was killed: one JSON line per question, with every rival's answer, the log p of its tokens and
its evidence. It also decodes `bench/pairs.jsonl`: two notes, one after the other, and a question about the first; in a
third of them the second retells it. `facts-N` are texts of N invented facts. `choose` prints a JSON line for each rule:
recall, the share of changed questions answered stale, how many pairs are answered right, and of those that are no
retellings, how many right answers the recency rule replaces by wrong ones.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eval.caches import CountingCache
from eval.datasets.muse import load
from eval.metrics.overlap import overlap, says
from plume_memory.answering.evidence import leader_of
from plume_memory.answering.grounding import last_telling, log_score
from plume_memory.engine import Engine
from plume_memory.model import rivals
from plume_memory.model.decode import Decoded
from plume_memory.model.rivals import TRIAL_TOKENS, Contest, Telling
from plume_memory.records import History, ScoredUnit, TokenTrace, Transition, Unit, Usage
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.training.facts import FactSource

Line = dict[str, Any]
PAIRS = Path(__file__).parent / "pairs.jsonl"
FACTS = {"facts-1": 1, "facts-4": 4, "facts-8": 8}
DATASETS = ("mini-squad", "mini-multihop", "mini-ropes", "muse-chains", *FACTS)


class Rule(NamedTuple):
    """See `Contest`, and `AnswerPolicy` for the names."""

    alone_margin: float = 0.2
    recency_margin: float | None = 0.2
    reach: float = 0.5
    told_weight: float = 0.0
    score_weight: float = 0.0
    lead: float | None = None


RULES = (
    *(Rule(margin, None) for margin in (0.0, 0.1, 0.2, 0.3)),
    *(Rule(recency_margin=recency) for recency in (0.1, 0.2, 0.3)),
    *(Rule(reach=reach) for reach in (0.3, 0.6)),
    *(Rule(recency_margin=recency, reach=float("inf")) for recency in (0.1, 0.2, 0.3)),
    *(Rule(told_weight=told) for told in (0.1, 0.2, 0.3)),
    *(Rule(score_weight=score) for score in (0.1, 0.2, 0.4)),
    *(Rule(margin, 0.2, 0.5, told, score) for margin in (0.0, 0.1) for told in (0.2, 0.3) for score in (0.1, 0.2, 0.4)),
    *(Rule(0.1, 0.2, 0.5, told, score) for told, score in ((0.0, 0.5), (0.1, 0.5), (0.2, 0.6), (0.2, 0.8))),
    *(Rule(0.1, 0.2, 0.5, 0.1, 0.5, lead) for lead in (None, 1.0, 0.7, 0.5, 0.3)),
)


def histories(datasets: Sequence[str], limit: int | None) -> Iterator[tuple[str, str, Sequence[str], Sequence[Line]]]:
    """(dataset, id, texts, questions) of what is decoded: the pairs, then the records."""
    for number, text in enumerate(PAIRS.read_text(encoding="utf-8").splitlines()):
        pair = json.loads(text)
        right, other = ("later", "earlier") if pair["retold"] else ("earlier", "later")
        # two notes can say the same of two things; then neither is the other's wrong answer
        wrong = [pair[f"{other}_answer"]] if pair[f"{other}_answer"] != pair[f"{right}_answer"] else []
        asked = {"question": pair["question"], "answers": [pair[f"{right}_answer"]], "other": wrong}
        kind = "retold" if pair["retold"] else "others"
        yield kind, f"{kind}-{number}", (pair["earlier"], pair["later"]), [asked]
    for name in datasets:
        if name in FACTS:
            yield from invented(name, 12 if limit is None else limit)
            continue
        for one in load(name, limit=limit):
            keys = {"question", "answers", "old_answers", "affected"}
            yield name, f"{one.id}@{one.step}", one.texts, [q.model_dump(include=keys) for q in one.questions]


def invented(name: str, texts: int) -> Iterator[tuple[str, str, Sequence[str], Sequence[Line]]]:
    """Unseen invented facts, every second text with a correction; not those of bench/hypernetwork.py."""
    chance = random.Random(f"rivals:{name}")
    source = FactSource(name, smallest=FACTS[name], exclude_families=["travel"])
    for number in range(texts):
        sample = source.draw(chance, largest=FACTS[name], update=number % 2 == 1)
        told = [sample.text] if sample.update is None else [sample.text, sample.update]
        asked = [
            {
                "question": ask.question,
                "answers": [ask.answer],
                "old_answers": [] if ask.stale is None else [ask.stale],
                "affected": ask.affected,
            }
            for ask in sample.asks
        ]
        yield name, f"{name}-{number}", told, asked


def answered(engine: Engine, texts: Sequence[str], questions: Sequence[Line]) -> Iterator[Line]:
    """Each question with every rival's answer."""
    cache = CountingCache()
    history = History("bench", len(texts), tuple(Transition(i, text) for i, text in enumerate(texts, start=1)))
    index = UnitIndex(engine.segmenter.units(history.transitions))
    whole = engine.global_adapter(history, cache)
    settings = engine.decode_settings(max_new_tokens=TRIAL_TOKENS)
    for asked in questions:
        framed = engine.base.chat.framed([{"role": "user", "content": asked["question"]}])
        routed = engine.activate(index, asked["question"], cache)
        sides = [routed, *([one] for one in routed)] if len(routed) > 1 else [routed]  # whoever leads
        contest = engine.contest(asked["question"], framed, whole, sides, cache)
        said = engine.decoder.decode(contest.rivals, settings)
        own = [
            {
                "text": one.text,
                "finish_reason": one.finish_reason,
                "log_probs": [round(step.log_prob, 4) for step in one.trace],
                "units": [(unit.unit.version, unit.score, unit.unit.text) for unit in side],
            }
            for one, side in zip(said, sides, strict=True)
        ]
        yield {**asked, "rivals": own}


def decode(out: Path, hypernetwork: str, datasets: Sequence[str], limit: int | None) -> None:
    """Write the answers of all rivals to all questions that have no line yet."""
    engine = Engine.load("smollm2-135m", hypernetwork=hypernetwork)
    kept = _lines(out) if out.exists() else []
    if any(line["engine"] != engine.fingerprint for line in kept):
        raise SystemExit(f"{out} holds answers with another network or other settings; name a new file")
    done = {line["history"] for line in kept}
    with out.open("w", encoding="utf-8") as file:  # without a line that a kill cut
        file.writelines(json.dumps(line) + "\n" for line in kept)
        for dataset, name, texts, questions in histories(datasets, limit):
            if name in done:
                continue
            about = {"engine": engine.fingerprint, "dataset": dataset, "history": name}
            file.write("".join(json.dumps(about | one) + "\n" for one in answered(engine, texts, questions)))
            file.flush()


def _lines(path: Path) -> list[Line]:
    """The whole lines of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def given(line: Line, rule: Rule) -> str:
    """The answer that a rule gives, by the product's own `Contest`."""
    tried = [_decoded(one) for one in line["rivals"]]

    sides = [
        [ScoredUnit(Unit(0, version, 0, len(text), text), score, True) for version, score, text in one["units"]]
        for one in line["rivals"]
    ]

    def told(rival: int, answer: str) -> Telling | None:
        found = last_telling(answer, line["question"], sides[rival])
        return None if found is None else Telling(found.unit.version, found.score)

    leader = leader_of(sides[0], rule.lead) if len(sides) > 1 else None
    if leader is not None:
        return tried[sides.index([leader])].text

    # only how many rivals there are is asked of the queries
    nobody: Any = (None,) * len(tried)
    head_starts = tuple(rule.score_weight * log_score(side) for side in sides)
    contest = Contest(nobody, rule.alone_margin, told, rule.recency_margin, rule.told_weight, head_starts)
    return tried[contest.winner(tried)].text


def _decoded(one: Line) -> Decoded:
    trace = tuple(TokenTrace(0, "", 0.0, 0.0, log_prob, (), ()) for log_prob in one["log_probs"])
    return Decoded(one["text"], one["finish_reason"], Usage(0, len(trace)), trace)


def choose(lines: Sequence[Line]) -> None:
    """Print what each rule gives."""
    for rule in RULES:
        rivals.RECENCY_REACH = rule.reach
        row: Line = rule._asdict()
        for dataset in dict.fromkeys(line["dataset"] for line in lines):
            own = [line for line in lines if line["dataset"] == dataset]
            said = [given(line, rule) for line in own]
            plain = [given(line, rule._replace(recency_margin=None)) for line in own]
            if dataset == "others":
                row["others right"] = sum(map(_right, own, said))
                row["replaced wrongly"] = sum(
                    _right(line, before) and not _right(line, after)
                    for line, before, after in zip(own, plain, said, strict=True)
                )
            elif dataset == "retold":
                row["retold right"] = sum(map(_right, own, said))
            else:
                row[f"{dataset} recall"] = _mean(
                    [overlap(s, q["answers"]).recall for s, q in zip(said, own, strict=True)]
                )
                row[f"{dataset} stale"] = _mean(
                    [
                        says(s, q["old_answers"]) and not says(s, q["answers"])
                        for s, q in zip(said, own, strict=True)
                        if q["affected"]
                    ]
                )
        print(json.dumps(row), flush=True)


def _right(line: Line, said: str) -> bool:
    """Whether an answer about a pair says what the note that is asked for says, and not what the other does."""
    return says(said, line["answers"]) and not says(said, line["other"])


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def main() -> None:
    """Decode once, choose often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("decode")
    first.add_argument("--out", type=Path, required=True)
    first.add_argument("--hypernetwork", default="shipped")
    first.add_argument("--dataset", nargs="+", default=DATASETS)
    first.add_argument("--limit", type=int)
    commands.add_parser("choose").add_argument("answers", type=Path)
    asked = parser.parse_args()
    if asked.command == "decode":
        decode(asked.out, asked.hypernetwork, asked.dataset, asked.limit)
    else:
        choose(_lines(asked.answers))


if __name__ == "__main__":
    main()

"""Trains plume_memory/segmentation/acts.py: `python bench/training/acts.py OUT.bin [--data FOLDER] [--seed 0]`.

Sentences written for this (written/acts.jsonl), and the questions and texts of the judge's training and of --data
(data/train), which ask and say. Each is seen as it stands and changed: in lower case, without its mark, without
apostrophes. Prints, as JSON lines, how often what is held out is judged rightly: of five folds of what was written, and
of bench/experiments/held_out/acts.jsonl, which chose nothing. Two minutes of one core.
"""

import argparse
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from plume_memory.segmentation.acts import BUCKETS, SURE, Acts, bucket_of, features

HERE = Path(__file__).parent
HELD_OUT = HERE.parent / "experiments" / "held_out" / "acts.jsonl"
MINED = 12_000
"""Most of the judge's questions, and of its texts."""
PER_FILE = 400
"""Most of each file of --data."""
MINED_WEIGHT = 0.02
"""Of a sentence that was not written for this; then the four acts weigh the same."""
HARD_WEIGHT = 0.2
"""Of a text that begins like a question, and of one that is to be remembered."""
HARD = 600
"""Most of each."""
BEGINS = re.compile(r"(who|whom|what|when|where|why|how|which|whose|do|did|is|has|had|can|will|may|might)\b", re.I)
NOTED = [
    *("remember that", "remember", "please remember", "note that", "note:", "please note that", "don't forget that"),
    *("keep in mind that", "for the record,", "just so you know,", "fyi", "make a note:", "please keep in mind:"),
    *(
        f"{verb} you {kept}"
        for verb in ("can", "could", "will", "would")
        for kept in ("note that", "remember that", "save that", "add that", "write down that", "put down that")
    ),
    *("merk dir, dass", "retiens que", "recuerda que", "ricordati che"),
]
FRAGMENTS = 2_000
"""One to four words with their letters shuffled: of what was never seen nothing is sure, and so it is kept."""
STEPS, RATE, DECAY = 200, 0.02, 1e-5


class Case(NamedTuple):
    """A sentence and what it does."""

    act: str
    text: str
    weight: float = 1.0


def lines(path: Path) -> list[dict]:
    """A file's JSON lines."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


def written(path: Path) -> list[Case]:
    """What was written for this."""
    return [Case(row["kind"], row["text"]) for row in lines(path)]


def mined(data: Path | None, chance: random.Random) -> list[Case]:
    """What asks and what says, of other files."""
    asks: list[str] = []
    says: list[str] = []
    answered: list[tuple[str, str]] = []
    for path in sorted((HERE / "written").glob("*.jsonl")):
        for row in lines(path):
            if "claims" in row:
                asks += [question for question, _, _ in row["claims"]]
                answered += [(question, said) for question, said, right in row["claims"] if said and right]
                says += [re.sub(r"^\w+: ", "", line) for line in row["text"].splitlines()]
            elif "later" in row:
                says += [row["later"], *(text for text, _ in row["earlier"])]
            elif "texts" in row:
                says += row["texts"]
            elif "note" in row:
                says.append(row["note"])
                asks.append(row["question"])
    found = [*_some("asks", asks, MINED, chance), *_some("says", says, MINED, chance)]
    for path in sorted(data.glob("*.jsonl.gz")) if data else ():
        rows = lines(path)
        questions = [one["question"] for row in rows for one in row.get("qas", [])]
        cut = [one for row in rows for one in re.split(r"(?<=[.!])\s+", row.get("context", ""))]
        sentences = [one for one in cut if "\n" not in one]
        found += _some("asks", [one for one in questions if not re.search(r"[.!]\s", one)], PER_FILE, chance)
        found += _some("says", sentences, PER_FILE, chance)
        says += sentences
    labels = [f"{question.rstrip('? ')}: {answer}" for question, answer in answered]
    hard = _some("says", [one for one in says if BEGINS.match(one)], HARD, chance)
    hard += _some("says", labels, HARD, chance)
    noted = [f"{chance.choice(NOTED)} {one[:1].lower()}{one[1:]}" for one in chance.sample(says, HARD)]
    hard += [Case("says", f"{one.rstrip('.')}?" if "you" in one[:10] else one) for one in noted]
    hard += [Case("says", one) for one in _fragments(says, chance)]
    return found + [case._replace(weight=HARD_WEIGHT) for case in hard]


def _fragments(texts: Sequence[str], chance: random.Random) -> list[str]:
    found = []
    for text in chance.sample(texts, FRAGMENTS):
        words = re.sub(r"[^\w\s'-]", "", text).split()
        start = chance.randrange(max(1, len(words)))
        some = words[start : start + chance.randint(1, 4)]
        found.append(" ".join("".join(chance.sample(word, len(word))) for word in some))
    return [one for one in found if len(one) > 2]


def _some(act: str, texts: Iterable[str], most: int, chance: random.Random) -> list[Case]:
    fit = [text for text in dict.fromkeys(texts) if 3 < len(text.strip()) < 200 and (act == "asks" or "?" not in text)]
    chance.shuffle(fit)
    return [Case(act, text, MINED_WEIGHT) for text in fit[:most]]


def changed(case: Case, chance: random.Random) -> Case:
    """A case as people type it."""
    text = case.text.lower() if chance.random() < 0.5 else case.text
    marks, share = ("?", 0.67) if case.act == "asks" else (".!", 0.5)
    if chance.random() < share:
        text = text.rstrip().rstrip(marks) or text
    return case._replace(text=text.replace("'", "") if chance.random() < 0.3 else text)


def trained(cases: Sequence[Case], chance: random.Random, seed: int) -> Tensor:
    """Weights [BUCKETS, acts]."""
    torch.manual_seed(seed)
    seen = list(dict.fromkeys(one for case in cases for one in (case, changed(case, chance))))
    total: Counter[str] = Counter()
    for case in seen:
        total[case.act] += case.weight
    rows = [_rows(case.text) for case in seen]
    flat = torch.tensor([row for own in rows for row in own])
    counts = torch.tensor([len(own) for own in rows])
    owner = torch.repeat_interleave(torch.arange(len(rows)), counts)
    acts = torch.tensor([Acts._fields.index(case.act) for case in seen])
    share = torch.tensor([case.weight / total[case.act] / len(Acts._fields) for case in seen])
    weights = torch.zeros(BUCKETS, len(Acts._fields), requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=RATE)
    for _ in range(STEPS):
        odds = torch.zeros(len(seen), len(Acts._fields)).index_add(0, owner, weights[flat]) / counts.sqrt()[:, None]
        loss = torch.nn.functional.cross_entropy(odds, acts, reduction="none") @ share + DECAY * weights.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights.detach()


def _rows(text: str) -> list[int]:
    return [bucket_of(feature) for feature in set(features(text))]


def odds_of(weights: Tensor, cases: Sequence[Case]) -> Tensor:
    """Log-odds [cases, acts]."""
    return torch.stack([weights[rows].sum(0) / len(rows) ** 0.5 for rows in (_rows(case.text) for case in cases)])


def sharpness(odds: Tensor, cases: Sequence[Case]) -> float:
    """By what the odds of what was held out are multiplied so that they are the likeliest (temperature scaling)."""
    acts = torch.tensor([Acts._fields.index(case.act) for case in cases])
    tried = [1 + at / 20 for at in range(80)]
    return min(tried, key=lambda one: float(torch.nn.functional.cross_entropy(one * odds, acts)))


def report(what: str, odds: Tensor, cases: Sequence[Case]) -> None:
    """Print, for each act, how often it is taken for each, at all and for sure."""
    found = odds.softmax(1)
    for act in Acts._fields:
        own = found[[i for i, case in enumerate(cases) if case.act == act]]
        most = Counter(Acts._fields[i] for i in own.argmax(1).tolist())
        sure = {f"sure_{other}": int((own[:, i] >= SURE).sum()) for i, other in enumerate(Acts._fields)}
        nothing = int((own[:, 0] <= 1 - SURE).sum())
        print(json.dumps({"what": what, "act": act, "count": len(own), **most, **sure, "says_nothing": nothing}))


def main() -> None:
    """Train on what was written and mined; hold out a fold of it at a time, then nothing of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    own = written(HERE / "written" / "acts.jsonl")
    others = mined(given.data, chance)
    chance.shuffle(own)
    parts = [own[at::5] for at in range(5)]
    held = [trained([*others, *(c for p in parts if p is not part for c in p)], chance, given.seed) for part in parts]
    odds = torch.cat([odds_of(*one) for one in zip(held, parts, strict=True)])
    sharp = sharpness(odds, cases := [case for part in parts for case in part])
    report("five folds", sharp * odds, cases)
    weights = sharp * trained([*others, *own], chance, given.seed)
    scale = float(weights.abs().max()) / 127
    steps = (weights / scale).round().to(torch.int8)
    report("held out", odds_of(steps * scale, held_out := written(HELD_OUT)), held_out)
    given.out.write_bytes(json.dumps({"scale": scale}).encode() + b"\n" + steps.numpy().tobytes())


if __name__ == "__main__":
    main()

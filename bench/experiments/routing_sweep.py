"""Chooses the lexical score's IDF and the unit size on development data.

    python bench/experiments/routing_sweep.py [tokenizer.json]     every IDF and unit size: seconds, no model

Reads the MUSE development files under $PLUME_DATA (default: ../shared/data) and prints the share of questions
whose routed unit holds the gold evidence (on chains: the current answer) and comes from the right transition.
Token counts are SmolLM2's when its tokenizer.json is there, else words times 1.3.
"""

import argparse
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from plume_memory.records import Transition, Unit
from plume_memory.retrieval.lexical import Idf, UnitIndex
from plume_memory.segmentation.tokens import build_encoding, token_counter
from plume_memory.segmentation.units import units_of

UNIT_TOKENS = (32, 48, 64, 96, 128, 192, 256)
DELTA = 0.5
DELTAS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
CHAIN_STEPS = (3, 5, 10, 15, 20)


def okapi(units: int, containing: int) -> float:
    """ln(1 + (N−n+½)/(n+½)), a term in no unit weighing most."""
    return math.log(1 + (units - containing + 0.5) / (containing + 0.5))


def smooth(units: int, containing: int) -> float:
    """ln((N+1)/(n+1)) + 1."""
    return math.log((units + 1) / (containing + 1)) + 1


def plain(units: int, containing: int) -> float:
    """ln(N/n), 0 for a term in no unit or in all."""
    return math.log(units / containing) if containing else 0.0


def one_plus(units: int, containing: int) -> float:
    """ln(1 + N/n), 0 for a term in no unit."""
    return math.log(1 + units / containing) if containing else 0.0


def uniform(units: int, containing: int) -> float:
    """1: no IDF at all, the floor of the comparison."""
    return 1.0


def seen(idf: Idf) -> Idf:
    """Return the IDF with a term that is in no unit weighing nothing."""

    def weigh(units: int, containing: int) -> float:
        return idf(units, containing) if containing else 0.0

    return weigh


IDFS: dict[str, Idf] = {
    "okapi": okapi,
    "okapi, seen": seen(okapi),
    "smooth": smooth,
    "smooth, seen": seen(smooth),
    "ln(N/n)": plain,
    "ln(1+N/n)": one_plus,
    "uniform": uniform,
    "uniform, seen": seen(uniform),
}
CHOSEN_IDF, CHOSEN_TOKENS = "okapi, seen", 256


class Case(NamedTuple):
    """One question with what the routed unit must be."""

    group: str
    transitions: tuple[Transition, ...]
    question: str
    is_right: Callable[[Unit], bool]


def main() -> None:
    """Print one table per group of questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path, nargs="?", help="SmolLM2's tokenizer.json")
    asked = parser.parse_args()
    root = Path(os.environ.get("PLUME_DATA", Path(__file__).parents[3] / "shared" / "data")) / "muse"
    _print_idfs(root, _counter(asked.tokenizer))


def _print_idfs(root: Path, count_tokens: Callable[[str], int]) -> None:
    cases = [*_muse_cases(root), *_chain_cases(root)]
    groups = sorted({case.group for case in cases})
    shares = {
        (name, budget): _shares(cases, groups, idf, budget, count_tokens)
        for name, idf in IDFS.items()
        for budget in UNIT_TOKENS
    }
    for group in groups:
        total = sum(case.group == group for case in cases)
        print(f"\n{group} ({total} questions), % right")
        print(f"{'':16}" + "".join(f"{budget:>7}" for budget in UNIT_TOKENS))
        for name in IDFS:
            print(f"{name:16}" + "".join(f"{100 * shares[name, b][group]:7.1f}" for b in UNIT_TOKENS))
    print(f"\nδ with {CHOSEN_IDF}, {CHOSEN_TOKENS} tokens, % right")
    print(f"{'':24}" + "".join(f"{delta:>7}" for delta in DELTAS))
    by_delta = [_shares(cases, groups, IDFS[CHOSEN_IDF], CHOSEN_TOKENS, count_tokens, delta) for delta in DELTAS]
    for group in groups:
        print(f"{group:24}" + "".join(f"{100 * share[group]:7.1f}" for share in by_delta))


def _shares(
    cases: list[Case],
    groups: list[str],
    idf: Idf,
    budget: int,
    count_tokens: Callable[[str], int],
    delta: float = DELTA,
) -> dict[str, float]:
    right, total = dict.fromkeys(groups, 0), dict.fromkeys(groups, 0)
    indexes: dict[tuple[Transition, ...], UnitIndex] = {}
    for case in cases:
        if case.transitions not in indexes:
            units = units_of(case.transitions, budget_tokens=budget, count_tokens=count_tokens)
            indexes[case.transitions] = UnitIndex(units, weigh=idf)
        routed = indexes[case.transitions].route(case.question, delta=delta)
        right[case.group] += case.is_right(routed.unit)
        total[case.group] += 1
    return {group: right[group] / total[group] for group in groups}


def _muse_cases(root: Path) -> Iterator[Case]:
    for path in sorted(root.glob("*_dev.jsonl")):
        if path.name.startswith("chains"):
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            transitions = (Transition(1, record["context_old"]), Transition(2, record["context_update"]))
            for qa in record["qas"]:
                group = ("affected " if qa["affected"] else "kept ") + path.stem.removesuffix("_dev")
                is_right = _holds_evidence(qa["gold_evidence"], qa["affected"])
                for name in (group, "affected, all" if qa["affected"] else "kept, all"):
                    yield Case(name, transitions, qa["question"], is_right)


def _holds_evidence(gold: str, affected: bool) -> Callable[[Unit], bool]:
    return lambda unit: gold in unit.text and (unit.version == 2 or not affected)


def _chain_cases(root: Path) -> Iterator[Case]:
    for line in (root / "chains_dev.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        texts = [record["context_0"], *(update["text"] for update in record["updates"])]
        for step in CHAIN_STEPS:
            transitions = tuple(Transition(t + 1, texts[t]) for t in range(step + 1))
            for question in record["questions"]:
                states = [state for state in question["timeline"] if state["t"] <= step]
                if states:
                    is_right = _holds_answer(states[-1]["answers"], states[-1]["t"] + 1)
                    yield Case(f"chain, {step:2} updates", transitions, question["question"], is_right)
                    yield Case("chain, all", transitions, question["question"], is_right)


def _holds_answer(answers: list[str], version: int) -> Callable[[Unit], bool]:
    found = re.compile("|".join(rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in answers), re.IGNORECASE)
    return lambda unit: unit.version == version and bool(found.search(unit.text))


def _counter(tokenizer_json: Path | None) -> Callable[[str], int]:
    if tokenizer_json is None:
        return lambda text: math.ceil(1.3 * len(text.split()))
    encoding = build_encoding(tokenizer_json.read_text(encoding="utf-8"), tokenizer_json.parent.name)
    if encoding is None:
        raise SystemExit(f"{tokenizer_json} is not a byte-level BPE tokenizer.")
    return token_counter(encoding)


if __name__ == "__main__":
    main()

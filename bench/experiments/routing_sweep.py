"""Chooses the router's IDF and the unit size on development data, and holds the two routers side by side.

    python bench/routing_sweep.py [tokenizer.json]                    every IDF and unit size: seconds, no model
    python bench/routing_sweep.py --likelihood [--chains 2] [--records 1]     lexical against likelihood: SmolLM2

Reads the MUSE development files under $PLUME_DATA (default: ../shared/data) and prints the share of questions
whose routed unit holds the gold evidence (on chains: the current answer) and comes from the right transition.
Token counts are SmolLM2's when its tokenizer.json or its model is there, else words times 1.3. The second table
takes about a second per question and unit size on a CPU; it counts the first unit and the first three. "any
unit" says what no router can exceed: evidence of two sentences fits no unit of one.
"""

import argparse
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from plume_memory.records import ScoredUnit, Transition, Unit
from plume_memory.retrieval.lexical import Idf, UnitIndex
from plume_memory.segmentation.tokens import build_encoding, token_counter
from plume_memory.segmentation.units import units_of

UNIT_TOKENS = (32, 48, 64, 96, 128, 192, 256)
DELTA = 0.5
DELTAS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
CHAIN_STEPS = (3, 5, 10, 15, 20)
LIKELIHOOD_TOKENS = (32, 64, 256)
TOP = 3
CEILING = "any unit"


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
    parser.add_argument("--likelihood", action="store_true", help="the second table instead of the first")
    parser.add_argument("--chains", type=int, help="chains of the second table; all by default")
    parser.add_argument("--records", type=int, help="records of each mini file in the second table; all by default")
    asked = parser.parse_args()
    root = Path(os.environ.get("PLUME_DATA", Path(__file__).parents[2] / "shared" / "data")) / "muse"
    if asked.likelihood:
        _print_routers(root, asked.chains, asked.records)
    else:
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


def _print_routers(root: Path, chains: int | None, records: int | None) -> None:
    # torch: seconds, and the quick table needs none
    from plume_memory import AnswerPolicy, Engine  # noqa: PLC0415
    from plume_memory.model.base import BaseModel  # noqa: PLC0415

    base = BaseModel.load("smollm2-135m")
    engines = {
        f"{router}{f', δ = {delta}' if router == 'lexical' else ''}": Engine(
            base, None, AnswerPolicy(evidence="kv", router=router, delta=delta)
        )
        for router, delta in (("lexical", 0.5), ("lexical", 0.2), ("likelihood", 0.0))
    }
    ways: dict[str, Rank] = {name: partial(engine.rank, k=TOP) for name, engine in engines.items()}
    cases = [*_muse_cases(root, "mini_*_dev.jsonl", records), *_chain_cases(root, chains)]
    cases = [case for case in cases if case.group.endswith(", all")]
    count_tokens = next(iter(engines.values())).segmenter.count_tokens
    totals = Counter(case.group for case in cases)
    for budget in LIKELIHOOD_TOKENS:
        right = _routed(cases, ways, budget, count_tokens)
        print(f"\nunits of {budget} tokens, % right at first / among the first {TOP}")
        print(f"{'':18}" + "".join(f"{f'{group} ({totals[group]})':>21}" for group in sorted(totals)))
        for name in (*ways, CEILING):
            shares = [[100 * n / totals[group] for n in right[name, group]] for group in sorted(totals)]
            print(f"{name:18}" + "".join(f"{first:15.1f}/{top:5.1f}" for first, top in shares), flush=True)


Rank = Callable[[UnitIndex, str], Sequence[ScoredUnit]]


def _routed(
    cases: list[Case], ways: dict[str, Rank], budget: int, count_tokens: Callable[[str], int]
) -> dict[tuple[str, str], list[int]]:
    """(way, group) -> questions whose first unit is right, and those with a right one among all that are ranked."""
    right = {(name, case.group): [0, 0] for name in (*ways, CEILING) for case in cases}
    indexes: dict[tuple[Transition, ...], UnitIndex] = {}
    for case in cases:
        if case.transitions not in indexes:
            indexes[case.transitions] = UnitIndex(
                units_of(case.transitions, budget_tokens=budget, count_tokens=count_tokens)
            )
        for name, rank in ways.items():
            hits = [case.is_right(one.unit) for one in rank(indexes[case.transitions], case.question)]
            right[name, case.group][0] += hits[0]
            right[name, case.group][1] += any(hits)
        possible = any(case.is_right(unit) for unit in indexes[case.transitions])
        right[CEILING, case.group] = [n + possible for n in right[CEILING, case.group]]
    return right


def _muse_cases(root: Path, names: str = "*_dev.jsonl", records: int | None = None) -> Iterator[Case]:
    for path in sorted(root.glob(names)):
        if path.name.startswith("chains"):
            continue
        for line in path.read_text(encoding="utf-8").splitlines()[:records]:
            record = json.loads(line)
            transitions = (Transition(1, record["context_old"]), Transition(2, record["context_update"]))
            for qa in record["qas"]:
                group = ("affected " if qa["affected"] else "kept ") + path.stem.removesuffix("_dev")
                is_right = _holds_evidence(qa["gold_evidence"], qa["affected"])
                for name in (group, "affected, all" if qa["affected"] else "kept, all"):
                    yield Case(name, transitions, qa["question"], is_right)


def _holds_evidence(gold: str, affected: bool) -> Callable[[Unit], bool]:
    return lambda unit: gold in unit.text and (unit.version == 2 or not affected)


def _chain_cases(root: Path, chains: int | None = None) -> Iterator[Case]:
    for line in (root / "chains_dev.jsonl").read_text(encoding="utf-8").splitlines()[:chains]:
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

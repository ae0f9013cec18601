"""Messages that bear on no memory, and questions that do: what a long memory finds for each, signal by signal.

    python bench/experiments/idle.py tell OUT.jsonl --file locomo10.json [--questions 40]
    python bench/experiments/idle.py tell OUT.jsonl --notes [--more]
    python bench/experiments/idle.py judge OUT.jsonl

`tell` tells a memory (two LoCoMo conversations, or the 163 invented notes beside this file), asks it the sixty messages
of held_out/idle.jsonl and the questions that it holds the answer to, and writes a line each: what today's gate reads of
the units that were read, and the judge's log-odds that one, or three together, answer the message. What updates replace
is not judged. Lines hold ids and numbers, no text. `judge` compares gates (idle_gates.py). LoCoMo: CC BY-NC 4.0, for
evaluation only, fetched by hand.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from idle_gates import MIN_GAIN, NOTES, compared
from locomo import told

from eval.caches import CountingCache
from eval.conversations.locomo import read_locomo
from eval.conversations.ours import turns_in
from eval.conversations.records import drawn
from plume_memory.answering.embedded import Embedded
from plume_memory.answering.evidence import is_replaced, share_needed
from plume_memory.answering.noted import _beside
from plume_memory.engine import Engine
from plume_memory.recalling.asking import routed_of
from plume_memory.records import Span, Transition, Unit
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import retrieve
from plume_memory.segmentation.told import told_of

HERE = Path(__file__).parent
SHOWN = 16
"""Units of a message that are written: as many as a recall chooses its notes from."""
JUDGED = 3
"""Of these the first so many are judged, and the first so many that pass today."""
ROOM = 2 * 2**30
"""Bytes of texts that are kept: no message waits for what another one read."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A message and, where the memory bears on it, which turns hold the answer."""

    id: str
    kind: str
    words: str
    gold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """What was told, and which turns a unit is of."""

    name: str
    transitions: Sequence[Transition]
    spans: dict[int, Sequence[tuple[Span, str]]]
    questions: Sequence[Asked]


def idle(name: str) -> list[Asked]:
    """The messages that bear on nothing."""
    return [Asked(one["id"], one["kind"], one["message"]) for one in rows_of(HERE / "held_out" / name)]


def conversations(file: Path, questions: int) -> Iterator[Memory]:
    """The two shortest LoCoMo conversations with questions that they answer."""
    some = drawn(read_locomo(file), count=None, questions=questions, seed=0)
    for one in sorted(some, key=lambda each: len(each.turns))[:2]:
        transitions, spans = told(one)
        asked = [Asked(q.id, q.kind, q.question, q.gold) for q in one.questions if q.gold and q.answerable]
        yield Memory(f"locomo {one.id}", transitions, dict(spans), asked)


def notes(*, more: bool) -> Iterator[Memory]:
    """All invented notes in one memory, an update each; every second question, and requests that some help with."""
    some = [one for name in NOTES for one in rows_of(HERE / name)]
    transitions = [Transition(number, one["note"]) for number, one in enumerate(some, start=1)]
    spans = {number: [(Span(0, len(one["note"])), str(number))] for number, one in enumerate(some, start=1)}
    asked = (
        []
        if more
        else [Asked(f"note-{n}", "note", one["question"], (str(n),)) for n, one in list(enumerate(some, start=1))[::2]]
    )
    for one in rows_of(HERE / "held_out" / ("helped_more.jsonl" if more else "helped.jsonl")):
        gold = [str(n) for n, other in enumerate(some, start=1) if other["note"] in one["notes"]]
        asked.append(Asked(one["id"], "helped-more" if more else "helped", one["message"], tuple(gold)))
    yield Memory("notes", transitions, dict(spans), asked)


def measured(
    engine: Engine, memory: Memory, messages: Sequence[Asked], kinds: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A line for each message."""
    units = engine.segmenter.units(memory.transitions)
    index, cache = engine.index(units), CountingCache()
    near = Embedded(engine.embedding, cache, told_of(memory.transitions, units))
    near.make()
    for one in [*messages, *memory.questions]:
        if kinds and not one.gold and one.kind not in kinds:
            continue
        looked_up = routed_of([{"role": "user", "content": one.words}])
        line = {"memory": memory.name, "units": len(units), "id": one.id, "kind": one.kind, "bears": bool(one.gold)}
        line |= {"looked_up": bool(looked_up)}
        yield line | (_found(engine, index, near, cache, looked_up, one, memory) if looked_up else {})


def _found(
    engine: Engine, index: UnitIndex, near: Embedded, cache: CountingCache, words: str, one: Asked, memory: Memory
) -> dict[str, Any]:
    """What is read for some words, and what the judge says of the best."""
    reader, judge = engine.reader.of(cache), engine.judge
    assert judge is not None, "the shipped network has one"
    begun = time.perf_counter()
    ranked = retrieve(index, words, reader, engine.policy, k=16, near=near)
    spent = time.perf_counter() - begun
    read = [each for each in ranked if each.gain is not None]
    best = [each for each in read if not is_replaced(each, ranked)][:SHOWN]
    shares = [share_needed(words, each.unit.text) for each in best]
    passing = [at for at, each in enumerate(best) if (each.gain or 0.0) >= MIN_GAIN * shares[at]]
    judged = sorted({*range(min(JUDGED, len(best))), *passing[:JUDGED]})
    begun = time.perf_counter()
    odds = judge.support([(completed(best[at].unit, index), words, "") for at in judged])
    judging = time.perf_counter() - begun
    answerable = dict(zip(judged, odds, strict=True))
    alone_odds = judge.support([(best[at].unit.text, words, "") for at in judged])
    alone = engine.reader.log_probs([""], words)[0]
    return {
        "read": len(read),
        "gains": [round(each.gain or 0.0, 3) for each in best],
        "shares": shares,
        "log_scores": [round(math.log(each.score), 3) for each in best],
        "all_gains": sorted((round(each.gain or 0.0, 2) for each in read), reverse=True),
        "alone": round(sum(alone) / len(alone), 3),
        "tokens": len(alone),
        "answerable": [round(answerable[at], 3) if at in answerable else None for at in range(len(best))],
        "unit_alone": [round(value, 3) for value in alone_odds],
        "holds": [_gold_of(each.unit, one, memory) for each in best],
        "gold": len(one.gold),
        "seconds": round(spent, 3),
        "judged": len(judged),
        "judging": round(judging, 3),
    }


def completed(unit: Unit, index: UnitIndex) -> str:
    """Its text between those that complete it: "At Lotti's." alone answers little."""
    return "\n".join(one.text.strip() for one in sorted((unit, *_beside(unit, index)), key=lambda one: one.position))


def _gold_of(unit: Unit, one: Asked, memory: Memory) -> list[int]:
    """Which of the gold turns a unit is of."""
    turns = turns_in([(unit.version, Span(unit.start, unit.end))], memory.spans)
    return [at for at, turn in enumerate(one.gold) if turn in turns]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main() -> None:
    """Tell or judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tell", "judge"])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--file", type=Path, help="locomo10.json, gzipped or not")
    parser.add_argument("--notes", action="store_true")
    parser.add_argument("--more", action="store_true", help="the messages that were written later, with --notes")
    parser.add_argument("--kinds", nargs="*", default=(), help="of idle messages; all by default")
    parser.add_argument("--skip", type=int, default=0, help="conversations that were told before")
    parser.add_argument("--count", type=int, default=2, help="the last conversation told")
    parser.add_argument("--questions", type=int, default=40, help="of each conversation")
    given = parser.parse_args()
    if given.what == "judge":
        compared(rows_of(given.rows))
        return
    engine = Engine.load("smollm2-135m", hypernetwork="shipped")
    engine.reader.kept._room = ROOM
    messages = idle("idle_more.jsonl" if given.more else "idle.jsonl")
    memories = (
        notes(more=given.more)
        if given.notes
        else islice(conversations(given.file, given.questions), given.skip, given.count)
    )
    with given.rows.open("a", encoding="utf-8") as out:
        for memory in memories:
            for line in measured(engine, memory, messages, given.kinds):
                out.write(json.dumps(line) + "\n")
                out.flush()


if __name__ == "__main__":
    main()

"""How often what answers a question is among the units that are read: by words, by vectors, by both.

    python bench/experiments/proposed.py [LOCOMO] [--hypernetwork shipped]

LOCOMO is its file, gzipped or not: each conversation is one memory, told as in locomo.py, asked all questions that name
a turn. The other memory is `held_out/conversations.jsonl`: the texts of 33 conversations and people's notes in a row,
each of them an update; a language model wrote them for this, and nothing was trained on them. Of a question that
several texts answer the share that is read counts. One JSON line for each set and way, with 95 % intervals over
questions, and how many units are read. No reader scores anything here.
"""

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from common import mean, say
from locomo import interval, told

from eval.caches import CountingCache
from eval.conversations.locomo import read_locomo
from eval.conversations.ours import turns_in
from plume_memory.answering.embedded import Embedded
from plume_memory.engine import Engine
from plume_memory.records import Context, ScoredUnit, Span, Transition
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.retrieve import SHORTLIST, TIED, proposed
from plume_memory.segmentation.forms.turns import question_at_end
from plume_memory.segmentation.told import Told, told_of

HELD_OUT = Path(__file__).parent / "held_out/conversations.jsonl"


class Memory(NamedTuple):
    """What is told, and of each question the units that answer, for each text that does."""

    name: str
    told: list[Told]
    asked: list[tuple[str, list[set[int]]]]


def of_locomo(engine: Engine, path: Path) -> Iterator[Memory]:
    """One memory for each conversation."""
    for one in read_locomo(path):
        transitions, spans = told(one)
        units = engine.segmenter.units(transitions)
        places: dict[str, set[int]] = {}
        for unit in units:
            for turn in turns_in([(unit.version, Span(unit.start, unit.end))], spans):
                places.setdefault(turn, set()).add(unit.position)
        asked = [(q.question, [places[turn] for turn in q.gold if turn in places]) for q in one.questions]
        yield Memory("locomo", told_of(transitions, units), [(q, gold) for q, gold in asked if gold])


def of_held_out(engine: Engine, path: Path = HELD_OUT, *, replies: bool = False) -> Memory:
    """One memory of all that was written in a file; `replies`: each is told with the question that it answers."""
    transitions: list[Transition] = []
    asked: list[tuple[str, list[int]]] = []
    for number, one in enumerate(map(json.loads, path.read_text("utf-8").splitlines())):
        said_at = datetime(2023, 1, 1, tzinfo=UTC) + timedelta(days=number)
        first = len(transitions) + 1
        for version, (before, turn) in enumerate(pairwise([{"speaker": "", "text": ""}, *one["turns"]]), start=first):
            is_reply = replies and before["speaker"] and turn["speaker"] not in ("", before["speaker"])
            answered = question_at_end(before["text"]) if is_reply else None
            text, context = turn["text"], Context(None, None, said_at)
            if turn["speaker"]:
                message = {"role": "user", "name": turn["speaker"], "content": text}
                text, context = json.dumps([message], ensure_ascii=False), Context("chat", None, said_at, answered)
            transitions.append(Transition(version, text, context=context))
        asked += [(q["question"], [first + turn for turn in q["turns"]]) for q in one["qas"]]
    parts = told_of(transitions, engine.segmenter.units(transitions))
    places = {one.transition.version: {unit.position for unit in one.units} for one in parts}
    return Memory("held out", parts, [(q, [places[version] for version in own]) for q, own in asked])


def as_before(words: list[ScoredUnit], near: list[int]) -> list[int]:
    """The rule of docs/decisions/0050: 24 by words and 8 by vectors, and what equals the last by words."""
    last = words[SHORTLIST - 1].score
    likely = [one.unit.position for at, one in enumerate(words) if at < SHORTLIST or one.score == last > 0]
    most = SHORTLIST if len(likely) <= SHORTLIST else TIED
    return list(dict.fromkeys([*likely[:24], *near[:8], *likely[24:]]))[:most]


def main() -> None:
    """Tell, propose, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("locomo", type=Path, nargs="?")
    parser.add_argument("--hypernetwork", default="shipped")
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for memory in [*(of_locomo(engine, given.locomo) if given.locomo else ()), of_held_out(engine)]:
        index = engine.index([unit for one in memory.told for unit in one.units])
        near = Embedded(engine.embedding, CountingCache(), memory.told)
        for question, gold in memory.asked:
            words = index.best(question, k=TIED, tied=TIED)
            like = list(islice((at for at in near.nearest(question) if not only_asks(index[at])), TIED))
            ways = {
                "words": [unit.position for unit in proposed(index, question, None)],
                "vectors": like[:SHORTLIST],
                "24 by words, 8 by vectors": as_before(words, like),
                "fused": [unit.position for unit in proposed(index, question, near)],
            }
            for name, read in ways.items():
                share = mean([float(bool(own & set(read))) for own in gold])
                found.setdefault((memory.name, name), []).append((share, len(read)))
    for (name, way), rows in found.items():
        shares, counts = [share for share, _ in rows], [float(count) for _, count in rows]
        figures = {"questions": len(rows), "share": mean(shares), "interval": interval(shares), "read": mean(counts)}
        say({"what": "proposed", "set": name, "way": way, **figures})


if __name__ == "__main__":
    main()

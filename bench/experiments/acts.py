"""What is kept, looked up and taken as evidence: `python bench/experiments/acts.py OUT.jsonl --data FOLDER`.

By kind, of held_out/acts.jsonl: messages that are not kept, that are small talk and so looked up nowhere, and that only
ask and so are no evidence. Of data/qa: the first sentences of each context of SQuAD, ROPES and Qasper, each of which
says something; SQuAD's questions; LoCoMo's turns, with those that answer a question apart. Seconds of one core.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plume_memory.records import Unit
from plume_memory.retrieval.asking import only_asks
from plume_memory.segmentation.said import everything_said, is_small_talk

HELD_OUT = Path(__file__).parent / "held_out" / "acts.jsonl"
PROSE = ("squad_dev", "ropes_dev", "qasper_full79")
SENTENCES = 6
"""Of each context."""


def counted(what: str, texts: list[str]) -> dict[str, Any]:
    """How many of some texts are not kept, are small talk, and only ask."""
    return {
        "what": what,
        "count": len(texts),
        "not_kept": sum(everything_said(text) is None for text in texts),
        "small_talk": sum(map(is_small_talk, texts)),
        "only_asks": sum(only_asks(Unit(0, 1, 0, len(text), text)) for text in texts),
    }


def rows_of(path: Path) -> list[dict[str, Any]]:
    """A gzip file's JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def measured(data: Path) -> Iterator[dict[str, Any]]:
    """A row for each kind of text."""
    held_out = [json.loads(line) for line in HELD_OUT.read_text("utf-8").splitlines()]
    for kind in ("says", "asks", "orders", "chats"):
        yield counted(kind, [row["text"] for row in held_out if row["kind"] == kind])
    contexts = [row["context"] for name in PROSE for row in rows_of(data / f"{name}.jsonl.gz")]
    first = [one for context in contexts for one in re.split(r"(?<=[.!])\s+", context)[:SENTENCES]]
    yield counted("sentences of prose", [one for one in first if "?" not in one and len(one) > 3])
    yield counted("questions of SQuAD", [row["qas"][0]["question"] for row in rows_of(data / "squad_dev.jsonl.gz")])
    with gzip.open(data / "locomo_dev5.json.gz", "rt", encoding="utf-8") as file:
        conversations = json.load(file)
    said: dict[bool, list[str]] = {True: [], False: []}
    for one in conversations:
        gold = {turn for asked in one["qa"] if asked["category"] != 5 for turn in asked["evidence"]}
        sessions = [own for own in one["conversation"].values() if isinstance(own, list)]
        for turn in (turn for session in sessions for turn in session):
            said[turn["dia_id"] in gold].append(turn["text"])
    yield counted("LoCoMo turns that answer", said[True])
    yield counted("other LoCoMo turns", said[False])


def main() -> None:
    """Write a JSON line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="data/qa")
    parser.add_argument("--rules", default="learnt", help="said in each row")
    given = parser.parse_args()
    with given.out.open("a", encoding="utf-8") as file:
        for row in measured(given.data):
            file.write(json.dumps({"rules": given.rules, **row}) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()

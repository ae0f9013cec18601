"""What a memory of one sentence answers: 32 notes, most of them in the first person, and a question about each.

    python bench/experiments/notes.py [--hypernetwork shipped] [--together] [--notes notes_more.jsonl]

A reply is right when it holds the answer as whole words. `together`: all 32 notes in one memory, an update each.
`in_context_N`: the same model with the same notes in its prompt, asked in one of three plain ways. The notes had a say
in `min_gain` (relevance.py) and in nothing else; 107 others (`notes_more.jsonl`, among them "I live in …" of many
places) chose `retry_scale`. One JSON line per answer, then the shares of right ones.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import PROMPTS

from plume_memory.answering.options import settings_of
from plume_memory.engine import Engine
from plume_memory.memory import ParametricMemory
from plume_memory.model.queries import Query
from plume_memory.model.streams import Row
from plume_memory.records import Answer
from plume_memory.training.sources.matching import holds

Note = dict[str, str]
TOKENS = 48


def remembered(engine: Engine, groups: Sequence[Sequence[Note]]) -> list[Answer]:
    """What a memory of each group's notes answers to their questions."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for number, group in enumerate(groups):
            with ParametricMemory.open(f"notes-{number}", url=f"sqlite:///{folder}/notes.db", engine=engine) as memory:
                for note in group:
                    memory.update(note["note"])
                answers += memory.ask_many([note["question"] for note in group], max_new_tokens=TOKENS)
    return answers


def read(engine: Engine, groups: Sequence[Sequence[Note]], prompt: str) -> list[str]:
    """What the bare model says with a group's notes in its prompt."""
    said = []
    for group in groups:
        text = "\n".join(note["note"] for note in group)
        for note in group:
            ids = engine.base.chat.prompt_ids(prompt.format(text=text, question=note["question"]))
            settings = settings_of(engine.policy, {"max_new_tokens": TOKENS})
            said += [decoded.text for decoded in engine.scheduler.decode([Query(Row(tuple(ids)))], settings)]
    return said


def main() -> None:
    """Tell, ask, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--notes", default="notes.jsonl", help="a file beside this one")
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    lines = (Path(__file__).parent / given.notes).read_text(encoding="utf-8").splitlines()
    notes: list[Note] = [json.loads(line) for line in lines]
    groups = [notes] if given.together else [[note] for note in notes]

    answers = remembered(engine, groups)
    for note, answer in zip(notes, answers, strict=True):
        said = {"said": answer.text.strip(), "confidence": round(answer.confidence, 2)}
        print(json.dumps({**note, **said, "right": holds(answer.text, note["answer"])}, ensure_ascii=False), flush=True)
    ways = {"memory": [answer.text for answer in answers]}
    ways |= {f"in_context_{n}": read(engine, groups, prompt) for n, prompt in enumerate(PROMPTS)}
    shares = {
        way: sum(holds(text, note["answer"]) for text, note in zip(said, notes, strict=True)) / len(notes)
        for way, said in ways.items()
    }
    print(json.dumps({"what": given.notes, "together": given.together, "questions": len(notes), **shares}))


if __name__ == "__main__":
    main()

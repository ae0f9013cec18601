"""What a question to a long conversation costs, by how many bytes are kept of the texts that were read.

    python bench/experiments/kept.py locomo10.json [--mib 256 1024] [--questions 15]

One LoCoMo conversation, told by sessions as in eval/conversations/ and without the judge, whose verdicts change no
reading; then `recall` of other questions, each once. CPU seconds of this process: other programs may run beside it. A
JSON line for each size. Data: LoCoMo (CC BY-NC 4.0, evaluation only), fetched by hand.
"""

import argparse
import statistics
import time
from pathlib import Path

from common import say

from eval.conversations.locomo import read_locomo
from eval.conversations.ours import written
from eval.conversations.records import Conversation, drawn
from plume_memory import ParametricMemory
from plume_memory.engine import Engine
from plume_memory.policy import AnswerPolicy


def measure(conversation: Conversation, mib: int) -> None:
    """Tell, ask, count."""
    loaded = Engine.load("smollm2-135m")
    engine = loaded.composed_with(AnswerPolicy(**{**loaded.policy.model_dump(), "supersedes_at": None}))
    engine.reader.kept._room = mib * 2**20
    seconds: list[float] = []
    with ParametricMemory.open("one", url="sqlite://", engine=engine) as memory:
        for session in conversation.sessions:
            messages, _ = written(session)
            if messages:
                memory.update(messages=messages, observed_at=session.said_at, derive=False)
        memory.recall("What is this about?", k=1)  # indexes, reads and embeds all
        for question in conversation.questions:
            begun = time.process_time()
            memory.recall(question.question, k=10)
            seconds.append(time.process_time() - begun)
    quarter = len(seconds) // 4
    say(
        {
            "what": "kept",
            "mib": mib,
            "turns": sum(len(session.turns) for session in conversation.sessions),
            "questions": len(seconds),
            "cpu_s_median": round(statistics.median(seconds), 2),
            "cpu_s_last_quarter": round(statistics.median(seconds[-quarter:]), 2),
            "cpu_s": [round(one, 2) for one in seconds],
        }
    )


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--mib", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--questions", type=int, default=15)
    given = parser.parse_args()
    [conversation] = drawn(read_locomo(given.file), count=1, questions=given.questions, seed=0)
    for mib in given.mib:
        measure(conversation, mib)


if __name__ == "__main__":
    main()

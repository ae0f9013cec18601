"""MemoryAgentBench (Hu et al. 2026, ai-hyz/MemoryAgentBench on the hub, MIT): rows of `context` and questions.

A context is one long text, told in pieces of about `CHUNK_TOKENS` tokens, as the benchmark's own harness does. It names
no gold turns, so recall is not reported of it. What its splits ask is answered by exact words, choices, summaries or
recommendations: token F1 means something for the first only. Rows of its `longmemeval` source keep their `_abs` ids.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.conversations.files import Row, layout, read_rows, texts
from eval.conversations.records import Conversation, Question, Session, Turn
from plume_memory.segmentation.sentences import segment

CHUNK_TOKENS = 512
SPLITS = ("Accurate_Retrieval", "Test_Time_Learning", "Long_Range_Understanding", "Conflict_Resolution")
_CHARS_A_TOKEN = 4
"""Of English; a piece's length is no more than a length."""
_WANTED = "`context`, `questions`, `answers` of the same number, and `metadata`"


def read_agentbench(path: Path) -> list[Conversation]:
    """Read a split's file: Parquet, or the same rows as JSON or JSONL.

    Raises:
        InvalidInput: it cannot be read, or is of another form.
    """
    return agentbench_of(read_rows(path), path)


def agentbench_of(rows: Sequence[Row], source: Path | str) -> list[Conversation]:
    """The rows of a split.

    Raises:
        InvalidInput: they are of another form.
    """
    with layout(source, "MemoryAgentBench", _WANTED):
        return [_conversation(number, row) for number, row in enumerate(rows, start=1)]


def _conversation(number: int, row: Row) -> Conversation:
    metadata: Row = row.get("metadata") or {}
    source = str(metadata.get("source") or "context")
    kinds, ids = _listed(metadata, "question_types"), _listed(metadata, "question_ids")
    asked = []
    for at, (question, answers) in enumerate(zip(row["questions"], row["answers"], strict=True)):
        answerable = not (at < len(ids) and str(ids[at]).endswith("_abs"))
        asked.append(
            Question(
                id=f"q{at + 1}",
                question=question,
                answers=texts(answers) if answerable else (),
                kind=str(kinds[at]) if at < len(kinds) else source,
                answerable=answerable,
            )
        )
    return Conversation(f"{source}-{number}", _sessions(row["context"]), tuple(asked))


def _sessions(context: str) -> tuple[Session, ...]:
    spans = segment(context, budget_tokens=CHUNK_TOKENS, count_tokens=lambda text: -(-len(text) // _CHARS_A_TOKEN))
    pieces = [context[start:end].strip() for start, end in spans]
    return tuple(
        Session(None, (Turn(f"c{at}", None, piece),)) for at, piece in enumerate(filter(None, pieces), start=1)
    )


def _listed(metadata: Row, name: str) -> Sequence[Any]:
    return metadata.get(name) or ()

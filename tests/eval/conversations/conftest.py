"""Small invented conversations in the three forms of file; nothing in them is of a benchmark."""

import json
from pathlib import Path
from typing import Any

import pytest

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "conv-a",
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Tomas",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ines", "dia_id": "D1:1", "text": "I adopted a heron called Pim."},
                {"speaker": "Tomas", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a red kite over a dune"},
            ],
            "session_2_date_time": "9:05 am on 10 June, 2023",
            "session_2": [
                {"speaker": "Tomas", "dia_id": "D2:1", "text": "I moved to Aarau, to a flat by the river."},
                {"speaker": "Ines", "dia_id": "D2:2", "text": "I sold the bakery to my cousin."},
            ],
            "session_3_date_time": "9:05 am on 11 June, 2023",
            "session_3": [{"speaker": "Tomas", "dia_id": "D3:1", "text": "   "}],
        },
        "qa": [
            {"question": "Who is Pim?", "answer": "a heron", "evidence": ["D1:1"], "category": 4},
            {"question": "When did Tomas move?", "answer": 2023, "evidence": ["D2:01; D1:2", "D:2:1"], "category": 2},
            {"question": "What do they sell?", "answer": "bread", "evidence": ["D", "D9:9"], "category": 3},
            {"question": "What did Tomas adopt?", "evidence": ["D1:1"], "category": 5, "adversarial_answer": "a heron"},
        ],
    }
]
LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "7a",
        "question_type": "single-session-user",
        "question": "Where did I park the van?",
        "answer": "In Lugano",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["s2", "s1", "s1"],
        "haystack_dates": ["2023/05/21 (Sun) 08:00", "2023/05/20 (Sat) 02:21", "2023/05/22 (Mon) 09:00"],
        "haystack_sessions": [
            [{"role": "user", "content": "Plan my trip."}, {"role": "assistant", "content": "Where to?"}],
            [{"role": "user", "content": "I parked the van in Lugano.", "has_answer": True}],
            [{"role": "user", "content": "Thanks!", "has_answer": False}],
        ],
        "answer_session_ids": ["s1"],
    },
    {
        "question_id": "7b_abs",
        "question_type": "knowledge-update",
        "question": "Where did I park the boat?",
        "answer": "You did not say.",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "I parked the van in Lugano.", "has_answer": True}]],
        "answer_session_ids": ["s1"],
    },
]
AGENTBENCH: list[dict[str, Any]] = [
    {
        "context": "The mill in Orn belongs to Ada Voss.\n\n" + "The river is cold. " * 120 + "\n\nIt has two wheels.",
        "questions": ["Who owns the mill?", "Is there a bridge?"],
        "answers": [["Ada Voss", "Voss"], ["nobody said"]],
        "metadata": {"source": "mills", "question_ids": ["m1", "m2_abs"], "question_types": None},
    }
]


def saved(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    """Rows as one JSON file."""
    path = folder / name
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


@pytest.fixture
def locomo_file(tmp_path: Path) -> Path:
    """LoCoMo's form."""
    return saved(tmp_path, "locomo10.json", LOCOMO)


@pytest.fixture
def longmemeval_file(tmp_path: Path) -> Path:
    """LongMemEval's."""
    return saved(tmp_path, "longmemeval_s.json", LONGMEMEVAL)


@pytest.fixture
def agentbench_file(tmp_path: Path) -> Path:
    """MemoryAgentBench's."""
    return saved(tmp_path, "split.json", AGENTBENCH)

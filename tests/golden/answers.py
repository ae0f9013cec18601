"""Makes the golden answers: what a user is told, from what, and how sure it is. float32, so that machines agree.

python tests/golden/answers.py      # writes them anew; the diff is what a change of behaviour did
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from questions import histories

from plume_memory.engine import Engine
from plume_memory.memory import ParametricMemory
from plume_memory.policy import AnswerPolicy

FILE = Path(__file__).parent / "answers.json"
POLICIES = {"default": None, "paper": AnswerPolicy.paper()}
TOKENS = 40


def answers() -> dict[str, list[dict[str, Any]]]:
    """By policy, every question with its answer."""
    return {name: _answered(policy) for name, policy in POLICIES.items()}


def _answered(policy: AnswerPolicy | None) -> list[dict[str, Any]]:
    engine = Engine.load("smollm2-135m", dtype="float32", policy=policy)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for asked in histories():
            with ParametricMemory.open(asked.name, url=f"sqlite:///{folder}/golden.db", engine=engine) as memory:
                for text in asked.updates:
                    memory.update(text, derive=False)
                for question in asked.questions:
                    answer = memory.ask(question, max_new_tokens=TOKENS, unknown="bare")
                    found.append(
                        {
                            "history": asked.name,
                            "question": question,
                            "answer": answer.text,
                            "evidence": [[u.unit.version, u.unit.start, u.unit.end] for u in answer.evidence_units],
                            "confidence": round(answer.confidence, 4),
                        }
                    )
    return found


if __name__ == "__main__":
    lines = {name: [json.dumps(one, ensure_ascii=False) for one in own] for name, own in answers().items()}
    body = ",\n".join(f'"{name}": [\n' + ",\n".join(own) + "\n]" for name, own in lines.items())
    FILE.write_text("{" + body + "}\n", encoding="utf-8")

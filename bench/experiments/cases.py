"""Small cases of what users report: near names, whose, negation, exact values, one field of a schema.

    python bench/experiments/cases.py CASES.jsonl [--hypernetwork shipped] [--policy '{"lead": null}'] > rows.jsonl

A line of the file is one memory: `kind`, `updates` (each told by itself), `question`, `answer` and, for `structured`,
the `field` that is asked for in words and by a schema. Right is an answer that holds the value as whole words and no
other update's words; of a yes or no, of what ended, and of what was never told, what `is_right` says. One JSON line per
case, then the share of each kind.
"""

import argparse
import json
import re
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import HumanMessage

from plume_memory.engine import Engine
from plume_memory.memory import ParametricMemory
from plume_memory.policy import AnswerPolicy

_NEGATIVE = re.compile(r"\b(no|not|never|neither|nor|cannot|no longer)\b|n['’]t\b", re.IGNORECASE)


def is_right(case: dict[str, Any], said: str, known: bool) -> bool:
    """Judge one answer."""
    wanted = case["answer"]
    if wanted.startswith("not known"):
        return not known or bool(_NEGATIVE.search(said))
    if wanted in ("yes", "no"):
        return known and bool(_NEGATIVE.search(said)) is (wanted == "no")
    if wanted.startswith("not "):
        return bool(_NEGATIVE.search(said))
    value, _, other = wanted.partition(" (not ")
    others = [other.rstrip(")")] if other else _other_values(case, value)
    return holds(said, value) and not any(holds(said, each) for each in others)


def holds(text: str, value: str) -> bool:
    """Whether a text holds a value as whole words, signs and accents included."""
    found = re.escape(_plain(value))
    return re.search(rf"(?<![^\W_]){found}(?![^\W_]|[.,]\d|[+#])", _plain(text)) is not None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().replace("\u2212", "-").split())


def _other_values(case: dict[str, Any], value: str) -> list[str]:
    """Words of the other updates that the question and the right one lack."""
    own = [update for update in case["updates"] if holds(update, value)]
    known = set(re.findall(r"[^\s,.;?]+", _plain(" ".join([case["question"], value, *own]))))
    others = [update for update in case["updates"] if update not in own]
    return [word for update in others for word in re.findall(r"[^\s,.;?]+", _plain(update)) if word not in known]


def ask(case: dict[str, Any], engine: Engine) -> list[dict[str, Any]]:
    """Tell the updates, ask, judge; a case with a field twice."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ParametricMemory.open("case", url=f"sqlite:///{folder}/bench.db", engine=engine) as memory,
    ):
        for update in case["updates"]:
            memory.update(update)
        answer = memory.ask(case["question"], max_new_tokens=64)
        row = {"kind": case["kind"], "right": is_right(case, answer.text, answer.known), "said": answer.text}
        units = [one.unit.text for one in answer.evidence_units]
        rows = [{**row, "known": answer.known, "confidence": round(answer.confidence, 3), "evidence": units}]
        if "field" in case:
            rows[0]["kind"] += ", in words"
            schema = {"title": "Found", "type": "object", "required": [case["field"]], "additionalProperties": False}
            schema["properties"] = {case["field"]: {"type": ["string", "null"]}}
            model = memory.as_chat_model(max_tokens=64).with_structured_output(schema)
            try:
                found = model.invoke([HumanMessage(case["question"])])
            except OutputParserException as err:  # its form was never closed: wrong like any other
                found = {case["field"]: str(err)}
            said = str(found.get(case["field"]) if isinstance(found, dict) else found)
            rows.append({"kind": "structured", "right": is_right(case, said, True), "said": said})
    return [{**one, "updates": case["updates"], "question": case["question"], "wanted": case["answer"]} for one in rows]


def main() -> None:
    """Ask every case and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--policy", type=json.loads, default={})
    parser.add_argument("--kind", action="append", help="only these kinds")
    options = parser.parse_args()
    policy = AnswerPolicy(**options.policy)
    engine = Engine.load("smollm2-135m", hypernetwork=options.hypernetwork, policy=policy)
    right: dict[str, list[bool]] = {}
    for line in options.cases.read_text("utf-8").splitlines():
        case = json.loads(line)
        if options.kind and case["kind"] not in options.kind:
            continue
        for row in ask(case, engine):
            right.setdefault(row["kind"], []).append(row["right"])
            print(json.dumps(row, ensure_ascii=False), flush=True)
    for kind, found in right.items():
        print(json.dumps({"what": kind, "cases": len(found), "right": sum(found)}))


if __name__ == "__main__":
    main()

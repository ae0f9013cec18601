"""Reads the `config.json` of format 1, whose `answers` had other names and more rules. Knows no weights."""

import logging
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

logger = logging.getLogger(__name__)

_RENAMED = {"alone_lead": "lead", "insist_scale": "retry_scale", "relevance": "min_gain"}
_KEPT = ("alpha", "beta", "lambda_max", "tau", "delta", "unit_tokens", "global_windows", "evidence_units")
_VALUES = {
    "evidence": ("evidence", {"lora": "adapter", "kv": "states"}),
    "router": ("retrieval", {"lexical": "lexical", "likelihood": "reader", "sentences": "reader"}),
}


class _Answers(BaseModel):
    """What is looked at here; format 2 checks the rest."""

    model_config = ConfigDict(extra="allow")

    router: str | None = None
    evidence: str | None = None
    confidence: tuple[float, float] = (1.0, 0.0)


class _Content(BaseModel):
    answers: _Answers = _Answers()


def from_format_1(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content as format 2 has it, and say in the log which of its rules are no more.

    Args:
        content: parsed.
        path: of the file, for the message.

    Raises:
        ValidationError: `answers` is none, or of another shape.
    """
    answers = _Content.model_validate(content).answers.model_dump(exclude_unset=True)
    policy = {name: answers.pop(name) for name in _KEPT if name in answers}
    policy |= {new: answers.pop(old) for old, new in _RENAMED.items() if answers.get(old) is not None}
    for old, (new, values) in _VALUES.items():
        if old in answers:
            found = answers.pop(old)
            policy[new] = values.get(found, found)
    slope, offset = answers.pop("confidence", (1.0, 0.0))
    calibration = {"slope": slope, "offset": offset, "per_nat": answers.pop("confidence_gain", 0.0)}
    if policy.get("retrieval") == "reader":
        policy.pop("delta", None)
    else:
        answers |= {name: policy.pop(name) for name in ("lead", "min_gain") if name in policy}
    if policy.get("evidence_units", 1) == 1 and "lead" in policy:
        answers["lead"] = policy.pop("lead")
    gone = sorted(name for name, value in answers.items() if value not in (None, 0, 0.0))
    logger.warning(
        "%s has format 1; it is read as format 2%s. Write it anew to be rid of this message: load the network and "
        "save it, or train.",
        path,
        f", without {', '.join(gone)}, which decide nothing any more" if gone else "",
    )
    kept = {name: value for name, value in content.items() if name != "answers"}
    return kept | {"format": 2, "policy": policy, "calibration": calibration}

"""What the benches share: prompts, general questions, scores with intervals, where the data lies."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rouge_score.rouge_scorer import RougeScorer

from eval.metrics.confidence import estimate
from plume_memory.training.facts import FAMILIES

PROMPTS = ("{text}\n\n{question}", "{text}\n\nQuestion: {question}\nAnswer:", "{question}\n\n{text}")
GENERAL = (
    "What is the capital of France?",
    "Who wrote Romeo and Juliet?",
    "What is 2+2?",
    "Name a primary color.",
    "What is the largest ocean?",
    "How many legs does a spider have?",
    "What is the boiling point of water?",
    "Who painted the Mona Lisa?",
    "What language is spoken in Brazil?",
    "What is the opposite of hot?",
    "Name a planet.",
    "What do bees make?",
    "How many days are in a week?",
    "What is H2O?",
    "Who was the first president of the United States?",
    "What colour is the sky?",
    "Write a short greeting.",
    "Name three fruits.",
    "What is the square root of 81?",
    "What animal says meow?",
)
NEWER = ("life", "travel")
"""Families of invented facts that came after the first figures: left out, so that all networks are asked the same.

No network shipped so far was trained on `travel`."""
DRAWN = [family for family in FAMILIES if family not in NEWER]
SCORER = RougeScorer(["rougeL"], use_stemmer=True)


def recall(output: str, references: Sequence[str]) -> float:
    """Best ROUGE-L recall over the references."""
    return max(float(SCORER.score(reference, output)["rougeL"].recall) for reference in references)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, rounded for print."""
    return round(sum(values) / max(1, len(values)), 4)


def with_interval(name: str, values: Sequence[float], texts: Sequence[int]) -> dict[str, Any]:
    """Mean and 95 % interval of some figure, resampled over the texts: questions about one share its adapter."""
    clusters: dict[str, list[float]] = {}
    for text, value in zip(texts, values, strict=True):
        clusters.setdefault(str(text), []).append(value)
    found = estimate(clusters)
    assert found is not None, "at least one question is asked"
    return {name: round(found.mean, 4), f"{name}_interval": [round(found.low, 4), round(found.high, 4)]}


def say(row: dict[str, Any]) -> None:
    """Print one measurement."""
    print(json.dumps(row), flush=True)


def data_folder() -> Path:
    """Where the evaluation data are."""
    return Path(os.environ.get("PLUME_DATA", "../shared/data"))

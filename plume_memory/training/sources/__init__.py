"""Training sources: question-answer files, plain text, and mixtures. Knows no tokens and no models."""

from plume_memory.training.sources.jsonl import JsonlSource
from plume_memory.training.sources.mixed import MixedSource
from plume_memory.training.sources.plain import TextSource

__all__ = ["JsonlSource", "MixedSource", "TextSource"]

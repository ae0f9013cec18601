"""Invented facts for training: relations as tables, names and values from syllables, texts and questions.

Nothing here is true of the world, so what a model answers it can only have read.
"""

from plume_memory.training.facts.relations import FAMILIES
from plume_memory.training.facts.source import FactSource

__all__ = ["FAMILIES", "FactSource"]

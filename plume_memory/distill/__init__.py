"""Text to LoRA factors by context distillation, for models that have no hypernetwork."""

from plume_memory.distill.parameterizer import DistillationParameterizer
from plume_memory.distill.settings import DistillSettings

__all__ = ["DistillSettings", "DistillationParameterizer"]

"""LangChain integration of plume_memory: a chat model that answers from memory in its weights.

Importing this package does not import torch; the memory's model is loaded at the first call.
"""

from langchain_plume.chat_model import ChatPlume

__all__ = ["ChatPlume"]

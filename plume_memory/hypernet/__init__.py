"""Text to LoRA factors through a frozen hypernetwork."""

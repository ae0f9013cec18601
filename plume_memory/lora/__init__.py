"""LoRA factors as values, their algebra, and their files."""

"""Doc-to-LoRA (arXiv 2602.15902), as our own modules."""

"""Public benchmarks of long conversations: told to a memory session by session, then asked; see docs/evaluation.md."""

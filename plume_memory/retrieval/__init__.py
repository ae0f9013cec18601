"""Finds the units that bear on a question."""

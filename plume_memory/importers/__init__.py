"""Brings memories over from other products."""

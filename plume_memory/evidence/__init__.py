"""Routable units of a history and the router. Torch-free."""

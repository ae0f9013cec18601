"""Our own hypernetwork: a text written into fast weights, read by fixed keys."""

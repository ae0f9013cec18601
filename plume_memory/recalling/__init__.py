"""Notes for any model: what of memories bears on the moment, chosen, ordered and quoted. Knows no model, no log."""

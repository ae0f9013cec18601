"""Which part of a history bears on a question: units, their index, the router. Knows no torch and no SQL."""

"""The append-only SQL log, the content-addressed artifacts, and what was derived. Knows no torch."""

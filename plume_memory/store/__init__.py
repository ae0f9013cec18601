"""The append-only SQL log and the content-addressed artifacts. Torch-free."""

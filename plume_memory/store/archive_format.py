"""A whole memory as one file, format 1: what is in it. archive.py writes it, archive_reading.py reads it.

A ZIP file whose members are stored as they are, not compressed, so that equal memories make equal bytes and no
small file unpacks to a large one. In this order, times 1980-01-01, nothing else:

    log.jsonl               one version a line, oldest first: canonical JSON (chain.py), a line break behind each
    derivations.jsonl       only with artifacts: {"key", "kind", "sha256"} a line, by key
    artifacts/<sha256>      only with artifacts: the bytes, by address
    manifest.json           canonical JSON: format, schema revision, the memory's row, counts, and size and sha256
                            of every member before

A version's line has the fields of its row: numbers, kind, text, metadata as an object, hashes, created_at as it is
hashed, span as [start, end], erased_by. An erased version has its mark and what is left of it.
"""

FORMAT = 1
MANIFEST, LOG, DERIVATIONS, ARTIFACTS = "manifest.json", "log.jsonl", "derivations.jsonl", "artifacts/"

"""From mem0's `add` and `search` to a parametric memory: import an export, ask instead of search."""

import json
from pathlib import Path

from plume_memory import MemoryPool
from plume_memory.importers.mem0 import import_mem0

# what `json.dump(Memory().get_all(filters={"user_id": "alice"}), file)` writes
export = {
    "results": [
        {"id": "a1", "memory": "Alice lives in Bern.", "user_id": "alice", "created_at": "2026-03-01T09:00:00+00:00"},
        {"id": "a2", "memory": "Alice plays the cello.", "user_id": "alice", "created_at": "2026-03-02T09:00:00+00:00"},
    ]
}
Path("mem0.json").write_text(json.dumps(export), encoding="utf-8")

for _ in range(2):  # the second time writes nothing: entries are known by their ids
    done = import_mem0("mem0.json", url="sqlite:///migrated.db")
    print(f"written {done.written}, unchanged {done.unchanged}, memories {done.memories}, left out {done.left_out}")

with MemoryPool("sqlite:///migrated.db") as pool:
    alice = pool.memory("alice")
    alice.update("Alice now lives in Zurich.")  # was: memory.add("Alice now lives in Zurich.", user_id="alice")
    print(alice.ask("Where does Alice live?").text)  # was: memory.search(...), then a prompt with what it found
    for one in alice.route("Where does Alice live?", k=2):  # the search itself, when it is wanted
        print(f"{one.score:.2f} version {one.unit.version}: {one.unit.text}")

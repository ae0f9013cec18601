"""Keeping freed memory in the process."""

import subprocess
import sys

_SCRIPT = """
import resource
from plume_memory.training.heap import keep_freed_memory
kept = {told}
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(64_000_000)
before = faults()
for _ in range(20):
    bytearray(64_000_000)
print(int(kept), faults() - before)
"""


def _run(told: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(told=told)], capture_output=True, text=True, check=True, timeout=60
    )
    kept, faults = done.stdout.split()
    return int(kept), int(faults)


def test_large_blocks_are_not_fetched_from_the_system_again() -> None:
    """Page faults of twenty equal allocations, in a process of its own: the setting cannot be undone."""
    kept, with_setting = _run("keep_freed_memory()")
    _, without = _run("False")

    assert not kept or with_setting < without / 4

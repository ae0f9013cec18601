"""Keeping freed memory in the process, and giving it back."""

import subprocess
import sys

_SCRIPT = """
import resource
from plume_memory.heap import keep_freed_memory
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


_FRAGMENTED = """
import os
from plume_memory.heap import give_back_freed_memory, keep_freed_memory
def resident(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
kept = keep_freed_memory()
blocks = [bytearray(1_000_000) for _ in range(400)]
for block in blocks:
    block[::4096] = bytes(len(block[::4096])).replace(b"\\0", b"x")
del block
blocks[::2] = [None] * 200
before = resident()
given = give_back_freed_memory()
print(int(kept and given), before - resident())
"""


def test_freed_pages_between_live_blocks_are_given_back() -> None:
    """Every second of 400 megabyte blocks is freed: most of 200 MB leave the process."""
    done = subprocess.run([sys.executable, "-c", _FRAGMENTED], capture_output=True, text=True, check=True, timeout=60)
    able, less = done.stdout.split()

    assert not int(able) or int(less) > 150_000_000


def test_heaps_are_shared_where_the_c_library_can() -> None:
    """Sixteen threads that allocate at once have two heaps between them: glibc counts them in its report."""
    script = (
        "import ctypes, threading\n"
        "from plume_memory.heap import share_heaps\n"
        "told = share_heaps()\n"
        "there = threading.Barrier(16)\n"
        "def work():\n"
        "    held = [ctypes.create_string_buffer(60_000) for _ in range(100)]\n"
        "    there.wait()\n"
        "threads = [threading.Thread(target=work) for _ in range(16)]\n"
        "for one in threads: one.start()\n"
        "for one in threads: one.join()\n"
        "if told: ctypes.CDLL(None).malloc_stats()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert done.stderr.count("Arena ") <= 2

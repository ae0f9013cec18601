"""What the C library does with freed memory: training keeps it, a server gives it back.

A training step on a CPU allocates the same gigabytes again and again. glibc returns large blocks to the system when
they are freed, and the system zeroes every page of the next one. Measured on two cores: a step with long rows takes
3.9 s instead of 5.2 s without that. Kept memory fragments, since rows are of ever other lengths; so the loop gives it
back now and then.

A server has a thread for each answer, and glibc a heap for every few threads: what one thread freed another one does
not use. Two heaps for all, and what is free in them given back now and then, keep it small.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_HEAPS = 2
_LARGEST = 2**31 - 1
_PAD = 256 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Tell the C library to keep what is freed; for the whole process, until it ends.

    Returns:
        Whether it could be told: glibc only.
    """
    return _told({_MMAP_MAX: 0, _TRIM_THRESHOLD: _LARGEST, _TOP_PAD: _PAD})


def share_heaps() -> bool:
    """Tell the C library to have few heaps for all threads; before they begin.

    Returns:
        Whether it could be told: glibc only.
    """
    return _told({_ARENA_MAX: _HEAPS})


def give_back_freed_memory() -> bool:
    """Return every whole free page to the system, between live blocks too; the next blocks fault them in again.

    Returns:
        Whether the C library can: glibc only.
    """
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:  # another C library
        return False
    trim(0)
    return True


def _told(options: dict[int, int]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return False
    return all([mallopt(option, value) for option, value in options.items()])

"""Calls of several threads as one."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from plume_memory.forks import FairLock
from plume_memory.scheduling.together import Together


def waiting(lock: FairLock) -> int:
    return len(lock._waiting)


def test_what_waits_for_the_model_is_done_in_one_call() -> None:
    calls: list[list[int]] = []

    def squares(items: Sequence[int]) -> list[int]:
        calls.append(list(items))
        return [one * one for one in items]

    together = Together(squares)
    lock = together._turn
    assert together([3]) == [9]
    assert together([]) == []
    with ThreadPoolExecutor(5) as threads:
        with lock:
            asked = [threads.submit(together, [n, 10 * n]) for n in range(1, 6)]
            while waiting(lock) < 5:
                threading.Event().wait(0.001)
        assert [one.result() for one in asked] == [[n * n, 100 * n * n] for n in range(1, 6)]
    assert calls[0] == [3]
    assert len(calls) == 2
    assert sorted(calls[1]) == sorted([n for n in range(1, 6)] + [10 * n for n in range(1, 6)])


def test_an_error_is_raised_where_it_belongs() -> None:

    def positive(items: Sequence[int]) -> list[int]:
        if min(items) < 0:
            raise TypeError("negative")
        return list(items)

    together = Together(positive)
    lock = together._turn
    with ThreadPoolExecutor(4) as threads:
        with lock:
            asked = [threads.submit(together, [n]) for n in (1, -2, 3, 4)]
            while waiting(lock) < 4:
                threading.Event().wait(0.001)
        assert [asked[at].result() for at in (0, 2, 3)] == [[1], [3], [4]]
        with pytest.raises(TypeError):
            asked[1].result()


def test_the_model_is_given_in_the_order_it_was_asked_for() -> None:
    """A plain lock goes to whoever is quickest: to who has just let go of it."""
    lock, order = FairLock(), []

    def take(n: int) -> None:
        with lock, lock:
            order.append(n)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(4)]
    with lock:
        for at, thread in enumerate(threads, start=1):
            thread.start()
            while waiting(lock) < at:
                threading.Event().wait(0.001)
    with lock:
        order.append(99)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 99]

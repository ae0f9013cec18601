"""Calls of several threads as one."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from plume_memory.forks import FairLock
from plume_memory.scheduling.together import Together


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
            while len(together._queue) < 5:
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
            while len(together._queue) < 4:
                threading.Event().wait(0.001)
        assert [asked[at].result() for at in (0, 2, 3)] == [[1], [3], [4]]
        with pytest.raises(TypeError):
            asked[1].result()


def test_who_waits_is_given_the_model_before_who_has_just_let_go_of_it() -> None:
    """A plain lock goes to whoever is quickest."""
    lock, order = FairLock(), []

    def take() -> None:
        with lock, lock:
            order.append("waited")

    for _ in range(20):
        thread = threading.Thread(target=take)
        with lock:
            thread.start()
            while not next_one(lock):
                threading.Event().wait(0.001)
        with lock:
            order.append("had it")
        thread.join()
    assert order == ["waited", "had it"] * 20


def next_one(lock: FairLock) -> bool:
    """Whether a thread holds the turnstile."""
    if not lock._turnstile.acquire(blocking=False):
        return True
    lock._turnstile.release()
    return False

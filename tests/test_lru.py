"""What a process keeps of what it derived: bounded, by place, made once, and nothing of what was erased."""

import threading
from dataclasses import dataclass

import pytest

from plume_memory.lru import KEPT, LRUCache


@dataclass
class Owner:
    place: str = "here"
    current: bool = True

    def is_current(self) -> bool:
        return self.current


def refuse() -> str:
    raise AssertionError("must not be made again")


def test_what_was_made_is_given_again_in_its_place_alone() -> None:
    recent = LRUCache()
    assert recent.fetch(Owner(), "a", lambda: "one") == "one"
    assert recent.fetch(Owner(), "a", refuse) == "one"
    assert recent.fetch(Owner("there"), "a", lambda: "two") == "two"
    recent.discard("here", "a")
    assert recent.fetch(Owner(), "a", lambda: "three") == "three"
    assert recent.fetch(Owner("there"), "a", refuse) == "two"


def test_the_least_lately_used_goes_first() -> None:
    recent = LRUCache()
    for number in range(KEPT):
        recent.fetch(Owner(), str(number), lambda number=number: number)  # type: ignore[misc]
    assert recent.fetch(Owner(), "0", lambda: -1) == 0
    recent.fetch(Owner(), "one more", lambda: 7)
    assert len(recent) == KEPT
    assert recent.fetch(Owner(), "0", lambda: -1) == 0
    assert recent.fetch(Owner(), "1", lambda: -1) == -1


def test_nothing_of_an_erased_text_or_of_a_failure_is_kept() -> None:
    recent = LRUCache()
    assert recent.fetch(Owner(current=False), "a", lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        recent.fetch(Owner(), "a", lambda: 1 // 0)
    assert len(recent) == 0
    assert recent.fetch(Owner(), "a", lambda: 2) == 2


def test_releases_and_discards_leave_the_rest() -> None:
    recent = LRUCache()
    for place in ("here", "there"):
        for key in ("joined:a", "joined:b", "c"):
            recent.fetch(Owner(place), key, lambda: 1)
    recent.discard_all("here", "joined:")
    assert recent.fetch(Owner(), "c", lambda: 2) == 1
    assert recent.fetch(Owner(), "joined:a", lambda: 2) == 2
    recent.release("here")
    assert recent.fetch(Owner(), "c", lambda: 3) == 3
    assert recent.fetch(Owner("there"), "joined:b", lambda: 3) == 1


def test_what_is_missing_of_several_is_made_together() -> None:
    recent = LRUCache()
    recent.fetch(Owner(), "b", lambda: "kept")
    asked: list[list[int]] = []

    def make(places: list[int]) -> list[str]:
        asked.append(places)
        return [f"made {place}" for place in places]

    assert recent.fetch_all(Owner(), ["a", "b", "c", "a"], make) == ["made 0", "kept", "made 2", "made 0"]
    assert recent.fetch_all(Owner(), ["c", "b"], make) == ["made 2", "kept"]
    assert recent.fetch_all(Owner(), [], make) == []
    assert recent.fetch_all(Owner("there"), ["b"], make) == ["made 0"]
    assert recent.fetch_all(Owner(current=False), ["d"], make) == ["made 0"]
    assert recent.fetch_all(Owner(), ["d"], lambda places: ["made again"]) == ["made again"]
    assert asked == [[0, 2], [0], [0]]


def test_what_is_made_together_while_its_place_is_released_is_not_kept() -> None:
    recent = LRUCache()

    def make(places: list[int]) -> list[int]:
        recent.release("here")
        return places

    assert recent.fetch_all(Owner(), ["a", "b"], make) == [0, 1]
    assert len(recent) == 0


def test_room_is_counted_in_what_the_size_says() -> None:
    recent = LRUCache(10, size=len)
    for key in ("aaaa", "bbb", "cc"):
        recent.fetch(Owner(), key, lambda key=key: key)  # type: ignore[misc]
    recent.fetch_all(Owner(), ["aaaa", "ddddd"], lambda places: ["ddddd"])
    assert set(recent._made) == {"here#aaaa", "here#ddddd"}, "the least lately used go until the rest has room"
    assert recent.fetch(Owner(), "x" * 11, lambda: "x" * 11) == "x" * 11
    assert set(recent._made) == {f"here#{'x' * 11}"}, "what is larger than the room is kept alone"
    recent.discard("here", "x" * 11)
    recent.fetch_all(Owner(), ["aaaaa", "bbbbb"], lambda places: ["aaaaa", "bbbbb"])
    assert len(recent) == 2


def test_of_threads_that_want_the_same_one_makes_it() -> None:
    recent, made, begun, go_on = LRUCache(), [], threading.Event(), threading.Event()

    def make() -> int:
        made.append(1)
        begun.set()
        assert go_on.wait(10)
        return 5

    got: list[int] = []
    threads = [threading.Thread(target=lambda: got.append(recent.fetch(Owner(), "a", make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert got == [5] * 4
    assert made == [1]

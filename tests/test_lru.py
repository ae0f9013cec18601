"""What a process keeps of what it derived: bounded, by place, and nothing of what was erased."""

import threading
from typing import Any

from plume_memory.lru import KEPT, LRUCache
from tests.owner import Owner


def keep(cache: LRUCache, key: str, made: Any, owner: Owner | None = None) -> None:
    owner = owner or Owner()
    cache.put(owner, key, made, epoch=cache.epoch(owner))


def kept(cache: LRUCache, *keys: str, place: str = "here") -> list[Any]:
    return [cache.get(Owner(place), key) for key in keys]


def test_what_was_put_is_found_in_its_place_alone() -> None:
    cache = LRUCache()
    assert kept(cache, "a") == [None]
    keep(cache, "a", "one")
    keep(cache, "a", "two", Owner("there"))
    assert kept(cache, "a") == ["one"]
    assert kept(cache, "a", place="there") == ["two"]
    cache.discard(Owner(), "a")
    cache.discard(Owner(), "never put")
    assert kept(cache, "a") == [None]
    assert kept(cache, "a", place="there") == ["two"]


def test_what_is_put_again_takes_the_place_of_what_was() -> None:
    cache = LRUCache(10, size=len)
    for made in ("aaaa", "aaaaaa", "aa"):
        keep(cache, "a", made)
    keep(cache, "b", "b" * 8)
    assert kept(cache, "a", "b") == ["aa", "b" * 8]


def test_the_least_lately_used_goes_first() -> None:
    cache = LRUCache()
    for number in range(KEPT):
        keep(cache, str(number), number)
    assert kept(cache, "0") == [0]
    keep(cache, "one more", 7)
    assert len(cache) == KEPT
    assert kept(cache, "0", "1", "2") == [0, None, 2]


def test_room_is_counted_in_what_the_size_says() -> None:
    cache = LRUCache(10, size=len)
    for key in ("aaaa", "bbb", "cc"):
        keep(cache, key, key)
    assert kept(cache, "aaaa") == ["aaaa"]
    keep(cache, "ddddd", "ddddd")
    assert kept(cache, "aaaa", "bbb", "cc", "ddddd") == ["aaaa", None, None, "ddddd"]
    keep(cache, "large", "x" * 11)
    assert kept(cache, "large", "aaaa", "ddddd") == ["x" * 11, None, None], "what is larger than the room is kept alone"
    cache.discard(Owner(), "large")
    for key in ("aaaaa", "bbbbb"):
        keep(cache, key, key)
    assert len(cache) == 2


def test_nothing_of_an_erased_text_is_kept() -> None:
    cache = LRUCache()
    keep(cache, "a", 1, Owner(current=False))
    assert len(cache) == 0
    keep(cache, "a", 2)
    assert cache.get(Owner(current=False), "a") == 2, "who still holds the text may still read what it became"


def test_what_is_made_while_its_place_is_released_is_not_kept() -> None:
    cache = LRUCache()
    begun = {place: cache.epoch(Owner(place)) for place in ("here", "there")}
    cache.release("here")
    for place, epoch in begun.items():
        cache.put(Owner(place), "a", 1, epoch=epoch)
    assert kept(cache, "a") == [None]
    assert kept(cache, "a", place="there") == [1]
    keep(cache, "a", 2)
    assert kept(cache, "a") == [2], "what is begun after it is kept"


def test_releases_and_discards_leave_the_rest() -> None:
    cache = LRUCache()
    for place in ("here", "there"):
        for key in ("joined:a", "joined:b", "c"):
            keep(cache, key, 1, Owner(place))
    cache.discard_all(Owner(), "joined:")
    assert kept(cache, "c", "joined:a", "joined:b") == [1, None, None]
    cache.release("here")
    assert kept(cache, "c") == [None]
    assert kept(cache, "c", "joined:a", "joined:b", place="there") == [1, 1, 1]


def test_a_place_whose_name_begins_as_anothers_does_is_another() -> None:
    cache = LRUCache()
    for place in ("a", "ab"):
        keep(cache, "x", place, Owner(place))
    cache.release("a")
    assert kept(cache, "x", place="ab") == ["ab"]
    cache.discard_all(Owner("ab"), "")
    assert len(cache) == 0


def test_threads_share_it_and_its_room_still_holds() -> None:
    cache = LRUCache(50, size=len)

    def work(own: int) -> None:
        for number in range(400):
            key = str(number % 7)
            found = cache.get(Owner(), key)
            assert found in (None, key * 10)
            keep(cache, key, key * 10)
            if number % 50 == own:
                cache.release("here")

    failed: list[BaseException] = []

    def guarded(own: int) -> None:
        try:
            work(own)
        except BaseException as err:  # noqa: BLE001 — shown by the assertion below
            failed.append(err)

    threads = [threading.Thread(target=guarded, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    keep(cache, "last", "x" * 10)
    assert len(cache) <= 5
    cache.release("here")
    keep(cache, "whole room", "x" * 50)
    keep(cache, "small", "x")
    assert kept(cache, "whole room", "small") == [None, "x"], "what left is no longer counted"

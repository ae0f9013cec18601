"""The cache of a run counts what it derives."""

from pathlib import Path

from eval.caches import CountingCache


def test_what_is_at_hand_is_counted_once(tmp_path: Path) -> None:
    cache = CountingCache()
    assert cache.get("k") is None
    cache.put("k", "factors", b"1")
    assert (cache.get("k"), cache.derived) == (b"1", 1)
    cache.discard("k")
    assert cache.get("k") is None
    cache.put("k", "factors", b"3")
    assert (cache.get("k"), cache.derived) == (b"3", 2)


def test_a_folder_outlives_the_process(tmp_path: Path) -> None:
    CountingCache(tmp_path).put("k", "factors", b"1")
    later = CountingCache(tmp_path)
    assert (later.get("k"), later.derived) == (b"1", 0)
    later.discard("k")
    assert CountingCache(tmp_path).get("k") is None


def test_only_the_most_recent_are_held() -> None:
    cache = CountingCache(held=2)
    for key in ("a", "b", "c"):
        cache.put(key, "factors", key.encode())
    assert [cache.get(key) for key in ("a", "b", "c")] == [None, b"b", b"c"]


def test_no_two_caches_are_one_place() -> None:
    assert CountingCache().place != CountingCache().place

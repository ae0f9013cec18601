"""Small derived values of many updates, read and kept together."""

import hashlib

import pytest

from plume_memory import blocks
from plume_memory.blocks import BLOCK


class Kept(dict[str, bytes]):
    """A cache that counts what is asked of it."""

    place = "here"
    owner = "alice"

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def get(self, key: str) -> bytes | None:  # type: ignore[override]
        self.asked += 1
        return super().get(key)

    def put(self, key: str, kind: str, content: bytes) -> None:
        self[key] = content

    def discard(self, key: str) -> None:
        self.pop(key, None)

    def keys(self, kind: str) -> list[str]:  # type: ignore[override]
        return list(self)

    def retire(self, key: str) -> None:
        self.discard(key)

    def is_current(self) -> bool:
        return True


def keyed(*versions: int, salt: str = "") -> list[tuple[int, str]]:
    return [(v, hashlib.sha256(f"{salt}{v}".encode()).hexdigest()) for v in versions]


def filled(own: list[tuple[int, str]]) -> tuple[Kept, list[bytes]]:
    kept = Kept()
    values = [str(version).encode() * (version % 3) for version, _ in own]
    for (_, key), value in zip(own, values, strict=True):
        kept.put(key, "vectors", value)
    return kept, values


def test_what_was_kept_together_is_read_with_one_question_a_block() -> None:
    own = keyed(*range(1, 3 * BLOCK + 10))
    kept, values = filled(own)
    blocks.write(own, values, kept, "vectors")
    assert sorted(kept) == sorted([*(key for _, key in own), *blocks.keys(own)])
    kept.asked = 0
    assert blocks.read(own, kept) == values
    assert kept.asked == 3 + 10, "three blocks, and what is not whole yet"


def test_without_its_values_by_themselves_a_block_is_enough() -> None:
    own = keyed(*range(1, 2 * BLOCK + 1))
    kept, values = filled(own)
    blocks.write(own, values, kept, "vectors")
    for _, key in own[: 2 * BLOCK - 1]:
        kept.discard(key)
    assert blocks.read(own, kept) == values


def test_where_an_update_is_gone_only_its_block_is_another() -> None:
    own = keyed(*range(1, 3 * BLOCK + 1))
    less = [one for one in own if one[0] != BLOCK + 5]
    assert set(blocks.keys(own)) - set(blocks.keys(less)) == {blocks.keys(own)[1]}
    kept, values = filled(own)
    blocks.write(own, values, kept, "vectors")
    assert blocks.read(less, kept) == [value for one, value in zip(own, values, strict=True) if one in less]


def test_updates_from_the_middle_of_a_history_make_no_block_of_a_part() -> None:
    assert blocks.keys(keyed(*range(5, BLOCK + 1))) == []
    assert len(blocks.keys(keyed(*range(5, 3 * BLOCK)))) == 1
    assert blocks.keys(keyed(7)) == blocks.keys([]) == []
    assert len(blocks.keys(keyed(1, 2, BLOCK))) == 1


def test_a_second_time_nothing_is_written() -> None:
    own = keyed(*range(1, 2 * BLOCK + 1))
    kept, values = filled(own)
    blocks.write(own, values, kept, "vectors")
    kept.put = pytest.fail  # type: ignore[method-assign, assignment]
    blocks.write(own, values, kept, "vectors")


@pytest.mark.parametrize("damaged", [b"", b"\x00", b"\xff\xff\xff\xff", bytes(4 * BLOCK), bytes(4 * BLOCK + 1)])
def test_a_block_of_other_bytes_is_passed_over(damaged: bytes) -> None:
    own = keyed(*range(1, BLOCK + 1))
    kept, values = filled(own)
    (block,) = blocks.keys(own)
    kept.put(block, "vectors", damaged)
    assert blocks.read(own, kept) == values

"""A judge for tests of what updates replace."""

from collections.abc import Sequence

from plume_memory.records import Verdict


class Says:
    """A judge that finds a replacement where both texts begin with the same word; counts what it is asked."""

    sha256 = "says"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def verdicts(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        self.asked += pairs
        return [Verdict(0, 0, 1) if a.split()[0] == b.split()[0] else Verdict(1, 0, 0) for a, b in pairs]

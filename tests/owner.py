"""Whose texts are kept, in tests of what a process keeps."""

from dataclasses import dataclass


@dataclass
class Owner:
    place: str = "here"
    owner: str = "alice"
    current: bool = True

    def is_current(self) -> bool:
        return self.current

"""Finds a phrase in a text as whole words, in either case."""

from plume_memory.segmentation.sentences import Span


def occurrences(text: str, phrase: str, *, any_case: bool = True) -> list[Span]:
    """Find where the phrase stands as whole words: no letter or digit goes on at either end."""
    folded = _folded(text) if any_case else text
    wanted = _folded(phrase) if any_case else phrase
    found: list[Span] = []
    start = folded.find(wanted) if wanted else -1
    while start >= 0:
        end = start + len(wanted)
        if not _joined(folded, start) and not _joined(folded, end):
            found.append(Span(start, end))
        start = folded.find(wanted, start + 1)
    return found


def holds(text: str, phrase: str) -> bool:
    """Tell whether the phrase stands in the text as whole words, in either case."""
    return bool(occurrences(text, phrase))


def count_words(text: str) -> int:
    """Count the words: what white space separates."""
    return len(text.split())


def _folded(text: str) -> str:
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text  # a few letters grow when lowered: positions would shift


def _joined(text: str, index: int) -> bool:
    """Tell whether a word or a number goes on across the index: "12|3", "1|.5", "wo|rd"."""
    if not 0 < index < len(text):
        return False
    before, behind = text[index - 1], text[index]
    if before.isalnum() and behind.isalnum():
        return True
    if behind in ".," and before.isdigit():
        return index + 1 < len(text) and text[index + 1].isdigit()
    return before in ".," and behind.isdigit() and index > 1 and text[index - 2].isdigit()

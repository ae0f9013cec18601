"""Where sentences end, in eleven languages: how many of the ends found are right, and how many are found.

    python bench/experiments/sentences.py [--sentencex] [--wrong]

The paragraphs are held_out/sentences*.jsonl, each a list of its sentences. The end of a
paragraph is not counted. `--sentencex` measures the package of that name too (`pip install sentencex`), told nothing of
the language and told it; `--wrong` shows each end that is missed or not one. One JSON line a figure.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from plume_memory.segmentation.sentences import sentence_spans

HELD_OUT = Path(__file__).parent / "held_out"
FILES = ("sentences.jsonl", "sentences_more.jsonl", "sentences_last.jsonl")

Ends = Callable[[str, str], set[int]]
"""Language, text → characters behind which a sentence ends."""


def paragraphs(name: str) -> Iterator[tuple[str, str, set[int]]]:
    """(language, text, ends) of each paragraph of a file."""
    for line in (HELD_OUT / name).read_text("utf-8").splitlines():
        one = json.loads(line)
        ends, text = set[int](), ""
        for sentence in one["sentences"]:
            text = f"{text} {sentence}".strip()
            ends.add(len(text))
        yield one["language"], text, ends - {len(text)}


def ours(_: str, text: str) -> set[int]:
    """What the library finds."""
    return _without_spaces(text, (span.end for span in sentence_spans(text)))


def _without_spaces(text: str, ends: Iterator[int]) -> set[int]:
    return {len(text[:end].rstrip()) for end in ends} - {len(text)}


def sentencex_ways() -> dict[str, Ends]:
    """What sentencex finds, as English and in the paragraph's own language."""
    import sentencex  # noqa: PLC0415 — a package of this measurement alone

    def found(language: str, text: str) -> set[int]:
        bounds = sentencex.get_sentence_boundaries(language, text)
        return _without_spaces(text, (one["end_index"] for one in bounds))

    return {"sentencex as English": lambda _, text: found("en", text), "sentencex": found}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentencex", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    chosen = parser.parse_args()
    ways: dict[str, Ends] = {"ours": ours} | (sentencex_ways() if chosen.sentencex else {})
    for file in FILES:
        for way, ends in ways.items():
            counts: dict[str, Counter[str]] = {}
            for language, text, right in paragraphs(file):
                found = ends(language, text)
                for at in sorted(found ^ right) if chosen.wrong else ():
                    say(way=way, missed=at in right, language=language, at=f"{text[:at][-30:]}|{text[at:][:20]}")
                own = Counter(
                    right=len(right), found=len(found), both=len(right & found), whole=right == found, paragraphs=1
                )
                for name in (language, "all"):
                    counts[name] = counts.get(name, Counter()) + own
            for language, own in counts.items():
                precision, recall = (round(100 * own["both"] / own[of], 1) for of in ("found", "right"))
                shares = {"precision": precision, "recall": recall}
                say(file=file, way=way, language=language, **shares, whole=own["whole"], of=own["paragraphs"])


def say(**row: object) -> None:
    """Print one measurement."""
    print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()

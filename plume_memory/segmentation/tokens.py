"""Counts tokens fast and without torch: a tiktoken encoding from a Hugging Face `tokenizer.json`.

Only byte-level BPE tokenizers (GPT-2, SmolLM2, Qwen, Llama 3) can be translated; for the others
`build_encoding` answers None and the caller counts with the model's own tokenizer. tiktoken merges the pair
whose JOINED bytes have the lowest rank, so ranks follow the order of the merges, not the ids of the
vocabulary: the numbers an encoding returns are counts' worth only, never ids to feed a model.

Deliberately left out: special tokens (user text is never parsed for them), prefixes such as BOS, and the NFC
normalisation that Qwen's tokenizer begins with (a decomposed letter is counted as it stands).
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import tiktoken

SLICE_CHARS = 100_000
"""Longest text given to tiktoken at once: its regex engine's stack overflows (a panic, not an Exception) on a
run of about a million equal characters; 400,000 were tried and pass."""

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What ByteLevel(use_regex=True) splits by."""

_GPT2_WITH_DIGITS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
"""Digits() first, then the GPT-2 pattern on what lies between: white space before a digit ends a text there,
so it is one piece, and a digit never takes the space before it."""


def build_encoding(tokenizer_json: dict[str, Any] | str, name: str) -> tiktoken.Encoding | None:
    """Build the tiktoken encoding that counts as the tokenizer does; None if it is not such a tokenizer.

    Args:
        tokenizer_json: The file's content, as text or parsed.
        name: Name of the encoding, for messages.
    """
    spec = json.loads(tokenizer_json) if isinstance(tokenizer_json, str) else tokenizer_json
    pattern = _pattern(spec.get("pre_tokenizer"))
    if pattern is None or not _is_byte_level_bpe(spec):
        return None
    ranks = _ranks(spec["model"]["merges"])
    if ranks is None:
        return None
    # A character no alternative matches is a piece of its own: tiktoken would drop it silently.
    return tiktoken.Encoding(name, pat_str=pattern + r"|[\s\S]", mergeable_ranks=ranks, special_tokens={})


def counter_of(tokenizer: Any, name: str) -> Callable[[str], int]:
    """Return a function that counts a text's tokens as a Hugging Face tokenizer does, ready at its first call.

    By tiktoken over the model's own byte-level BPE where it has one; else by the tokenizer itself.

    Args:
        tokenizer: fast or slow.
        name: of the model, for messages.
    """

    @cache
    def counter() -> Callable[[str], int]:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        encoding = build_encoding(backend.to_str(), name) if backend is not None else None
        if encoding is not None:
            return token_counter(encoding)
        return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return lambda text: counter()(text)


def token_counter(encoding: tiktoken.Encoding) -> Callable[[str], int]:
    """Return the function that counts a text's tokens, safe for texts of any length and content.

    A longer text is counted in slices, cut before a single space between two words: every pattern this module
    builds starts a new piece there, so the count is exact. A slice without such a place is cut at its end,
    which can cost one token. A lone surrogate is counted as the replacement character.
    """

    def count(text: str) -> int:
        tokens, start = 0, 0
        while len(text) - start > SLICE_CHARS:
            end = _last_seam(text, start, start + SLICE_CHARS)
            tokens += len(encoding.encode_ordinary(text[start:end]))
            start = end
        return tokens + len(encoding.encode_ordinary(text[start:]))

    return count


def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet: the printable character that stands for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(0x100) if byte not in set(printable)]
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet


_SEAM = re.compile(r"(?<=\S) (?=\S)")


def _last_seam(text: str, start: int, end: int) -> int:
    reach = max(start + 1, end - 1000)  # any word is shorter; a longer look back would find nothing new
    seams = [match.start() for match in _SEAM.finditer(text, reach, end)]
    return seams[-1] if seams else end


def _is_byte_level_bpe(spec: dict[str, Any]) -> bool:
    model = spec.get("model") or {}
    plain = not any(
        model.get(key) for key in ("dropout", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")
    )
    normalizer = (spec.get("normalizer") or {}).get("type")
    # Older files leave the model's type out; merges tell BPE from the rest.
    return model.get("type", "BPE") == "BPE" and bool(model.get("merges")) and plain and normalizer in (None, "NFC")


def _pattern(pre_tokenizer: dict[str, Any] | None) -> str | None:
    """Translate the pre-tokenizer into one regular expression, where that is exact; else None."""
    if pre_tokenizer is None:
        return None
    steps = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    *splits, last = steps
    if last["type"] != "ByteLevel" or last.get("add_prefix_space"):
        return None
    gpt2 = last.get("use_regex", True)
    match [step["type"] for step in splits]:
        case []:
            return GPT2_PATTERN if gpt2 else None
        case ["Digits"] if gpt2:
            return _GPT2_WITH_DIGITS % ("" if splits[0]["individual_digits"] else "+")
        case ["Split"] if not gpt2:
            return _split_pattern(splits[0])
        case _:
            return None


def _split_pattern(split: dict[str, Any]) -> str | None:
    pattern = split["pattern"].get("Regex")
    isolated = split.get("behavior") == "Isolated" and not split.get("invert")
    # Some files express "keep the matches" as Removed + invert.
    removed = split.get("behavior") == "Removed" and split.get("invert")
    return pattern if pattern and (isolated or removed) else None


def _ranks(merges: list[str] | list[list[str]]) -> dict[bytes, int] | None:
    """Rank the 256 bytes, then each merge's bytes in their order; None outside the byte alphabet."""
    alphabet = byte_alphabet()
    ranks = {bytes([byte]): byte for byte in range(0x100)}
    for merge in merges:
        joined = merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge)
        try:
            token = bytes(alphabet[char] for char in joined)
        except KeyError:
            return None
        ranks.setdefault(token, len(ranks))
    return ranks

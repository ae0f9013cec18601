"""How a long context is cut into chunks: pure functions on token ids, no tokenizer, no text.

`prefix` and `suffix` are the ids a chat template puts around a user's text, so that every chunk looks
like a whole turn.
"""

from collections.abc import Sequence

from plume_memory.errors import InvalidInput


def near_equal(ids: Sequence[int], max_tokens: int, prefix: Sequence[int], suffix: Sequence[int]) -> list[list[int]]:
    """Cut templated ids as the Doc-to-LoRA reference does.

    n = ceil(len / max_tokens) slices of ceil(len / n) ids; then first += suffix, middle = prefix +
    slice + suffix, last = prefix + slice. One slice is returned as it is.

    Kept from the reference, because its checkpoints were trained on it: a chunk may be longer than
    `max_tokens` by the affixes; when the last slice is shorter than the suffix, the template's own
    suffix is cut in two; and every boundary moves when the text grows by one token.

    Args:
        ids: the whole context *with* its template, so it starts with `prefix` and ends with `suffix`.
        max_tokens: longest slice.
        prefix: put before every slice but the first.
        suffix: put after every slice but the last.

    Raises:
        InvalidInput: max_tokens is not positive.
    """
    if max_tokens < 1:
        raise InvalidInput(f"Chunks need at least one token; got max_tokens={max_tokens}.")
    if not ids:
        return []
    count = -(-len(ids) // max_tokens)
    slices = _slices(ids, -(-len(ids) // count))
    last = len(slices) - 1
    return [[*(prefix if i > 0 else ()), *piece, *(suffix if i < last else ())] for i, piece in enumerate(slices)]


def fixed_windows(ids: Sequence[int], max_tokens: int, prefix: Sequence[int], suffix: Sequence[int]) -> list[list[int]]:
    """Cut a text's ids into windows that stay where they are when the text grows.

    Every window is prefix + slice + suffix with slices of max_tokens − len(prefix) − len(suffix) ids
    from the start. Law: all windows but the last of `fixed_windows(ids)` are windows of
    `fixed_windows(ids + more)`, at the same positions; so their factors can be cached by content.

    Args:
        ids: the text's ids *without* template.
        max_tokens: longest window, affixes included.
        prefix: put before every slice.
        suffix: put after every slice.

    Raises:
        InvalidInput: the affixes alone fill max_tokens.
    """
    room = max_tokens - len(prefix) - len(suffix)
    if room < 1:
        raise InvalidInput(
            f"Windows of {max_tokens} tokens leave no room beside {len(prefix)} prefix and "
            f"{len(suffix)} suffix tokens; ask for at least {len(prefix) + len(suffix) + 1}."
        )
    return [[*prefix, *piece, *suffix] for piece in _slices(ids, room)]


def _slices(ids: Sequence[int], size: int) -> list[list[int]]:
    return [list(ids[start : start + size]) for start in range(0, len(ids), size)]

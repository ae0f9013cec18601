"""Cuts a text into segments of a budget, and at its sentence ends. Knows texts and a token counter; no tokenizer.

Cuts are made where they hurt least: between paragraphs, else between sentences, else at a line break, else at
white space, else between characters. Laws, each held by a test:

- the spans of `segment(text)` are contiguous and cover the text exactly: joined in order they ARE the text;
- no span has more tokens than the budget, unless one character (with its combining marks) alone has more;
- a text of n characters costs O(n) characters of token counting: prefixes are never counted again as they
  grow.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from plume_memory.errors import InvalidInput

CountTokens = Callable[[str], int]


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


def segment(text: str, *, budget_tokens: int, count_tokens: CountTokens) -> list[Span]:
    """Cut `text` into spans of at most `budget_tokens` tokens that join to exactly the text.

    Whole paragraphs are packed greedily; a paragraph that is longer than the budget is packed sentence by
    sentence; a sentence that is longer starts a span of its own and is cut inside. The empty text has no
    span; a text of white space alone has spans like any other.

    Args:
        text: Any text.
        budget_tokens: Longest span, in tokens of `count_tokens`.
        count_tokens: Number of tokens of a text on its own, without special tokens.

    Raises:
        InvalidInput: If the budget is below 1.
    """
    if budget_tokens < 1:
        raise InvalidInput(f"budget_tokens must be at least 1, got {budget_tokens}.")
    spans: list[Span] = []
    pack: list[_Atom] = []
    packed_tokens = 0
    for atom in _atoms(text, budget_tokens, count_tokens):
        if pack and (atom.opens_span or packed_tokens + atom.tokens > budget_tokens):
            spans.extend(_close(text, pack, budget_tokens, count_tokens))
            pack, packed_tokens = [], 0
        pack.append(atom)
        packed_tokens += atom.tokens
    if pack:
        spans.extend(_close(text, pack, budget_tokens, count_tokens))
    return spans


def sentence_spans(text: str) -> list[Span]:
    """Cut `text` at its sentence ends; the spans join to exactly the text."""
    return [
        sentence
        for paragraph in _cut_behind(text, Span(0, len(text)), _PARAGRAPH_END.finditer(text))
        for sentence in _sentences(text, paragraph)
    ]


class _Atom(NamedTuple):
    """A piece that is packed whole."""

    start: int
    end: int
    tokens: int
    opens_span: bool
    """Whether nothing may be packed before it: the piece begins, or goes on inside, a cut sentence."""


# A paragraph ends behind its blank lines, so that the white space belongs to the paragraph before.
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*|\u2029\s*")
# Terminators that end a sentence without a space behind them, and those that need one. A run of these is read once:
# from its first mark, and nothing is given back. Else 20,000 dots without a space would be read 20,000 times.
_SENTENCE_END = re.compile(
    r"""[。！？｡︒]+[」』”’）)\]"']*\s*"""
    r"""|(?<![.!?…؟۔।॥։።])[.!?…؟۔।॥։።]++(?:["'”’“‘»«)\]]|[\u0020\u00a0\u202f]»(?=\s|$))*+\s+""",
)
_ABBREVIATION_LIST = """
    adj al approx apr aug ave bros ca capt cf co col corp dec dept dr e.g ed feb gen gov hon i.e inc jan jr jul jun lt
    ltd maj mar messrs mr mrs ms mt nov oct p.m a.m ph.d prof rep rev sen sep sept sgt sr st u.k u.n u.s univ viz vs
    z.b d.h u.a z.t bzw bzgl dipl evtl frl ggf hrsg inkl ing mio mrd sog vgl zzgl bd mme mlle p.ex
    dña dra p.ej sra sres exma exmo dott dott.ssa egr sig sig.ra bijv d.w.z dhr mevr o.a tzn ul bl.a t.ex
    Av EE Fr Hr Hrn MM
"""
"""Before a name, or in the midst of a sentence; in ten languages; with a capital letter, as it is written here."""
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
_SHORT = re.compile(r"[^\W\d_]{1,4}|\d\d?")
"""What a number goes on from: "tel. 555", "art. 4", "3. 5. 2026". Few sentences begin with one."""
_NUMBER = re.compile(r"\d|[IVX]{2,}\b")
_COUNTED = re.compile(r"\b(?:im|de[nmr]|die|vom|zum|beim)\s\d\d?$", re.IGNORECASE)
"""How German counts: "die 2. Sitzung", "im 19. Jahrhundert"."""
_MONTH = re.compile(r"(?:Jan|Feb|M[äa]r|Apr|Mai|Jun|Jul|Aug|Sep|O[kc]t|Nov|De[zc])[a-zä]*\b")
_DASH = re.compile(r"[—–][^\S\n]*")
_LAST_WORD = re.compile(r"[^\s(\[\"“‘']*$")
_WORD_REACH = 24  # characters looked back for an abbreviation


def _atoms(text: str, budget_tokens: int, count_tokens: CountTokens) -> Iterator[_Atom]:
    """Yield the pieces of the text in order, each within the budget: paragraph, sentence or part of one."""
    for paragraph in _cut_behind(text, Span(0, len(text)), _PARAGRAPH_END.finditer(text)):
        tokens = count_tokens(text[paragraph.start : paragraph.end])
        if tokens <= budget_tokens:
            yield _Atom(*paragraph, tokens, opens_span=False)
            continue
        for sentence in _sentences(text, paragraph):
            tokens = count_tokens(text[sentence.start : sentence.end])
            if tokens <= budget_tokens:
                yield _Atom(*sentence, tokens, opens_span=False)
            else:
                yield from _windows(text, sentence, budget_tokens, count_tokens)


def _cut_behind(text: str, whole: Span, ends: Iterator[re.Match[str]]) -> Iterator[Span]:
    """Yield the ranges between the ends of the matches."""
    start = whole.start
    for match in ends:
        if start < match.end() < whole.end:
            yield Span(start, match.end())
            start = match.end()
    if start < whole.end:
        yield Span(start, whole.end)


def _sentences(text: str, paragraph: Span) -> Iterator[Span]:
    matches = _SENTENCE_END.finditer(text, *paragraph)
    return _cut_behind(text, paragraph, (match for match in matches if _ends_sentence(text, match)))


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Tell a sentence's end from the dot of an abbreviation or initial, and from speech that goes on."""
    if match.group()[0] in "。！？｡︒":
        return True
    behind = match.end()
    if "\n" not in match.group() and (dash := _DASH.match(text, behind)):  # of who speaks; on a new line of an item
        behind = dash.end()
    if text[behind : behind + 1].islower():
        return False
    return match.group()[0] != "." or not _is_short(text, match)


def _is_short(text: str, match: re.Match[str]) -> bool:
    """Whether a dot ends an abbreviation, an initial or an ordinal number."""
    reach, end, behind = max(0, match.start() - _WORD_REACH), match.start(), match.end()
    found = _LAST_WORD.search(text, reach, end)
    written = found.group() if found else ""
    word = written.lower()
    if len(word) == 1 and word.isalpha():
        return True
    if _SHORT.fullmatch(word) and _NUMBER.match(text, behind):
        return True
    if word.isdecimal():
        return len(word) <= 2 and bool(_MONTH.match(text, behind) or _COUNTED.search(text, reach, end))
    return written in _ABBREVIATIONS or word in _ABBREVIATIONS


def _windows(text: str, sentence: Span, budget_tokens: int, count_tokens: CountTokens) -> Iterator[_Atom]:
    """Cut a sentence that is longer than the budget: at line breaks, white space, or characters.

    The window's width in characters follows the tokens per character seen so far, so that each character is
    counted a small, bounded number of times.
    """
    start, width = sentence.start, 4 * budget_tokens
    while start < sentence.end:
        while True:
            end = _window_end(text, start, min(start + width, sentence.end), sentence.end)
            tokens = count_tokens(text[start:end])
            if tokens <= budget_tokens or end <= _next_boundary(text, start + 1, sentence.end):
                break
            width = max(1, min((end - start) * budget_tokens // tokens, (end - start) * 3 // 4))
        yield _Atom(start, end, tokens, opens_span=True)
        per_token = (end - start) / max(tokens, 1)
        width = max(1, min(4 * width, int(per_token * budget_tokens)))
        start = end


def _window_end(text: str, start: int, limit: int, stop: int) -> int:
    """Find the last good place to cut in `text[start:limit]`: line break, white space, comma, character."""
    if limit >= stop:
        return stop
    half = start + (limit - start) // 2  # a cut in the first half would waste the budget
    line = text.rfind("\n", half, limit)
    if line > start:
        return line + 1
    for end in range(limit, start + 1, -1):
        if (text[end - 1].isspace() and not text[end].isspace()) or text[end - 1] in "、，；：":
            return end
    return _next_boundary(text, limit, stop) if limit == start + 1 else _boundary(text, start, limit, stop)


def _boundary(text: str, start: int, limit: int, stop: int) -> int:
    """Move `limit` back to the start of a character with its combining marks; forward if none is left."""
    end = limit
    while end > start and _continues(text, end):
        end -= 1
    return end if end > start else _next_boundary(text, limit, stop)


def _next_boundary(text: str, end: int, stop: int) -> int:
    while end < stop and _continues(text, end):
        end += 1
    return end


def _continues(text: str, index: int) -> bool:
    """Tell whether the character at `index` belongs to the one before: marks, joiners, emoji modifiers."""
    char = text[index]
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Mc"}:
        return True
    is_modifier = char == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff" or "\udc00" <= char <= "\udfff"
    return is_modifier or text[index - 1] == "\u200d"


def _close(text: str, pack: list[_Atom], budget_tokens: int, count_tokens: CountTokens) -> Iterator[Span]:
    """Yield the pack as one span, or as several when its tokens exceed the sum of its atoms' tokens.

    A tokenizer may need more tokens for a joined text than for its parts (a merge across the seam can break
    two better ones), so the sum that packed the atoms is checked once against the real count.
    """
    start, atoms = 0, len(pack)
    while start < atoms:
        end = atoms
        while end - start > 1 and count_tokens(text[pack[start].start : pack[end - 1].end]) > budget_tokens:
            end -= 1
        yield Span(pack[start].start, pack[end - 1].end)
        start = end

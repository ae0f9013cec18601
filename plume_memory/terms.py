"""What a text's words are to everything that compares texts by them."""

import re
import unicodedata

import regex
from snowballstemmer.english_stemmer import EnglishStemmer

_FUNCTION_WORD_LIST = """
    a an and are as at be been by can could did do does for from had has have he her him his how i in is it its many
    me much my of on or she that the their them they this to was we were what when where which who whom whose why
    will with would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())
"""Terms of a question that name nothing it could be about: a superseding unit may lack them."""

FIRST_PERSON = frozenset(["i", "me", "mine", "my", "myself", "our", "ours", "us", "we"])
"""Terms that stand for one another: a note in the first person is asked about in the first person."""
_NAMED_LIKE = frozenset(["can", "will"])
"""Those of them that are names too and so may be one where a sentence begins: "Will's badge is 118"."""

_METHOD_TERM = re.compile(r"[a-z0-9]+")
_TERM = regex.compile(
    r"""(?<![^\s(\[])[+\-\u2212]\p{N}+                           # a number with its sign
      | [\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*    # scripts that do not space their words
      | [\p{L}\p{N}][\p{L}\p{N}\p{M}]*(?:(?:\+\+?|\#|(?<=\b\p{Lu}{1,2})[\-\u2212])(?![\p{L}\p{N}]))?  # C++, C#, A+, AB-
      | \p{Sc} | \p{Regional_Indicator}{2} | \p{Extended_Pictographic}""",
    regex.VERBOSE,
)
_GRADED = re.compile(r"(?<!\+)[+\-\u2212]$")
_LOOKED_BACK = 8
"""Characters before a word that tell whether a sentence begins with it."""
_BEGINNING = regex.compile(r"(?:^|[.!?:;\n\"'\u201c\u2018\u00ab(\[*\-\u2013\u2014|>#])[ \t]*$")


def method_terms(text: str) -> list[str]:
    """METHOD's terms of a text, in order, repeated as they occur: `[a-z0-9]+` of the lowercased text."""
    return _METHOD_TERM.findall(text.lower())


def terms_of(text: str) -> list[str]:
    """Return the words of a text, whatever its script, in order, repeated as they occur.

    Composed (NFC) and without case, with their accents and signs: "C#" and "C++", "+5" and "-5", "A+" and "A-", "Jörg"
    and "Jürg" are eight. A Latin word with accents stands for itself without them too. Of a script without spaces each
    letter is one. A function word that is written as a name is no function word and keeps its capitals: "IT",
    "vitamin A", "ask Will".
    """
    text = unicodedata.normalize("NFC", text)
    shouted = text.isupper()
    found: list[str] = []
    for match in _TERM.finditer(text):
        written = match.group()
        term = written.casefold()
        if term in FUNCTION_WORDS and written != term and not shouted and term not in FIRST_PERSON:
            if len(written) > 1 and written.isupper():
                term = written
            elif term in _NAMED_LIKE:
                found.append(written)
            elif not _BEGINNING.search(text, max(0, match.start() - _LOOKED_BACK), match.start()):
                term = written
        found.append(term)
        if _GRADED.search(written):  # "Disney+" is asked for as "Disney" too
            found.append(term[:-1])
        if not term.isascii() and (plain := _without_accents(term)) is not None:
            found.append(plain)
    return found


def stem_of(term: str) -> str:
    """Return what the forms of an English word share (Snowball's stemmer): "camped" and "camping" are both "camp".

    A term with a sign, a digit, a capital or a letter beyond English stands for itself.
    """
    if not (term.isascii() and term.isalpha() and term.islower()):
        return term
    stem: str = EnglishStemmer().stemWord(term)  # one for each call: it keeps the word that it works on
    return stem


_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "\u2212": "-"})
"""Letters that do not decompose; and the sign of a negative number."""


def _without_accents(term: str) -> str | None:
    """A Latin word without its accents; None for other scripts, and where nothing else is left."""
    plain = "".join(char for char in unicodedata.normalize("NFD", term) if not unicodedata.combining(char))
    plain = plain.translate(_LETTERS)
    return plain if plain != term and plain.isascii() else None


_POSSESSOR = regex.compile(r"(\p{L}[\p{L}\p{M}]*)(?:['\u2019]s|(?<=s)['\u2019])(?=\s+\p{L})")


def speaks_of_me(text: str) -> bool:
    """Whether a text is in the first person."""
    return not FIRST_PERSON.isdisjoint(terms_of(text))


def possessors(text: str) -> set[str]:
    """Return the terms of whom something is said to be: "my" (for "our" too) and the wife of "my wife's name"."""
    found = {term for match in _POSSESSOR.finditer(text) for term in terms_of(match.group(1))}
    mine = {"my"} if {"my", "our"} & set(terms_of(text)) else set()
    return found - FUNCTION_WORDS - {"here", "let", "there"} | mine  # "she's a nurse"

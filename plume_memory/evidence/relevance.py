"""Whether a memory bears on a question: does the evidence make its words likelier? Knows no model, unit or setting.

The gain of a question by its evidence, in nats, is compared with a threshold. Short questions have little to gain
("What is my name?", told "My name is Juno Abara.": 4.8 nats), and general ones gain as much by any text; so half of
the threshold is enough where both name the same thing, or both speak in the first person. Share of questions that get
their evidence (SmolLM2-135M; own and general questions of bench/relevance.py, in part, and 32 notes of one sentence
with a question, most in the first person; `polite`: behind a sentence of courtesies):

                            own                       general
                      notes  plain  polite    notes  plain  polite
    5                  .88    1.0    .97       .05    .22    .59
    5, or half of it  1.0     1.0    1.0       .07    .26    .67    <- chosen
    6                  .84    .97    .97       .01    .11    .30
    6, or half of it  1.0     .97    1.0       .02    .15    .48
    7, or half of it   .97    .94    1.0       .00    .07    .33

Of the 373 questions of muse-mini two lose their evidence by the chosen rule (three more by 5 alone) and eight with 6,
four right answers among them (macro recall 31.9 for 32.4). Texts of no meaning in the place of no text, one or the
likeliest of four, told own from general no better; nor did content words alone.
"""

from collections.abc import Sequence

from plume_memory.evidence.terms import FUNCTION_WORDS, terms_of

NAMED = 0.5
"""Share of the threshold that is enough where the question and the evidence name the same."""

FIRST_PERSON = frozenset(["i", "me", "mine", "my", "myself", "our", "ours", "us", "we"])
"""Terms that stand for one another: a note in the first person is asked about in the first person."""


def gain_of(nothing: Sequence[float], behind: Sequence[float]) -> float:
    """Sum what tokens of a question gain by a text over no text, in nats; what others lose does not count.

    A question is asked in words that no note foretells ("could you please remind me of …"): their loss says nothing
    about the memory, and a mean over all tokens lets them hide the few that tell.

    Args:
        nothing: log p of each token of the question behind no text, in nats.
        behind: the same behind the evidence.
    """
    return sum(max(0.0, b - n) for n, b in zip(nothing, behind, strict=True))


def share_needed(question: str, evidence: str) -> float:
    """Return the share of the threshold that the gain must reach: `NAMED` or 1."""
    asked, told = set(terms_of(question)), set(terms_of(evidence))
    if (asked & told) - FUNCTION_WORDS:
        return NAMED
    return NAMED if asked & FIRST_PERSON and told & FIRST_PERSON else 1.0

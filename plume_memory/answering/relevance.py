"""Whether a memory bears on a question: does the evidence make its words likelier? Knows no model, unit or setting.

The gain of a question by a text, in nats, is what its tokens gain over no text, to who ranks the units: a trained
reranker, or the bare model. The best gain of an evidence's units is compared with a threshold. Half of it is enough
where both name the same thing, or both speak in the first person: short questions have little to gain. Share of
questions that get their evidence by the shipped network's reranker (SmolLM2-135M; 160 own and 213 general questions of
`bench/relevance.py`; `polite`: behind a sentence of courtesies):

                  own             general
            plain  polite     plain  polite
     5       1.0    1.0         .32    .59
     6       1.0    1.0         .24    .41
     7       1.0    1.0         .14    .30
     8       .99    .99         .08    .23    <- chosen
     9       .99    .99         .08    .15
    10       .99    .99         .04    .12
    12       .97    .98         .02    .07

The bare model, reading the whole evidence, at the threshold of 5 it had: 1.0, 1.0, .10 and .69; texts of no meaning in
the place of no text, one or the likeliest of four, told own from general no better; nor did content words alone.
"""

from collections.abc import Sequence

from plume_memory.segmentation.terms import FUNCTION_WORDS, terms_of

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

"""One question, several evidences: each has an answer, the surest one is given. Knows no unit and no memory.

Evidence that joins several texts holds the answer more often; evidence of the right text alone is answered from
more often. Which text is right is not known before, but what is said from it is surer, token by token:

    sureness of an answer = (1/T) Σ_{t ≤ T} log p(y_t),   T its tokens, at most `TRIAL_TOKENS`

with p the fused distribution (`TokenTrace.log_prob`). The first of the rivals is given unless another is surer by a
margin. One answer per text with the surest given is RAG-Sequence (Lewis et al. 2020); its weighing by the retriever,
here `head_starts`, made it worse with the bare model as the retriever, and better with a trained one (below).

Measured on SmolLM2-135M with evidence of three sentences and of each alone, recall on development questions of
`mini-squad` (48), `mini-multihop` (28), `mini-ropes` (25), one chain of updates (17), whose mean is last:

    all three as one evidence      0.41  0.48  0.55  0.49    0.48
    the likeliest sentence alone   0.37  0.19  0.45  0.47    0.37
    the surest, margin 0           0.47  0.56  0.48  0.45    0.49
                       0.1         0.50  0.55  0.57  0.55    0.54
                       0.2         0.52  0.55  0.59  0.55    0.55    <- chosen
                       0.3         0.50  0.55  0.59  0.49    0.53
    without all three as one       0.49  0.58  0.48  0.48    0.51

Two sentences can answer with the same sureness and not say the same: "... has reached 412 metres" of last month, and
"... the bit at 803 metres" of today. So the paper's rule for units is kept for what is said from them: of the answers
within `recency_margin` nats a token of the surest, the one whose evidence says it latest is given. An answer counts
only if it came to its end and a text of its evidence says it word for word (`ToldBy`), so the invented ones stay out;
and that text must bear on the question about as much as the one it replaces (`RECENCY_REACH`), so that "I live in Rome"
does not replace "I was born in Oslo". Recall, and stale answers of the changed questions, on development questions of
`mini-squad` (48), `mini-multihop` (28), `mini-ropes` (40) and all five steps of two chains (171), and on 132 of
`mini-squad` that chose nothing; and how many right answers of 28 pairs, of which the later does not retell the
earlier, are replaced (`bench/rivals.py` decodes, chooses and counts; these are its pairs):

                         mini-squad   mini-multihop  mini-ropes    two chains    the others    pairs
    no recency           0.49   0 %   0.55   0 %     0.54  44 %    0.38  40 %    0.40  4.5 %   0
    margin 0.2           0.49   0     0.55   0       0.54  44      0.43  30      0.41  2.3     2
    ... reach 0.6        0.49   0     0.55   0       0.54  44      0.43  30      0.40  2.3     1
        0.5              0.49   0     0.55   0       0.54  44      0.43  30      0.40  4.5     0    <- chosen
        0.3              0.49   0     0.55   0       0.54  44      0.42  35      0.40  4.5     0
    margin 0.1, any      0.49   0     0.55   0       0.54  44      0.41  30      0.41  2.3
           0.3, any      0.49   0     0.55   0       0.54  44      0.39  25      0.41  2.3

All of that with the bare model's ranking. With a trained reranker (training/reranking.py) the likeliest sentence is the
right one far more often (retrieval/supersede.py), and so what counts is to hear it: an adapter of one sentence is written
too faintly (`AnswerPolicy.alone_scale`), and its rank should count (`head_starts`), and whether its answer stands in
it (`told_weight`). Recall on development questions of `mini-squad` (60), `mini-multihop` (28) and `mini-ropes` (40),
and right answers to the 28 pairs that are no retellings and the 12 that are:

                                        mini-squad   mini-multihop   mini-ropes   pairs
    the bare model's ranking                0.44         0.55           0.54      22   8
    reranked, rules as above                0.44         0.56           0.52      23   9
    ... one sentence weighs 1.5             0.52         0.56           0.50      24  11
    ... margin 0.1                          0.53         0.58           0.54      24  11
    ... router's score at 0.5               0.58         0.63           0.56      25  11
    ... told at 0.1                         0.60         0.63           0.54      25  11    <- chosen
    the same, one sentence weighs 1         0.47         0.53           0.52      24   9
                                  2         0.58         0.65           0.52      26  11
    the likeliest alone, at 1.5             0.53         0.55           0.53      26  10

Where one sentence leads the others clearly it is the evidence, and no other is asked (`evidence.activation.leader_of`,
`AnswerPolicy.alone_lead`). Recall on 80 questions about texts of 8 invented facts and 40 of 4, half of the texts
corrected, on the sets as above, pairs, and the share of the 80 and of `mini-squad` that one answer was decoded for:

               8 facts  4 facts  mini-squad  mini-multihop  mini-ropes  pairs    one answer
    no lead      0.73     0.80      0.56         0.60          0.54     26  11     0    0 %
    lead 1.0     0.77     0.80      0.56         0.60          0.54     26  11    60   25
         0.7     0.82     0.80      0.57         0.60          0.53     26  11    76   42
         0.5     0.83     0.81      0.57         0.62          0.53     26  11    89   53    <- chosen
         0.3     0.83     0.79      0.56         0.60          0.50     27  10    94   75

This last table is of a reranker that reads every text behind a line break (`model.likelihood.text_head`); those above
are of before. Without it the chosen line stood at 0.81 0.79 0.60 0.66 0.54, and 25 and 11.

The model can also keep to what it believes: told "I live in Porto." and asked "Where do I live?", it says "The world is
your home.". Such an answer holds no word of its evidence. It is asked for again with the evidence weighing more, and
what comes then is given if it holds one (`Insistence`); but only where the evidence makes the question clearly likelier
(`ScoredUnit.gain`), as what was never told would be said louder too: in memories of six notes, asked 88 questions about
others, 22 got an answer of confidence 0.5 or more before and 26 after, where no gain was asked for; by evidence that
gains more than 9 nats none changed. Of the right answers that insisting brought, none is by one of less than 11. Right
answers to 107 notes of one sentence (`bench/notes_more.jsonl`), recall on the sets as above, and the share of these
that is asked again:

                      notes   4 facts  8 facts  mini-squad  mini-multihop  mini-ropes   asked again
    never              .85      0.79     0.85      0.59         0.62          0.53
    weight 2           .92      0.85     0.86      0.62         0.62          0.57       16  6  6  4  42 %
           3           .95      0.85     0.86      0.62         0.62          0.57
           4           .95      0.85     0.86      0.62         0.62          0.60
    3, gain of 10      .95      0.85     0.86      0.62         0.62          0.57       16  6  6  4  42     <- chosen
"""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from plume_memory.model.decode import Decoded, DecodeSettings, FusedDecoder, Query, Step, collect

TRIAL_TOKENS = 32
"""Tokens of an answer that count for its sureness: with 16 some choices of short answers change, with 40 none do."""

Decode = Callable[[Sequence[Query], DecodeSettings], Sequence[Decoded]]
"""(queries, settings) -> their answers, in the order given."""

RECENCY_REACH = 0.5
"""Nats by which what tells an answer later may make the question less likely than what tells the one it replaces."""


class Telling(NamedTuple):
    """A text of a rival's evidence that says its answer."""

    version: int
    """When it was told."""
    score: float
    """How likely it makes the question, exp of the mean log p of its tokens; above 0."""


class Insistence(NamedTuple):
    """What is done about an answer that took nothing from its evidence: the model kept to what it believes."""

    takes: Callable[[int, str], bool]
    """(index of a rival, whole words its answer begins with) -> whether it took something; once True, always."""
    louder: Callable[[int], Query]
    """Index of a rival -> the same question with more weight on the rival's evidence."""


ToldBy = Callable[[int, str], Telling | None]
"""(index of a rival, its whole answer) -> what of its evidence says so last; None where no text of it does."""


@dataclass(frozen=True, slots=True)
class Contest:
    """The rivals of one question."""

    rivals: tuple[Query, ...]
    """At least one; the first is the favourite."""
    margin: float = 0.0
    """Nats per token by which another must be better than the favourite."""
    told_by: ToldBy | None = None
    """Where a rival has its answer from; None: nobody knows."""
    recency_margin: float | None = None
    """Nats per token by which an answer that was said later may be less sure than the one it replaces; None: none is
    replaced."""
    told_weight: float = 0.0
    """Nats per token that an answer counts more if a text of its evidence says it."""
    head_starts: tuple[float, ...] = ()
    """Nats per token that count beside each rival's sureness, by what its evidence is worth; none if empty."""
    insistence: Insistence | None = None
    """None: what was answered first is given, whatever it says."""

    def winner(self, answers: Sequence[Decoded]) -> int:
        """Return the index of the rival whose answer is given; of equals the earlier, never one that says nothing."""
        sureness = [_sureness(one) for one in answers]
        told = {i: telling for i, one in enumerate(answers) if (telling := self._telling(i, one))}
        head_starts = self.head_starts or (0.0,) * len(answers)
        merits = [s + head_starts[i] + self.told_weight * (i in told) for i, s in enumerate(sureness)]
        most = max(range(len(merits)), key=lambda i: (merits[i], -i))
        best = most if merits[most] > merits[0] + self.margin else 0
        if self.recency_margin is None or best not in told:
            return best
        sure = [i for i in told if sureness[i] >= sureness[best] - self.recency_margin]
        later = [i for i in sure if _replaces(told[i], told[best])]
        return max(later, key=lambda i: (told[i].version, -i), default=best)

    def _telling(self, rival: int, answer: Decoded) -> Telling | None:
        whole = answer.finish_reason == "stop"
        return self.told_by(rival, answer.text) if self.told_by and whole else None


@dataclass(frozen=True, slots=True)
class Won:
    """What a question is answered."""

    rival: int
    """Index of the rival it comes from."""
    decoded: Decoded


def decode_contests(decode: Decode, contests: Sequence[Contest], settings: DecodeSettings) -> list[Won]:
    """Decode contests to their end: all rivals for a trial, the winners that had more to say, what is insisted on.

    A contest of one is decoded once. A winner that goes on starts again, so that its answer is the one it would
    give alone.

    Args:
        decode: called at most three times, with all queries at once.
        contests: any number.
        settings: the same for all; see `FusedDecoder.stream` for the errors.
    """
    trial = _trial(settings)
    rivals = [_rivals(contest, settings) for contest in contests]
    tried = [(c, query) for c, own in enumerate(rivals) if len(own) > 1 for query in own]
    answers: dict[int, list[Decoded]] = {}
    for (c, _), decoded in zip(tried, decode([query for _, query in tried], trial), strict=True):
        answers.setdefault(c, []).append(decoded)
    winners = [contest.winner(answers[c]) if c in answers else 0 for c, contest in enumerate(contests)]
    given = {c: own[winners[c]] for c, own in answers.items() if _is_whole(own[winners[c]], trial, settings)}
    rest = [c for c in range(len(contests)) if c not in given]
    given |= dict(zip(rest, decode([rivals[c][winners[c]] for c in rest], settings), strict=True))
    insisted = {
        c: own for c in range(len(contests)) if (own := _insistence(contests[c], winners[c], given[c], settings))
    }
    louder = decode([own.louder(winners[c]) for c, own in insisted.items()], settings) if insisted else []
    for (c, own), again in zip(insisted.items(), louder, strict=True):
        if own.takes(winners[c], again.text):
            given[c] = again
    return [Won(winner, given[c]) for c, winner in enumerate(winners)]


def stream_contest(
    decoder: FusedDecoder, contest: Contest, settings: DecodeSettings
) -> Generator[tuple[int, Step], None, None]:
    """Yield the steps of a contest's answer, each with the index of the rival it comes from.

    With several rivals the first step comes when the trial is over; where a contest insists, when the answer has taken
    something from its evidence, or at its end.
    """
    if contest.insistence is None or settings.grammar is not None:
        yield from _streamed(decoder, contest, settings)
        return
    held: list[tuple[int, Step]] = []
    with closing(_streamed(decoder, contest, settings)) as decoding:
        for rival, step in decoding:
            held.append((rival, step))
            if contest.insistence.takes(rival, _whole_words([one for _, one in held])):
                yield from held
                yield from decoding
                return
    rival, _ = held[-1]
    with closing(decoder.stream([contest.insistence.louder(rival)], settings)) as decoding:
        again = list(decoding)
    took = contest.insistence.takes(rival, _whole_words(again))
    yield from ((rival, step) for step in again) if took else held


def _streamed(
    decoder: FusedDecoder, contest: Contest, settings: DecodeSettings
) -> Generator[tuple[int, Step], None, None]:
    """The first answer, of the rival that wins."""
    trial = _trial(settings)
    rivals = _rivals(contest, settings)
    rival = 0
    if len(rivals) > 1:
        steps: list[list[Step]] = [[] for _ in rivals]
        with closing(decoder.stream(rivals, trial)) as decoding:
            for step in decoding:
                steps[step.query].append(step)
        answers = [collect(query, own) for query, own in zip(rivals, steps, strict=True)]
        rival = contest.winner(answers)
        if _is_whole(answers[rival], trial, settings):
            yield from ((rival, step) for step in steps[rival])
            return
    with closing(decoder.stream([rivals[rival]], settings)) as decoding:
        yield from ((rival, step) for step in decoding)


def _replaces(later: Telling, earlier: Telling) -> bool:
    within = later.score >= earlier.score * math.exp(-RECENCY_REACH)
    return later.version > earlier.version and within


def _sureness(answer: Decoded) -> float:
    """Mean log p of the tokens, in nats; nothing said is not sure of anything."""
    if not answer.text.strip():
        return -math.inf
    return sum(step.log_prob for step in answer.trace) / len(answer.trace)


def _insistence(contest: Contest, rival: int, answer: Decoded, settings: DecodeSettings) -> Insistence | None:
    """What to insist with, if the answer took nothing; a grammar leaves no choice of words."""
    own = contest.insistence if settings.grammar is None else None
    return own if own and not own.takes(rival, answer.text) else None


def _whole_words(steps: Sequence[Step]) -> str:
    """What was said so far, without the word that may go on."""
    text = "".join(step.text for step in steps)
    if steps[-1].finish_reason is not None:
        return text
    return text[: max((at for at, letter in enumerate(text, start=1) if letter.isspace()), default=0)]


def _rivals(contest: Contest, settings: DecodeSettings) -> tuple[Query, ...]:
    """Those that are tried: under a grammar the favourite alone, as p of a token that must come says nothing."""
    return contest.rivals if settings.grammar is None else contest.rivals[:1]


def _trial(settings: DecodeSettings) -> DecodeSettings:
    tokens = min(TRIAL_TOKENS, settings.max_new_tokens)
    return replace(settings, max_new_tokens=tokens, min_new_tokens=min(settings.min_new_tokens, tokens))


def _is_whole(decoded: Decoded, trial: DecodeSettings, settings: DecodeSettings) -> bool:
    """Whether an answer of the trial is all the rival would say: it was not cut by the trial's length."""
    cut = decoded.finish_reason == "length" and decoded.usage.completion_tokens == trial.max_new_tokens
    return not cut or trial.max_new_tokens == settings.max_new_tokens

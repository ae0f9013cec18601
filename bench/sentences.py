"""Which sentence of an update holds the answer, by rankers that need no training, and what evidence of so many gives.

    python bench/sentences.py [--dataset mini-squad] [--records 36] [--only hits|evidence|answers]
        [--router "sentences, 1"] [--steps 10 (chains)]

Candidates are the sentences of C_update; a hit says the current answer. `question` is log p(question | sentence) per
token (UPR, retrieval/reader.py), `asked to` the same behind an instruction to write a question, `answer` is
log p(sentence | question) − log p(sentence | any request) per token of the question: both directions estimate the
same mutual information. `lexical` is the router's own score. One JSON line per ranker, and one per sum of them.

Then, over the whole history, what evidence the routers choose: share of questions whose evidence holds the current
answer, of those that the update changed whose evidence holds the replaced one and not the current, and its words.

Then the ROUGE-L recall of answers from the evidence adapter alone (48 new tokens): of the first 1, 2, 3 sentences by
question + lexical, written as one text; of what the network's settings activate; of the gold evidence.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from eval.datasets.muse import CONTINUAL_STEPS, load
from eval.methods.decoding import Answerer
from eval.metrics.overlap import overlap, says
from eval.records import MuseQuestion, MuseTransition
from plume_memory.engine import Engine
from plume_memory.model.base import BaseModel
from plume_memory.model.decode import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.policy import AnswerPolicy
from plume_memory.records import Transition, Unit, join_units
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import question_likelihoods
from plume_memory.segmentation.units import statements_of

INSTRUCTION = "Passage: {}\nPlease write a question based on this passage."
ANY_REQUEST = "Tell me a fact."
SUMS = (
    ("lexical",),
    ("question",),
    ("asked to",),
    ("answer",),
    ("question", "lexical"),
    ("question", "answer"),
    ("question", "asked to", "lexical"),
    ("question", "asked to", "answer", "lexical"),
)
"""What is added up; a likelihood in the other direction counts half."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: scores of every candidate by ranker, and which candidates are hits."""

    scores: dict[str, torch.Tensor]
    hits: tuple[bool, ...]


def continuations(base: BaseModel, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """Sum of log p of the second ids behind the first."""
    found = []
    for before, ids in pairs:
        row = torch.tensor([before + ids], device=base.device)
        with torch.inference_mode():
            hidden = base.model.model(input_ids=row, use_cache=False).last_hidden_state[0, len(before) - 1 : -1]
            log_p = torch.log_softmax(base.logits(hidden).float(), dim=-1)
        found.append(float(log_p.gather(1, torch.tensor(ids, device=base.device)[:, None]).sum()))
    return found


def scored(base: BaseModel, question: str, sentences: Sequence[str]) -> dict[str, torch.Tensor]:
    """All rankers on one question."""
    encode, prompt = base.chat.encode, base.chat.prompt_ids
    asked = encode(question)
    told = [encode(sentence) for sentence in sentences]
    instructed = continuations(base, [(list(prompt(INSTRUCTION.format(s))), asked) for s in sentences])
    answering = continuations(base, [(list(prompt(question)), ids) for ids in told])
    anyway = continuations(base, [(list(prompt(ANY_REQUEST)), ids) for ids in told])
    index = UnitIndex([Unit(i, 1, 0, len(s), s) for i, s in enumerate(sentences)])
    return {
        "lexical": torch.tensor(index.score(question), dtype=torch.float32),
        "question": torch.tensor(question_likelihoods(base, sentences, question)),
        "asked to": torch.tensor(instructed) / len(asked),
        "answer": 0.5 * (torch.tensor(answering) - torch.tensor(anyway)) / len(asked),
    }


def sentences_of(transition: MuseTransition) -> list[str]:
    """The sentences of the newest text."""
    return statements_of(transition.texts[-1])


def hits(base: BaseModel, transitions: Sequence[MuseTransition]) -> None:
    """Print how often a sentence that says the answer comes first, or among the first two or three."""
    found = []
    for transition in transitions:
        sentences = sentences_of(transition)
        for q in transition.questions:
            right = tuple(says(sentence, q.answers) for sentence in sentences)
            found.append(Asked(scored(base, q.question, sentences), right))
    for names in SUMS:
        first = {k: 0 for k in (1, 2, 3)}
        for one in found:
            order = torch.stack([one.scores[name] for name in names]).sum(0).argsort(descending=True).tolist()
            for k in first:
                first[k] += any(one.hits[i] for i in order[:k])
        shares = {f"first_{k}": round(count / len(found), 3) for k, count in first.items()}
        print(json.dumps({"ranker": " + ".join(names), "questions": len(found), **shares}), flush=True)


ROUTERS = {
    "lexical, unit of 192 tokens": AnswerPolicy(delta=0.4, unit_tokens=192),
    "likelihood, 3 units of 48 tokens": AnswerPolicy(router="likelihood", unit_tokens=48, evidence_units=3),
    **{f"sentences, {k}": AnswerPolicy(router="sentences", unit_tokens=192, evidence_units=k) for k in (1, 2, 3, 4)},
}


def evidence(engine: Engine, transitions: Sequence[MuseTransition], routers: Sequence[str]) -> None:
    """Print what each router's evidence holds."""
    for name in routers:
        routing = engine.composed_with(ROUTERS[name])
        current: list[float] = []
        stale: list[float] = []
        words: list[float] = []
        for transition in transitions:
            told = tuple(Transition(number, text) for number, text in enumerate(transition.texts, start=1))
            index = UnitIndex(routing.segmenter.units(told))
            for q in transition.questions:
                text = join_units([one.unit for one in routing.activate(index, q.question)])
                current.append(says(text, q.answers))
                words.append(len(text.split()))
                if q.affected:
                    stale.append(says(text, q.old_answers) and not current[-1])
        found = {"current": current, "stale": stale, "words": words}
        shares = {what: round(sum(values) / max(1, len(values)), 3) for what, values in found.items()}
        routed = {"dataset": transitions[0].dataset, "router": name, "questions": len(current)}
        print(json.dumps({**routed, **shares}), flush=True)


def evidence_of(engine: Engine, transition: MuseTransition, q: MuseQuestion) -> dict[str, str]:
    """The texts to write for one question, by way."""
    sentences = sentences_of(transition)
    index = UnitIndex([Unit(i, 1, 0, len(s), s) for i, s in enumerate(sentences)])
    likelihoods = question_likelihoods(engine.base, sentences, q.question)
    score = torch.tensor(likelihoods) + torch.tensor(index.score(q.question))
    order = score.argsort(descending=True).tolist()
    texts = {f"{k} sentences": " ".join(sentences[i] for i in sorted(order[:k])) for k in (1, 2, 3)}
    units = UnitIndex(engine.segmenter.units((Transition(1, transition.texts[-1]),)))
    texts["activated"] = join_units([one.unit for one in engine.activate(units, q.question)])
    texts["gold"] = q.gold_evidence or transition.full
    return texts


def answers(engine: Engine, transitions: Sequence[MuseTransition]) -> None:
    """Print the recall of the evidence adapter alone, by what evidence is made of."""
    assert engine.parameterizer is not None, "a hypernetwork was loaded"
    asked = [(q, evidence_of(engine, t, q)) for t in transitions for q in t.questions]
    answerer = Answerer(engine.decoder, DecodeSettings(max_new_tokens=48), 8)
    for way in asked[0][1]:
        written = {text: engine.parameterizer.parameterize([text])[0] for text in {texts[way] for _, texts in asked}}
        rows = [Row(tuple(engine.base.chat.prompt_ids(q.question)), written[texts[way]]) for q, texts in asked]
        outputs = answerer.answer([Query(row) for row in rows])
        recalls = [overlap(o.text, q.answers).recall for o, (q, _) in zip(outputs, asked, strict=True)]
        mean = round(sum(recalls) / len(recalls), 3)
        print(json.dumps({"evidence": way, "questions": len(asked), "recall": mean}), flush=True)


def main() -> None:
    """Rank, count hits, answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="mini-squad")
    parser.add_argument("--records", type=int, default=36)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--only", choices=("hits", "evidence", "answers"))
    parser.add_argument("--router", action="append", choices=tuple(ROUTERS), help="of `evidence`; all when not given")
    parser.add_argument("--steps", type=int, nargs="*", default=CONTINUAL_STEPS, help="of chains")
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    transitions = load(given.dataset, limit=given.records, steps=tuple(given.steps))
    if given.only in (None, "hits"):
        hits(engine.base, transitions)
    if given.only in (None, "evidence"):
        evidence(engine, transitions, given.router or tuple(ROUTERS))
    if given.only in (None, "answers"):
        answers(engine, transitions)


if __name__ == "__main__":
    main()

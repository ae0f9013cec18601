"""Which sentence of an update holds the answer, by rankers that need no training: hits among the first 1, 2, 3.

    python bench/sentences.py [--dataset mini-squad] [--records 36]

Candidates are the sentences of C_update; a hit says the current answer. `question` is log p(question | sentence) per
token (UPR, model/likelihood.py), `asked to` the same behind an instruction to write a question, `answer` is
log p(sentence | question) − log p(sentence | any request) per token of the question: both directions estimate the
same mutual information. `lexical` is the router's own score. One JSON line per ranker, and one per sum of them.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from eval.datasets.muse import load
from eval.metrics.overlap import says
from plume_memory.evidence.route import UnitIndex
from plume_memory.evidence.segment import sentence_spans
from plume_memory.model.base import BaseModel
from plume_memory.model.likelihood import question_likelihoods
from plume_memory.records import Unit

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


def main() -> None:
    """Rank, count hits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="mini-squad")
    parser.add_argument("--records", type=int, default=36)
    given = parser.parse_args()
    base = BaseModel.load("smollm2-135m")
    found = []
    for transition in load(given.dataset, limit=given.records):
        text = transition.texts[-1]
        sentences = [s for s in (text[start:end].strip() for start, end in sentence_spans(text)) if s]
        for q in transition.questions:
            hits = tuple(says(sentence, q.answers) for sentence in sentences)
            found.append(Asked(scored(base, q.question, sentences), hits))
    for names in SUMS:
        first = {k: 0 for k in (1, 2, 3)}
        for one in found:
            order = torch.stack([one.scores[name] for name in names]).sum(0).argsort(descending=True).tolist()
            for k in first:
                first[k] += any(one.hits[i] for i in order[:k])
        shares = {f"first_{k}": round(count / len(found), 3) for k, count in first.items()}
        print(json.dumps({"ranker": " + ".join(names), "questions": len(found), **shares}), flush=True)


if __name__ == "__main__":
    main()

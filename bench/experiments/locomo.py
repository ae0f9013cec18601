"""Recall of the gold turns of LoCoMo conversations by parts of retrieval: what each of them is worth.

    python bench/experiments/locomo.py FILE [--hypernetwork shipped] [--conversations 2] [--questions 40]

`python -m eval conversations locomo` measures the memory as users have it, beside other stores; this ranks with a part
of retrieval left out. Conversations are read, drawn and told as there (eval/conversations/). Units are turned into
turns in their order, each once; the recall at k is the share of a question's gold turns among the first k turns. One
JSON line for each ranking, with 95 % intervals over questions. Data: LoCoMo (CC BY-NC 4.0, evaluation only), fetched by
hand.
"""

import argparse
import json
from pathlib import Path

from common import mean, say

from eval.caches import CountingCache
from eval.conversations.locomo import read_locomo
from eval.conversations.ours import Spans, turns_in, written
from eval.conversations.records import Conversation, drawn
from eval.conversations.scores import AT, ranks_of, recall_at
from eval.metrics.confidence import estimate
from plume_memory.answering.embedded import Embedded
from plume_memory.engine import Engine
from plume_memory.records import Context, Span, Transition
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import retrieve
from plume_memory.retrieval.supersede import retired
from plume_memory.segmentation.told import told_of


def told(conversation: Conversation) -> tuple[list[Transition], Spans]:
    """The sessions as updates, and where each turn stands."""
    transitions: list[Transition] = []
    spans = {}
    for number, session in enumerate(conversation.sessions, start=1):
        messages, spans[number] = written(session)
        text = json.dumps(messages, ensure_ascii=False)
        transitions.append(Transition(number, text, context=Context("chat", None, session.said_at)))
    return transitions, spans


def main() -> None:
    """Tell, rank, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="locomo10.json, gzipped or not")
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--conversations", type=int, default=2)
    parser.add_argument("--questions", type=int, default=40, help="of each conversation")
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    recalls: dict[str, dict[int, list[float]]] = {}
    for conversation in drawn(read_locomo(given.file), count=given.conversations, questions=given.questions, seed=0):
        transitions, spans = told(conversation)
        units = engine.segmenter.units(transitions)
        index, unstemmed = engine.index(units), UnitIndex(units)
        cache = CountingCache()
        own = told_of(transitions, units)
        near = Embedded(engine.embedding, cache, own)
        gone = retired(engine.superseding.found(own, engine.index(()), cache))
        say({"what": "locomo", "conversation": conversation.id, "units": len(units), "retired": len(gone)})
        for question in conversation.questions:
            if not question.gold:
                continue
            reader, asked = engine.reader.of(cache), question.question
            ranked = retrieve(
                index, asked, reader, engine.policy, k=len(index), near=near, judge=engine.judge, retired=gone
            )
            unjudged = retrieve(index, asked, reader, engine.policy, k=len(index), near=near)
            by_words = retrieve(index, asked, reader, engine.policy, k=len(index))
            read = [one for one in ranked if one.gain is not None]
            rankings = {
                "retrieve": ranked,
                "retrieve, nothing judged": unjudged,
                "retrieve, nothing judged, proposed by words alone": by_words,
                "the reader's score alone": sorted(read, key=lambda one: -one.score),
                "without what is superseded": [one for one in read if not one.superseded],
                "lexical": index.rank(asked, delta=0.0, k=len(index)),
                "lexical, without stems": unstemmed.rank(asked, delta=0.0, k=len(index)),
            }
            for name, some in rankings.items():
                places = [(one.unit.version, Span(one.unit.start, one.unit.end)) for one in some]
                ranks = ranks_of(question.gold, turns_in(places, spans)) or ()
                for k in AT:
                    recalls.setdefault(name, {}).setdefault(k, []).append(recall_at(ranks, k))
    for name, by_k in recalls.items():
        shares = {f"@{k}": [mean(values), *interval(values)] for k, values in by_k.items()}
        say({"what": "locomo", "ranking": name, "questions": len(by_k[1]), **shares})


def interval(values: list[float]) -> list[float]:
    """95 % bootstrap interval of a mean, over questions."""
    found = estimate({str(at): [value] for at, value in enumerate(values)})
    assert found is not None, "at least one question is asked"
    return [round(found.low, 3), round(found.high, 3)]


if __name__ == "__main__":
    main()

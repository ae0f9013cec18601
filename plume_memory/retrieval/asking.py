"""Which units only ask: they say nothing that could answer a question. Knows no model."""

from plume_memory.records import Unit
from plume_memory.segmentation.acts import SURE, acts_of
from plume_memory.segmentation.sentences import sentence_spans


def only_asks(unit: Unit) -> bool:
    """Whether a unit asks and says nothing beside it: a message may end with a question and say much before."""
    own = unit.words
    done = [acts_of(sentence) for start, end in sentence_spans(own) if (sentence := own[start:end]).strip()]
    return any(one.asks >= SURE for one in done) and all(one.says <= 1 - SURE for one in done)

"""Which units only ask: they say nothing that could answer a question. Knows no model."""

from plume_memory.records import Unit
from plume_memory.segmentation.sentences import sentence_spans
from plume_memory.terms import asks

_LEAST_SAID = 4
"""Words; "Thanks!" beside a question says nothing."""


def only_asks(unit: Unit) -> bool:
    """Whether a unit asks and says nothing beside it: a message may end with a question and say much before."""
    own = unit.words
    sentences = [own[start:end] for start, end in sentence_spans(own) if own[start:end].strip()]
    if len(sentences) < 2:
        return asks(own)
    asking = [asks(sentence) for sentence in sentences]
    return any(asking) and all(
        asked or len(sentence.split()) < _LEAST_SAID for asked, sentence in zip(asking, sentences, strict=True)
    )

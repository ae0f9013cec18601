"""Facts against what the model already believes, and whether louder layers help (amplitude boosting, arXiv 2604.23750).

    python bench/experiments/prior.py [--hypernetwork shipped] [--boosts 1 1.5 2] [--share 0.25]

Each fact below is one SmolLM2 may know, and a text that says otherwise. The prior is graded by the bare model: its
mean log-probability of the known value behind the statement's first words, and whether it answers so when asked.
The adapter of the text is then asked, with the layers of the largest ‖ΔW‖ (a share of them) multiplied; `control`
multiplies as many of the smallest instead; `product` is a memory that was told the text. Three thirds by prior, weak to
strong, and `believed`: all that the bare model answers with the known value. One JSON line per row, with 95 %
intervals over the facts.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from common import with_interval

from plume_memory.engine import Engine
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.memory import ParametricMemory
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.training.sources.matching import holds

FACTS = (
    ("What is the capital of {}?", "The capital of {} is", "France", "Paris", "Lyon"),
    ("What is the capital of {}?", "The capital of {} is", "Germany", "Berlin", "Leipzig"),
    ("What is the capital of {}?", "The capital of {} is", "Japan", "Tokyo", "Osaka"),
    ("What is the capital of {}?", "The capital of {} is", "Italy", "Rome", "Turin"),
    ("What is the capital of {}?", "The capital of {} is", "Spain", "Madrid", "Valencia"),
    ("What is the capital of {}?", "The capital of {} is", "Egypt", "Cairo", "Alexandria"),
    ("What is the capital of {}?", "The capital of {} is", "Russia", "Moscow", "Kazan"),
    ("What is the capital of {}?", "The capital of {} is", "Canada", "Ottawa", "Halifax"),
    ("What is the capital of {}?", "The capital of {} is", "Australia", "Canberra", "Perth"),
    ("What is the capital of {}?", "The capital of {} is", "Kenya", "Nairobi", "Mombasa"),
    ("What is the capital of {}?", "The capital of {} is", "Peru", "Lima", "Cusco"),
    ("What is the capital of {}?", "The capital of {} is", "Norway", "Oslo", "Bergen"),
    ("What is the capital of {}?", "The capital of {} is", "Portugal", "Lisbon", "Porto"),
    ("What is the capital of {}?", "The capital of {} is", "Greece", "Athens", "Patras"),
    ("What is the capital of {}?", "The capital of {} is", "Turkey", "Ankara", "Izmir"),
    ("Who wrote {}?", "The author of {} is", "Romeo and Juliet", "William Shakespeare", "Ben Jonson"),
    ("Who wrote {}?", "The author of {} is", "Pride and Prejudice", "Jane Austen", "Mary Shelley"),
    ("Who wrote {}?", "The author of {} is", "War and Peace", "Leo Tolstoy", "Anton Chekhov"),
    ("Who wrote {}?", "The author of {} is", "Oliver Twist", "Charles Dickens", "Thomas Hardy"),
    ("Who wrote {}?", "The author of {} is", "Moby-Dick", "Herman Melville", "Mark Twain"),
    ("Who wrote {}?", "The author of {} is", "The Odyssey", "Homer", "Virgil"),
    ("Who painted {}?", "The painter of {} is", "the Mona Lisa", "Leonardo da Vinci", "Raphael"),
    ("Who painted {}?", "The painter of {} is", "The Starry Night", "Vincent van Gogh", "Paul Gauguin"),
    ("Who painted {}?", "The painter of {} is", "Guernica", "Pablo Picasso", "Juan Gris"),
    ("Who discovered {}?", "The discoverer of {} is", "penicillin", "Alexander Fleming", "Louis Pasteur"),
    ("Who discovered {}?", "The discoverer of {} is", "radium", "Marie Curie", "Ernest Rutherford"),
    ("Who invented {}?", "The inventor of {} is", "the telephone", "Alexander Graham Bell", "Elisha Gray"),
    ("Who invented {}?", "The inventor of {} is", "the light bulb", "Thomas Edison", "Joseph Swan"),
    ("Who invented {}?", "The inventor of {} is", "the printing press", "Johannes Gutenberg", "Peter Schoeffer"),
    ("What is the chemical symbol of {}?", "The chemical symbol of {} is", "gold", "Au", "Qv"),
    ("What is the chemical symbol of {}?", "The chemical symbol of {} is", "iron", "Fe", "Zx"),
    ("What is the chemical symbol of {}?", "The chemical symbol of {} is", "sodium", "Na", "Jd"),
    ("What is the currency of {}?", "The currency of {} is", "Japan", "yen", "crown"),
    ("What is the currency of {}?", "The currency of {} is", "India", "rupee", "florin"),
    ("What is the currency of {}?", "The currency of {} is", "the United Kingdom", "pound", "thaler"),
    ("What language is spoken in {}?", "The language spoken in {} is", "Brazil", "Portuguese", "Finnish"),
    ("What language is spoken in {}?", "The language spoken in {} is", "Austria", "German", "Basque"),
    ("What language is spoken in {}?", "The language spoken in {} is", "Mexico", "Spanish", "Welsh"),
    ("What is the largest planet of {}?", "The largest planet of {} is", "the solar system", "Jupiter", "Mars"),
    ("What is the largest ocean on {}?", "The largest ocean on {} is", "Earth", "Pacific", "Arctic"),
    ("What is the tallest mountain on {}?", "The tallest mountain on {} is", "Earth", "Everest", "Kilimanjaro"),
    ("What is the longest river of {}?", "The longest river of {} is", "Africa", "Nile", "Volta"),
    ("How many legs does {} have?", "The number of legs of {} is", "a spider", "eight", "five"),
    ("How many sides does {} have?", "The number of sides of {} is", "a hexagon", "six", "nine"),
    ("How many days are in {}?", "The number of days in {} is", "a week", "seven", "four"),
    ("What is the colour of {}?", "The colour of {} is", "grass", "green", "violet"),
    ("What is the colour of {}?", "The colour of {} is", "a ripe banana", "yellow", "black"),
    ("What is the colour of {}?", "The colour of {} is", "snow", "white", "orange"),
)
"""(question, statement, subject, known value, new value)"""


@dataclass(frozen=True, slots=True)
class Graded:
    """One fact with the bare model's belief in it."""

    question: str
    text: str
    known: str
    new: str
    prior: float
    """Mean log-probability of the known value's tokens behind the statement."""
    believed: bool
    """Whether the bare model answers with the known value."""
    factors: LoraFactors


def graded(engine: Engine) -> list[Graded]:
    """Every fact, weakest prior first."""
    base = engine.base
    assert engine.parameterizer is not None, "a hypernetwork was loaded"
    asked = [q.format(subject) for q, _, subject, _, _ in FACTS]
    texts = [f"{s.format(subject)} {new}." for _, s, subject, _, new in FACTS]
    bare = ask(engine, asked, [None] * len(asked))
    factors = engine.parameterizer.parameterize(texts)
    found = []
    for i, (_, statement, subject, known, new) in enumerate(FACTS):
        head = base.chat.prompt_ids(asked[i]) + base.chat.encode(statement.format(subject))
        value = base.chat.encode(f" {known}")
        with torch.no_grad():
            logits = base.model(input_ids=torch.tensor([head + value], device=base.device), use_cache=False).logits[0]
        log_probs = logits[len(head) - 1 : -1].float().log_softmax(-1)
        prior = float(log_probs.gather(-1, torch.tensor(value, device=base.device)[:, None]).mean())
        found.append(Graded(asked[i], texts[i], known, new, prior, holds(bare[i], known), factors[i]))
    return sorted(found, key=lambda one: one.prior)


def ask(engine: Engine, questions: Sequence[str], factors: Sequence[LoraFactors | None]) -> list[str]:
    """Greedy answers of one stream."""
    rows = [
        Query(Row(tuple(engine.base.chat.prompt_ids(question)), own))
        for question, own in zip(questions, factors, strict=True)
    ]
    texts: list[str] = []
    for at in range(0, len(rows), 16):
        decoded = engine.scheduler.decode(rows[at : at + 16], DecodeSettings(max_new_tokens=32))
        texts += [one.text for one in decoded]
    return texts


def boosted(factors: LoraFactors, share: float, boost: float, *, largest: bool) -> LoraFactors:
    """Multiply ΔW of the layers with the largest (or smallest) ‖ΔW‖."""
    ((name, pair),) = factors.modules.items()
    A, B = pair.A.float(), pair.B.float()  # [L, r, F], [L, r, D]
    norms = ((A @ A.mT) * (B @ B.mT)).sum((1, 2)).clamp_min(0).sqrt()
    count = max(1, round(share * len(norms)))
    chosen = norms.topk(count, largest=largest).indices
    weights = torch.ones(len(norms))
    weights[chosen] = boost
    louder = Pair(pair.A, (B * weights[:, None, None]).to(pair.B.dtype))
    return LoraFactors({name: louder}, factors.layers, factors.scale)


def say(**row: object) -> None:
    """Print one measurement."""
    print(json.dumps(row), flush=True)


def main() -> None:
    """Grade, boost, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--boosts", type=float, nargs="+", default=[1.0, 1.5, 2.0, 3.0])
    parser.add_argument("--share", type=float, default=0.25)
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    facts = graded(engine)
    third = len(facts) // 3
    grades = {"weak": facts[:third], "middle": facts[third : 2 * third], "strong": facts[2 * third :]}
    grades["believed"] = [one for one in facts if one.believed]
    for boost in given.boosts:
        for largest in (True,) if boost == 1 else (True, False):
            for grade, some in grades.items():
                own = [boosted(one.factors, given.share, boost, largest=largest) for one in some]
                told = ask(engine, [one.question for one in some], own)
                count("all" if boost == 1 else ("largest" if largest else "control"), boost, grade, some, told)
    for grade, some in grades.items():
        count("product", 1.0, grade, some, [remembered(engine, one) for one in some])


def remembered(engine: Engine, fact: Graded) -> str:
    """What a memory that was told the text answers."""
    with tempfile.TemporaryDirectory() as folder:
        with ParametricMemory.open("prior", url=f"sqlite:///{folder}/prior.db", engine=engine) as memory:
            memory.update(fact.text)
            return memory.ask(fact.question, max_new_tokens=32).text


def count(layers: str, boost: float, grade: str, facts: Sequence[Graded], told: Sequence[str]) -> None:
    """Print how many of some answers say the new value, and how many the known one alone."""
    new = [holds(text, one.new) for text, one in zip(told, facts, strict=True)]
    old = [holds(text, one.known) and not n for text, one, n in zip(told, facts, new, strict=True)]
    places = range(len(facts))
    say(
        layers=layers,
        boost=boost,
        prior=grade,
        facts=len(facts),
        believed_before=round(sum(one.believed for one in facts) / len(facts), 3),
        mean_log_prior=round(sum(one.prior for one in facts) / len(facts), 2),
        **with_interval("says_new", [float(one) for one in new], places),
        **with_interval("says_old", [float(one) for one in old], places),
    )


if __name__ == "__main__":
    main()

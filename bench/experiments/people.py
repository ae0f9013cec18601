"""Who is who: the same told of six people, and a question about each.

    python bench/experiments/people.py [--hypernetwork shipped]

Eight texts, prose and lists, one memory each; nothing but a first name tells the sentences of one apart. `first`: the
likeliest sentence is about the right person; `right`: so is the answer, which holds the value as whole words. The texts
are in no training data; of what decides answers they chose how alike two statements of two subjects are
(`OVERLAP`). One JSON line per answer, then the shares.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator

from plume_memory.engine import Engine
from plume_memory.memory import ParametricMemory
from plume_memory.training.sources.matching import holds

PEOPLE = ("Alice", "Bob", "Carla", "David", "Emma", "Frank")
HOBBIES = ("chess", "golf", "judo", "yoga", "polo", "darts")
JOBS = ("nurse", "pilot", "baker", "lawyer", "painter", "farmer")
DAYS = ("3 May", "7 June", "9 July", "1 March", "12 April", "30 August")
CITIES = ("Bern", "Rome", "Oslo", "Lyon", "Cork", "Porto")
PHONES = ("555-1234", "555-9999", "555-4711", "555-8080", "555-2323", "555-6061")
DOGS = ("Rex", "Max", "Fido", "Luna", "Rocky", "Bella")
LIST = "## {name}\n- {label}: {value}\n- Hobby: {hobby}\n\n"

TOLD = (
    ("{name} is a {value}. ", "What is {name}'s job?", JOBS),
    ("{name} was born on {value}. ", "When is {name}'s birthday?", DAYS),
    ("{name} lives in {value}. ", "Where does {name} live?", CITIES),
    ("{name}'s phone number is {value}. ", "What is the phone number of {name}?", PHONES),
    ("{name} has a dog called {value}. ", "What is the name of {name}'s dog?", DOGS),
    (LIST.replace("{label}", "Job"), "What is {name}'s job?", JOBS),
    (LIST.replace("{label}", "Birthday"), "When is {name}'s birthday?", DAYS),
    (LIST.replace("{label}", "City"), "In which city does {name} live?", CITIES),
)


def histories() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(text, its questions with their answers)."""
    for told, question, values in TOLD:
        who = list(zip(PEOPLE, values, HOBBIES, strict=True))
        text = "".join(told.format(name=name, value=value, hobby=hobby) for name, value, hobby in who)
        yield text.strip(), [(question.format(name=name), value) for name, value, _ in who]


def main() -> None:
    """Tell, ask, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped")
    engine = Engine.load("smollm2-135m", hypernetwork=parser.parse_args().hypernetwork)
    first, right = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, (text, asked) in enumerate(histories()):
            with ParametricMemory.open(f"m{number}", url=f"sqlite:///{folder}/bench.db", engine=engine) as memory:
                memory.update(text)
                replies = memory.ask_many([question for question, _ in asked], max_new_tokens=48)
                ranked = [memory.route(question, k=1) for question, _ in asked]
            for (question, value), reply, found in zip(asked, replies, ranked, strict=True):
                first.append(holds(found[0].unit.text, value))
                right.append(holds(reply.text, value))
                said = {"question": question, "answer": value, "said": reply.text, "right": right[-1]}
                print(json.dumps({**said, "first": first[-1], "confidence": round(reply.confidence, 2)}), flush=True)
    shares = {"first": round(sum(first) / len(first), 4), "right": round(sum(right) / len(right), 4)}
    print(json.dumps({"what": "people", "questions": len(right), **shares}))


if __name__ == "__main__":
    main()

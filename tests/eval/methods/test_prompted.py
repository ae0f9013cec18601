"""What stands in the prompt."""

from collections.abc import Sequence

import pytest

from eval.methods.decoding import Answerer
from eval.methods.prompted import Prompted, Retrieved
from eval.methods.protocol import Method
from eval.records import MuseQuestion, MuseTransition
from plume_memory import AnswerPolicy
from plume_memory.answering.options import settings_of
from plume_memory.engine import Engine
from plume_memory.model.queries import Decoded, Query
from plume_memory.records import NOTICE, Usage
from plume_memory.testing import tiny_engine

TEXTS = ("Ann lives in Bern. The mill at Orn grinds rye. Bo sells lamps.", "Ann lives in Zug.")


class Reading(Answerer):
    """Answers nothing and keeps the prompts."""

    seen: list[str]

    def answer(self, queries: Sequence[Query]) -> list[Decoded]:
        texts = [engine.base.tokenizer.decode(query.global_row.prompt_ids) for query in queries]
        prompts.extend(text.split("user\n")[1].split("<|im_end|>")[0] for text in texts)
        return [Decoded("", "stop", Usage(1, 1), ()) for _ in queries]


prompts: list[str] = []
engine: Engine = tiny_engine(policy=AnswerPolicy(max_new_tokens=4))


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    prompts.clear()


def asked(method: Method, question: str) -> str:
    query = MuseQuestion(id="q", question=question, answers=("x",), old_answers=("x",), affected=False)
    method.prepare(MuseTransition("t", "d", 1, TEXTS, (query,))).answer([query])
    return prompts[-1]


def reading() -> Answerer:
    return Reading(engine.scheduler, settings_of(engine.policy, {}))


def test_nothing_everything_and_the_last_update() -> None:
    shown = {
        kind: asked(Prompted(engine.base, reading(), kind), "Where?")
        for kind in ("nothing", "everything", "last update")
    }  # type: ignore[arg-type]
    assert shown["nothing"] == "Where?"
    assert shown["everything"] == f"{TEXTS[0]}\n{NOTICE}\n{TEXTS[1]}\n\nWhere?"
    assert shown["last update"] == f"{TEXTS[1]}\n\nWhere?"


def test_the_gold_evidence_is_each_questions_own_and_the_history_where_there_is_none() -> None:
    method = Prompted(engine.base, reading(), "gold evidence")
    queries = [
        MuseQuestion(id="q", question="Where?", answers=("x",), old_answers=("x",), affected=False, gold_evidence=e)
        for e in ("Bo sells lamps.", "")
    ]
    method.prepare(MuseTransition("t", "d", 1, TEXTS, tuple(queries))).answer(queries)
    assert prompts == ["Bo sells lamps.\n\nWhere?", f"{TEXTS[0]}\n{NOTICE}\n{TEXTS[1]}\n\nWhere?"]


def test_retrieval_shows_the_best_passages_in_the_order_of_the_history() -> None:
    method = Retrieved(engine.base, reading(), lambda text: len(text.split()), passages=2, passage_tokens=6)
    assert asked(method, "Where does Ann live, at the mill?").startswith("The mill at Orn grinds rye.")
    assert asked(method, "Who sells lamps?").splitlines()[0] == "Bo sells lamps."


def test_equal_scores_prefer_the_later_passage() -> None:
    method = Retrieved(engine.base, reading(), lambda text: len(text.split()), passages=1, passage_tokens=6)
    assert asked(method, "Ann lives where?") == f"{NOTICE}\nAnn lives in Zug.\n\nAnn lives where?"


def test_the_notice_stands_once_where_a_later_text_begins() -> None:
    method = Retrieved(engine.base, reading(), lambda text: len(text.split()), passages=2, passage_tokens=6)
    assert asked(method, "Who sells lamps in Zug?").startswith(f"Bo sells lamps.\n{NOTICE}\nAnn lives in Zug.")


def test_a_prompt_too_long_keeps_its_ends() -> None:
    long = ("A" * 3000, "Z" * 3000)
    query = MuseQuestion(id="q", question="Where?", answers=("x",), old_answers=("x",), affected=False)
    answerer = Answerer(engine.scheduler, settings_of(engine.policy, {}))
    prepared = Prompted(engine.base, answerer, "everything").prepare(MuseTransition("t", "d", 1, long, (query,)))
    ids = prepared._fitted(engine.base.chat.prompt_ids(f"{long[0]}\n{long[1]}\n\nWhere?"))  # type: ignore[attr-defined]
    assert len(ids) == engine.base.context_window - 4
    text = engine.base.tokenizer.decode(ids)
    assert text.count("A") > 900
    assert text.count("Z") > 900
    assert "Where?" in text
    found = prepared.answer([query])[0]
    assert found.tokens >= 1
    assert found.detail is not None
    assert found.detail["tokens_cut"] > 3000

"""A model is asked until its object fits, at most so often, and every call is paid once."""

import json
from pathlib import Path

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage

from eval.build.journal import Journal
from eval.build.prompting import Asker, MalformedReply, Reply, model_identity, prompts_sha256, render


class Animal(Reply):
    name: str
    legs: int


GOOD = '{"name": "cat", "legs": 4}'


def an_asker(model: BaseChatModel, folder: Path, retries: int = 2) -> Asker:
    return Asker(model, "annotator", Journal(folder / "journal.jsonl"), retries=retries)


def test_values_are_put_into_prompts_as_they_are() -> None:
    prompt = render("evidence", question="${context} {x} $y %s", answers="$$", context="{'a': 1}")

    assert "${context} {x} $y %s" in prompt
    assert "\n$$\n" in prompt
    assert prompt.rstrip().endswith("{'a': 1}")


@pytest.mark.parametrize("reply", [GOOD, f"```json\n{GOOD}\n```", f"\n```\n{GOOD}\n```\n"])
def test_an_object_is_read_with_or_without_a_fence(reply: str, tmp_path: Path, scripted) -> None:
    assert an_asker(scripted(answer=lambda _: reply), tmp_path).ask("s", "stage", "prompt", Animal).legs == 4


@pytest.mark.parametrize(
    "reply", ["", "cat", f"Here: {GOOD}", '{"name": "cat"}', GOOD.replace("4", '"4"'), GOOD.replace("}", ', "x": 1}')]
)
def test_what_does_not_fit_is_complained_about_and_asked_again(reply: str, tmp_path: Path, scripted) -> None:
    replies = iter([reply, GOOD])
    model = scripted(answer=lambda _: next(replies))

    assert an_asker(model, tmp_path).ask("s", "stage", "prompt", Animal).name == "cat"
    first, second = model.asked
    assert first == ["prompt"]
    assert second[:2] == ["prompt", reply]
    assert "could not be used" in second[2]


@pytest.mark.parametrize("told", [{"finish_reason": "length"}, {"stop_reason": "max_tokens"}])
def test_a_reply_cut_at_the_limit_is_not_paid_for_again(told: dict[str, str], tmp_path: Path) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage(GOOD[:8], response_metadata=told)]))
    with pytest.raises(MalformedReply, match="cut at the model's limit of tokens; build with a larger --max-tokens"):
        an_asker(model, tmp_path).ask("s", "stage", "prompt", Animal)
    # nor after a kill: the journal knows that it was cut
    with pytest.raises(MalformedReply, match="cut at the model's limit"):
        an_asker(model, tmp_path).ask("s", "stage", "prompt", Animal)


def test_a_whole_reply_at_the_limit_is_used(tmp_path: Path) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage(GOOD, response_metadata={"finish_reason": "length"})]))
    assert an_asker(model, tmp_path).ask("s", "stage", "prompt", Animal).legs == 4


def test_a_complaint_of_the_caller_counts_like_a_wrong_form(tmp_path: Path, scripted) -> None:
    model = scripted(answer=lambda _: GOOD)
    asker = an_asker(model, tmp_path, retries=1)

    with pytest.raises(MalformedReply, match="too many legs") as caught:
        asker.ask("s", "stage", "prompt", Animal, lambda animal: ["too many legs"] if animal.legs > 2 else [])
    assert caught.value.stage == "stage"
    assert len(model.asked) == 2


def test_one_prompt_is_paid_once_even_by_another_process(tmp_path: Path, scripted) -> None:
    model = scripted(answer=lambda _: GOOD)
    an_asker(model, tmp_path).ask("s", "stage", "prompt", Animal)
    an_asker(model, tmp_path).ask("t", "stage", "prompt", Animal)
    assert len(model.asked) == 1

    other = scripted(answer=lambda _: GOOD, name_of_model="other")
    an_asker(other, tmp_path).ask("s", "stage", "prompt", Animal)
    assert len(other.asked) == 1


def test_an_error_of_the_service_is_not_a_reply(tmp_path: Path, scripted) -> None:
    def down(_: list[str]) -> str:
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        an_asker(scripted(answer=down), tmp_path).ask("s", "stage", "prompt", Animal)
    assert not (tmp_path / "journal.jsonl").exists()


def test_identity_is_stable_and_tells_models_apart(scripted) -> None:
    one, same, other = (scripted(answer=lambda _: "", name_of_model=name) for name in ("a", "a", "b"))

    assert model_identity(one) == model_identity(same) != model_identity(other)
    assert json.loads(model_identity(one))["parameters"] == {"model": "a"}


def test_prompts_have_an_identity() -> None:
    assert prompts_sha256() == prompts_sha256()
    assert len(prompts_sha256()) == 64

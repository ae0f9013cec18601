"""Context distillation: its loss against a literal form, its determinism, and what it really learns."""

import pytest
import torch

from plume_memory.distill import DistillationParameterizer, DistillSettings
from plume_memory.distill.examples import Example, fixed_answer, teacher_answers
from plume_memory.distill.questions import Question, keyword_questions, write_questions
from plume_memory.distill.train import _cross_entropy, _entering_states, train_factors
from plume_memory.errors import ParameterizerError
from plume_memory.lora.files import to_bytes
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler

QUICK = DistillSettings(
    written_questions=0,
    keyword_questions=2,
    replay=0,
    epochs=30,
    learning_rate=0.05,
    rank=4,
    lowest_layer=0.4,
)
TEXT = "The ferry leaves at nine. Its captain is Ola Venn."


def loss_of(base: BaseModel, example: Example, factors: object = None) -> float:
    """Mean cross-entropy of the answer by one plain forward pass."""
    ids = torch.tensor([example.prompt_ids + example.answer_ids])
    rows = stack_rows([factors], device=torch.device("cpu"), dtype=torch.float32) if factors else None  # type: ignore[list-item]
    with torch.no_grad(), attached(base.model, rows):
        logits = base.model(input_ids=ids).logits[0, len(example.prompt_ids) - 1 : -1]
    return float(torch.nn.functional.cross_entropy(logits, ids[0, len(example.prompt_ids) :]))


def test_distillation_lowers_the_loss_on_every_family(tiny: BaseModel) -> None:
    factors = DistillationParameterizer(tiny, QUICK).parameterize([TEXT])[0]

    example = fixed_answer(tiny, "What does the account say?", TEXT)
    assert loss_of(tiny, example, factors) < 0.75 * loss_of(tiny, example)


def test_the_same_text_and_seed_give_the_same_bytes(tiny_llama: BaseModel) -> None:
    settings = QUICK.model_copy(update={"epochs": 2})
    first, second = (DistillationParameterizer(tiny_llama, settings).parameterize([TEXT])[0] for _ in range(2))
    other = DistillationParameterizer(tiny_llama, settings.model_copy(update={"seed": 1})).parameterize([TEXT])[0]

    assert to_bytes(first) == to_bytes(second)
    assert to_bytes(first) != to_bytes(other)


def test_the_model_is_untouched_after_a_distillation(tiny: BaseModel) -> None:
    ids = torch.tensor([[9, 8, 7]])
    with torch.inference_mode():
        before = tiny.model(input_ids=ids).logits
        DistillationParameterizer(tiny, QUICK.model_copy(update={"epochs": 1})).parameterize([TEXT])
        after = tiny.model(input_ids=ids).logits

    assert torch.equal(before, after)


def test_states_that_enter_a_layer_are_the_models_own(tiny: BaseModel) -> None:
    example = fixed_answer(tiny, "Who?", "Ola Venn")
    ids = torch.tensor([example.prompt_ids + example.answer_ids[:-1]])
    with torch.no_grad():
        expected = tiny.model(input_ids=ids, output_hidden_states=True).hidden_states

    for layer in range(3):
        torch.testing.assert_close(_entering_states(tiny, [example], layer)[0], expected[layer][0], atol=1e-6, rtol=0)


def test_the_soft_loss_is_minus_sum_p_log_q_over_the_teachers_top_k() -> None:
    """Not renormalised, no tail (BASELINES §2.1)."""
    log_q = torch.randn(3, 7, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    soft = Example((1,), (4, 5), torch.tensor([[4, 0], [5, 6]]), torch.tensor([[0.6, 0.1], [0.5, 0.2]]))
    hard = Example((1,), (3,))

    found = float(_cross_entropy(log_q, [soft, hard]))

    expected = -(0.6 * log_q[0, 4] + 0.1 * log_q[0, 0] + 0.5 * log_q[1, 5] + 0.2 * log_q[1, 6] + log_q[2, 3])
    assert found == pytest.approx(float(expected), abs=1e-6)


def test_the_teacher_is_the_bare_models_greedy_answer_with_its_probabilities(tiny: BaseModel) -> None:
    [example] = teacher_answers(tiny, ["Context. Who?"], ["Who?"], max_tokens=5, top_k=3)

    prompt = torch.tensor([tiny.chat.prompt_ids("Context. Who?")])
    with torch.no_grad():
        first = tiny.model(input_ids=prompt).logits[0, -1].softmax(-1).topk(3)
    assert example.prompt_ids == tuple(tiny.chat.prompt_ids("Who?"))
    assert example.answer_ids[0] == int(first.indices[0])
    assert example.top_ids is not None
    assert example.top_probs is not None
    assert example.top_ids[0].tolist() == first.indices.tolist()
    torch.testing.assert_close(example.top_probs[0], first.values, atol=1e-5, rtol=1e-4)


def test_keyword_questions_are_seeded_and_keep_the_sentences_words() -> None:
    sentences = ["The ferry leaves the harbour at nine.", "和平码头"]

    asked = keyword_questions(sentences, per_sentence=3, seed=4)

    assert asked == keyword_questions(sentences, per_sentence=3, seed=4)
    assert {q.sentence for q in asked} == set(sentences)
    words = {"ferry", "leaves", "harbour", "nine"}
    assert all(words & set(q.text.rstrip("?").split()) for q in asked if q.sentence == sentences[0])


@pytest.mark.parametrize("text", ["x", "?!", "和平码头在九点开船。", "42"])
def test_a_text_without_any_question_is_still_learnt(tiny_llama: BaseModel, text: str) -> None:
    factors = DistillationParameterizer(tiny_llama, QUICK).parameterize([text])[0]

    example = fixed_answer(tiny_llama, "What does the account say?", text)
    assert loss_of(tiny_llama, example, factors) < loss_of(tiny_llama, example)


def test_an_empty_text_is_refused(tiny_llama: BaseModel) -> None:
    with pytest.raises(ParameterizerError, match="empty text"):
        DistillationParameterizer(tiny_llama).parameterize(["  \n"])


def test_the_fingerprint_follows_the_settings(tiny_llama: BaseModel) -> None:
    ours, paper = DistillSettings(), DistillSettings.paper()

    prints = {DistillationParameterizer(tiny_llama, s).fingerprint for s in (ours, paper, ours)}

    assert len(prints) == 2


def test_the_papers_settings_train_on_the_teacher(tiny_llama: BaseModel) -> None:
    """The CD oracle: the test query alone, the bare model with the text as teacher; no replay, all layers."""

    def oracle(_base: BaseModel, sentences: list[str]) -> list[Question]:
        return [Question("Who is the captain?", sentences[0])]

    settings = DistillSettings.paper().model_copy(update={"epochs": 40, "learning_rate": 0.02, "teacher_tokens": 6})
    factors = DistillationParameterizer(tiny_llama, settings, questions=oracle).parameterize([TEXT])[0]

    [teacher] = teacher_answers(
        tiny_llama, [f"{TEXT}\n\nWho is the captain?"], ["Who is the captain?"], max_tokens=6, top_k=16
    )
    assert factors.scale == 2.0
    assert factors.layers == (0, 1, 2)
    assert loss_of(tiny_llama, teacher, factors) < loss_of(tiny_llama, teacher)


def test_progress_counts_every_step(tiny_llama: BaseModel) -> None:
    seen: list[tuple[int, int]] = []
    examples = [fixed_answer(tiny_llama, f"q{i}", "a") for i in range(5)]
    settings = DistillSettings(epochs=2, batch=2, stop_loss=0.0)

    train_factors(tiny_llama, examples, settings, progress=lambda _what, done, steps: seen.append((done, steps)))

    assert seen == [(i, 6) for i in range(1, 7)] + [(6, 6)]


PASSAGE = (
    "The Quillon Bridge spans the river Tarse at Ombry. It was designed by Maren Holt and opened in 1911. "
    "The deck is 214 metres long and carries two tram lines. Its stone came from the quarry at Fell Ness. "
    "In 1960 the old gas lamps were replaced by blue lanterns, which a retired teacher, Anselm Reed, still "
    "lights by hand on the first night of spring. A toll of three pence was charged until 1938. The bridge "
    "keeper lives in the north tower with a flock of white doves. Every June the town of Ombry closes the "
    "bridge to traffic and holds its rope-pulling contest there."
)
EXAM = (
    ("Who designed the Quillon Bridge?", "Maren Holt"),
    ("In what year did the bridge open?", "1911"),
    ("How long is the deck?", "214"),
    ("Where did the stone come from?", "Fell Ness"),
    ("What replaced the gas lamps?", "blue lanterns"),
    ("Who lights the lanterns?", "Anselm Reed"),
    ("How much was the toll?", "three pence"),
    ("What contest is held on the bridge?", "rope-pulling"),
)


@pytest.mark.model
@pytest.mark.slow
def test_smollm2_answers_questions_about_a_100_word_passage_from_its_weights(smollm2: BaseModel) -> None:
    """None of these questions is trained on; without the adapter the model knows none of the answers."""
    factors = DistillationParameterizer(smollm2).parameterize([PASSAGE])[0]
    prompts = [tuple(smollm2.chat.prompt_ids(question)) for question, _ in EXAM]
    decoder, settings = Scheduler(smollm2), DecodeSettings(max_new_tokens=48)

    with_memory = decoder.decode([Query(Row(prompt, factors)) for prompt in prompts], settings)
    without = decoder.decode([Query(Row(prompt)) for prompt in prompts], settings)

    right = sum(key in answer.text for answer, (_, key) in zip(with_memory, EXAM, strict=True))
    guessed = sum(key in answer.text for answer, (_, key) in zip(without, EXAM, strict=True))
    assert guessed <= 1
    assert right >= 5


@pytest.mark.model
def test_written_questions_point_to_their_own_sentence(smollm2: BaseModel) -> None:
    sentences = ["The Quillon Bridge was designed by Maren Holt.", "The toll was three pence until 1938."]

    written = write_questions(smollm2, sentences, per_sentence=8)

    assert {question.sentence for question in written} == set(sentences)
    assert all(question.text.endswith("?") for question in written)

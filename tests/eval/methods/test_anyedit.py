"""AnyEdit: its search against the full pass, its closed form against the direct solve, and the model untouched."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from eval.methods.anyedit import AnyEdit, AnyEditSettings
from eval.methods.anyedit.nullspace import LayerNullSpace, NullSpace, measure
from eval.methods.anyedit.passes import MODULE, Upper, run_lower
from eval.methods.anyedit.request import QUESTION, EditRequest, Window
from eval.methods.anyedit.spread import solve, spread
from eval.methods.anyedit.targets import find_targets, window_nll
from eval.methods.decoding import Answerer
from eval.records import MuseQuestion, MuseTransition
from plume_memory.errors import InvalidInput, PromptTooLong, UnknownArchitecture
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler
from plume_memory.testing import tiny_base

CPU = torch.device("cpu")
SETTINGS = AnyEditSettings(layers=(1, 2), window=6, steps=6, background_tokens=300, null_threshold=2.0)
"""The threshold cuts a tiny model's 64 key directions about in half."""
BACKGROUND = ["The sea is wide and the boats are small. " * 4, "Rivers run down to it from the hills. " * 5]
TEXT = "Ola Venn steers it."


@pytest.fixture(scope="module", params=["llama", "qwen3", "mistral"])
def base(request: pytest.FixtureRequest) -> BaseModel:
    """Every family that can be edited; four layers, so that one lies above the edited ones. Mistral's window is 24."""
    return tiny_base(request.param, layers=4)


@pytest.fixture(scope="module")
def llama() -> BaseModel:
    return tiny_base("llama", layers=4)


def full_nll(base: BaseModel, request: EditRequest, window: Window, shifts: dict[int, Tensor], layer: int) -> Tensor:
    """The window's NLL by one plain forward pass with vectors added to a layer's output."""

    def add(_module: object, _inputs: object, output: Tensor) -> Tensor:
        rows = [output[:, at] + shifts[at] if at in shifts else output[:, at] for at in range(output.shape[1])]
        return torch.stack(rows, dim=1)

    asked = len(request.question_ids)
    ids = torch.tensor([request.ids[: asked + window.end - 1]])
    handle = base.model.model.layers[layer].register_forward_hook(add)
    try:
        logits = base.model(input_ids=ids).logits[0, window.lookup :]
    finally:
        handle.remove()
    return torch.nn.functional.cross_entropy(logits, torch.tensor(request.answer_ids[window.start : window.end]))


@pytest.mark.parametrize("last", [1, 3])
@pytest.mark.parametrize("overlap", [0, 2])
def test_a_windows_loss_and_gradient_are_those_of_the_full_pass(base: BaseModel, last: int, overlap: int) -> None:
    request = EditRequest.recalling(base, TEXT)
    windows = request.windows(6, overlap)
    stream = run_lower(base, request.ids[:-1], last=last).stream
    upper = Upper(base, stream, last)
    chance = torch.Generator().manual_seed(0)
    shifts: dict[int, Tensor] = {}
    for window in windows:
        upper.advance(window.lookup, shifts.get(upper.at))
        shift = (3 * torch.randn(stream.shape[1], generator=chance)).requires_grad_()
        found = window_nll(base, upper, request, window, shift)
        expected = full_nll(base, request, window, shifts | {window.lookup: shift}, last)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)
        gradients = [torch.autograd.grad(loss, shift)[0] for loss in (found, expected)]
        torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-3)
        shifts[window.lookup] = shift.detach()
    assert len(shifts) >= 3


def test_windows_cover_the_answer_and_are_predicted_from_the_token_before() -> None:
    request = EditRequest((1, 2, 3), tuple(range(10, 21)))

    assert request.windows(5, 0) == (Window(0, 5, 2), Window(5, 10, 7), Window(10, 11, 12))
    assert request.windows(5, 2) == (Window(0, 5, 2), Window(3, 8, 5), Window(6, 11, 8))
    assert request.windows(50, 0) == (Window(0, 11, 2),)


def test_the_request_is_question_and_text_joined_as_ids(llama: BaseModel) -> None:
    request = EditRequest.recalling(llama, f" {TEXT}\n")

    assert request.question_ids == tuple(llama.chat.prompt_ids(QUESTION))
    assert request.answer_ids == (*llama.chat.encode(TEXT), llama.tokenizer.eos_token_id)


def test_target_values_lower_the_loss_and_stay_within_the_clamp(base: BaseModel) -> None:
    settings = SETTINGS.model_copy(update={"clamp": 0.2, "steps": 10})
    request = EditRequest.recalling(base, TEXT)

    targets = find_targets(base, request, settings)

    stream = run_lower(base, request.ids, last=2).stream[[w.lookup for w in targets.windows]]
    ratio = (targets.values - stream).norm(dim=1) / stream.norm(dim=1)
    assert torch.all(ratio <= 0.2 + 1e-5)
    assert torch.any(ratio > 0.199)
    assert sum(targets.nll_after) < 0.97 * sum(targets.nll_before)


def test_one_step_only_measures(llama: BaseModel) -> None:
    """The last evaluation takes no step: 25 steps are 24 updates."""
    request = EditRequest.recalling(llama, TEXT)

    targets = find_targets(llama, request, SETTINGS.model_copy(update={"steps": 1}))

    stream = run_lower(llama, request.ids, last=2).stream[[w.lookup for w in targets.windows]]
    assert torch.equal(targets.values, stream)
    assert targets.nll_before == targets.nll_after


def test_a_window_that_is_said_already_is_left_alone(llama: BaseModel) -> None:
    request = EditRequest.recalling(llama, TEXT)

    targets = find_targets(llama, request, SETTINGS.model_copy(update={"stop_loss": 100.0}))

    assert targets.nll_before == targets.nll_after


def test_the_closed_form_equals_the_direct_solve_and_stays_in_the_null_space() -> None:
    """float64: (P K Kᵀ + λ₂ I) X = P K S, f × f, against the n × n push-through form."""
    chance = torch.Generator().manual_seed(1)
    keys = torch.randn(9, 30, generator=chance, dtype=torch.float64)
    residual = torch.randn(2, 7, generator=chance, dtype=torch.float64)
    basis, _ = torch.linalg.qr(torch.randn(30, 30, generator=chance, dtype=torch.float64))
    null_space = LayerNullSpace(basis[:, :12], torch.zeros(30))
    lookup = [3, 8]

    A = solve(keys, lookup, null_space, 10.0)

    P = torch.eye(30, dtype=torch.float64) - basis[:, :12] @ basis[:, :12].T
    S = torch.zeros(9, 7, dtype=torch.float64)
    S[lookup] = residual
    K = keys.T
    direct = torch.linalg.solve(P @ K @ K.T + 10.0 * torch.eye(30, dtype=torch.float64), P @ K @ S)
    X = A.T @ residual
    torch.testing.assert_close(X, direct, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(P @ X, X, atol=1e-12, rtol=1e-9)


def edit(base: BaseModel, settings: AnyEditSettings) -> tuple[EditRequest, LoraFactors, NullSpace]:
    request = EditRequest.recalling(base, TEXT)
    null_space = measure(base, settings, BACKGROUND)
    targets = find_targets(base, request, settings)
    return request, spread(base, request, targets, null_space, settings), null_space


def logits_of(base: BaseModel, ids: tuple[int, ...], factors: LoraFactors | None = None) -> Tensor:
    rows = stack_rows([factors], device=CPU, dtype=torch.float32)
    with torch.no_grad(), attached(base.model, rows):
        return base.model(input_ids=torch.tensor([ids])).logits


def test_the_factors_are_the_edit_of_really_edited_weights(base: BaseModel) -> None:
    """An independent slow form: weights edited in place, layer by layer, each by the f × f solve."""
    request, factors, null_space = edit(base, SETTINGS)
    targets = find_targets(base, request, SETTINGS)
    lookup = [w.lookup for w in targets.windows]
    assert factors.rank == len(lookup)
    layers = base.model.model.layers
    kept = {i: layers[i].mlp.down_proj.weight.clone() for i in (1, 2)}
    try:
        for i, layer in enumerate((1, 2)):
            passed = run_lower(base, request.ids, last=2, keys_of=(layer,))
            K = passed.keys[layer].double().T
            U = null_space.of(layer).significant.double()
            P = torch.eye(64, dtype=torch.float64) - U @ U.T
            S = torch.zeros(K.shape[1], 32, dtype=torch.float64)
            S[lookup] = ((targets.values - passed.stream[lookup]) / (2 - i)).double()
            X = torch.linalg.solve(P @ K @ K.T + 10.0 * torch.eye(64, dtype=torch.float64), P @ K @ S)
            layers[layer].mlp.down_proj.weight += X.T.float()
            torch.testing.assert_close(factors.delta(MODULE, layer), X.T.float(), atol=1e-4, rtol=1e-3)
        expected = logits_of(base, request.ids)
    finally:
        for i, weight in kept.items():
            layers[i].mlp.down_proj.weight.copy_(weight)

    torch.testing.assert_close(logits_of(base, request.ids, factors), expected, atol=2e-3, rtol=1e-3)
    assert (logits_of(base, request.ids) - expected).abs().max() > 0.1  # the edit does something


def test_the_model_is_bit_identical_after_an_edit_and_its_answers(base: BaseModel) -> None:
    before = logits_of(base, (9, 8, 7, 6))
    method = build(base)

    method.prepare(transition()).answer(questions())

    assert torch.equal(logits_of(base, (9, 8, 7, 6)), before)
    assert not any("forward" in layer.__dict__ for layer in base.model.model.layers)


def test_an_edit_makes_the_text_likelier_without_a_null_space_in_the_way(llama: BaseModel) -> None:
    settings = SETTINGS.model_copy(update={"null_threshold": 1e6, "l2": 0.01, "steps": 20})
    request, factors, null_space = edit(llama, settings)
    asked = len(request.question_ids)
    labels = torch.tensor(request.answer_ids)

    def nll(logits: Tensor) -> float:
        return float(torch.nn.functional.cross_entropy(logits[0, asked - 1 : -1], labels))

    assert null_space.of(1).null_dims == 64
    assert nll(logits_of(llama, request.ids, factors)) < 0.9 * nll(logits_of(llama, request.ids))


def transition(text: str = TEXT) -> MuseTransition:
    return MuseTransition("one", "mini", 1, ("The ferry is new.", text), questions())


def questions() -> tuple[MuseQuestion, ...]:
    texts = ("Who steers it?", "What is new, and since when?", "Who?")
    return tuple(
        MuseQuestion(id=str(i), question=text, answers=("x",), old_answers=("x",), affected=False)
        for i, text in enumerate(texts)
    )


def build(base: BaseModel, settings: AnyEditSettings = SETTINGS, **options: object) -> AnyEdit:
    answerer = Answerer(Scheduler(base), DecodeSettings(max_new_tokens=6), 2)
    return AnyEdit.build(base, answerer, settings, background=BACKGROUND, **options)  # type: ignore[arg-type]


def test_the_method_answers_every_question_with_the_edit_attached(llama: BaseModel) -> None:
    prepared = build(llama).prepare(transition())

    replies = prepared.answer(questions())

    decoder = Scheduler(llama)
    rows = [Row(tuple(llama.chat.prompt_ids(q.question)), prepared.factors) for q in questions()]
    expected = [decoder.decode([Query(row)], DecodeSettings(max_new_tokens=6))[0].text for row in rows]
    assert [r.text for r in replies] == expected
    assert all(r.detail is not None and r.detail["windows"] == prepared.factors.rank for r in replies)


def test_the_same_history_gives_the_same_factors(llama: BaseModel) -> None:
    method = build(llama)
    first, second = (method.prepare(transition()).factors for _ in range(2))

    for one, other in zip(first.modules[MODULE], second.modules[MODULE], strict=True):
        assert torch.equal(one, other)


def test_the_settings_of_a_row_name_everything_the_answers_depend_on(llama: BaseModel) -> None:
    settings = build(llama).settings

    assert settings["layers"] == [1, 2]
    assert settings["question"] == QUESTION
    assert settings["max_new_tokens"] == 6
    assert len(settings["background_sha256"]) == 64
    assert len(settings["null_dims"]) == 2


def test_defaults_are_the_papers() -> None:
    paper = AnyEditSettings()

    assert (paper.layers, paper.window, paper.overlap, paper.steps) == ((4, 5, 6, 7, 8), 50, 0, 25)
    assert (paper.learning_rate, paper.weight_decay, paper.clamp, paper.l2) == (0.5, 1e-3, 4.0, 10.0)
    assert (paper.null_threshold, paper.stop_loss) == (2e-2, 1e-2)
    assert AnyEditSettings.positive_control() == AnyEditSettings(window=10, l2=1.0)


def test_a_model_without_the_layers_is_refused_with_both_ranges(llama: BaseModel) -> None:
    with pytest.raises(InvalidInput, match=r"layers \(4, 5, 6, 7, 8\).*layers 0 to 3"):
        build(llama, AnyEditSettings())


def test_gemma_2_is_refused_with_the_reason() -> None:
    with pytest.raises(UnknownArchitecture, match=r"gemma2.*normalises what down_proj puts out"):
        build(tiny_base("gemma2"))


def test_a_history_longer_than_the_window_is_refused(llama: BaseModel) -> None:
    with pytest.raises(PromptTooLong, match="at most 2048"):
        build(llama).prepare(transition("words " * 400))


@pytest.mark.parametrize("wrong", [{"layers": (2, 1)}, {"layers": (1, 1)}, {"layers": ()}, {"overlap": 50}, {"l2": 0}])
def test_settings_that_do_not_hang_together_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AnyEditSettings(**wrong)  # type: ignore[arg-type]


def test_a_null_space_of_other_settings_is_refused(llama: BaseModel) -> None:
    null_space = measure(llama, SETTINGS, BACKGROUND)
    answerer = Answerer(Scheduler(llama), DecodeSettings())

    with pytest.raises(InvalidInput, match="measure it anew"):
        AnyEdit(llama, answerer, null_space, SETTINGS.model_copy(update={"null_threshold": 0.5}))


@pytest.mark.model
def test_positive_control_the_edited_smollm2_says_the_text(smollm2: BaseModel, tmp_path: Path) -> None:
    """BASELINES §1.5, window 10 and λ₂ = 1: the answer's NLL falls below half of what it was.

    Measured 3.1 → 0.7. It takes a text whose lookup tokens are words: a full stop has hardly any key energy
    on this model (kᵀPk 0.1 instead of 10 to 60), and a window that hangs on one is not written.
    """
    text = (
        "The lighthouse of Bodo stands on the northern coast of Norway. It was built in 1902 and its lamp can be "
        "seen from a distance of twenty kilometres. The keeper, an old sailor called Henrik, cleans the glass every "
        "morning and writes the weather into a book. In winter the sun does not rise for several weeks."
    )
    settings = AnyEditSettings.positive_control().model_copy(update={"background_tokens": 2_000})
    answerer = Answerer(Scheduler(smollm2), DecodeSettings(max_new_tokens=32))
    method = AnyEdit.build(smollm2, answerer, settings, cache=tmp_path)
    record = MuseTransition("lighthouse", "mini", 0, (text,), questions())

    prepared = method.prepare(record)

    request = EditRequest.recalling(smollm2, text)
    labels = torch.tensor(request.answer_ids)
    rows = stack_rows([prepared.factors], device=CPU, dtype=smollm2.dtype)
    found = []
    for adapters in (None, rows):
        with torch.no_grad(), attached(smollm2.model, adapters):
            logits = smollm2.model(input_ids=torch.tensor([request.ids])).logits[0, len(request.question_ids) - 1 : -1]
        found.append(float(torch.nn.functional.cross_entropy(logits.float(), labels)))
    assert found[1] < 0.5 * found[0]

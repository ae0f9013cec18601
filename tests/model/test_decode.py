"""Fused decoding against a plain slow reference: two separate full forward passes, no cache, float32."""

from collections.abc import Sequence

import pytest
import torch

from plume_memory.errors import FactorsError, InvalidInput, PromptTooLong
from plume_memory.lora.algebra import scaled
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import Decoded, DecodeSettings, Query
from plume_memory.model.reading import compile_states
from plume_memory.model.repetition import repeated
from plume_memory.model.states import States
from plume_memory.model.streams import GRAPHS, Row, RunningRows
from plume_memory.scheduling import Scheduler
from plume_memory.testing import random_factors, tiny_base

QUESTIONS = (
    "Where does Alice live?",
    "Hi",
    "Which of the three ferries leaves the old harbour first, and when?",
)
SETTINGS = DecodeSettings(max_new_tokens=20)


def merged_logits(base: BaseModel, ids: Sequence[int], factors: LoraFactors | None) -> torch.Tensor:
    """Last-token logits with ΔW merged into a copy of the weights; nothing of our runtime is used."""
    saved = {}
    try:
        for layer in factors.layers if factors else ():
            weight = base.model.model.layers[layer].mlp.down_proj.weight
            saved[layer] = weight.data.clone()
            weight.data += factors.delta("mlp.down_proj", layer)
        with torch.no_grad():
            return base.model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, -1]
    finally:
        for layer, weight in saved.items():
            base.model.model.layers[layer].mlp.down_proj.weight.data.copy_(weight)  # in place: others may hold it


def slow_reference(
    base: BaseModel,
    prompt: Sequence[int],
    g: LoraFactors | None,
    e: LoraFactors | None,
    settings: DecodeSettings,
) -> list[int]:
    ids = list(prompt)
    made: list[int] = []
    while len(made) < settings.max_new_tokens:
        log_g = merged_logits(base, ids, g).double().log_softmax(-1)
        log_e = merged_logits(base, ids, e).double().log_softmax(-1)
        m = ((log_g.exp() + log_e.exp()) / 2).log()
        js = 0.5 * (log_g.exp() * (log_g - m)).sum() + 0.5 * (log_e.exp() * (log_e - m)).sum()
        weight = settings.lambda_max * js / (js + settings.tau)
        token = int((log_g + weight * log_e).argmax())
        made.append(token)
        if token in base.stop_ids:
            break
        ids.append(token)
    return made


def queries(base: BaseModel) -> list[Query]:
    made = []
    for seed, question in enumerate(QUESTIONS):
        prompt = tuple(base.chat.prompt_ids(question))
        g = random_factors(base, rank=3 + seed, seed=seed)
        e = random_factors(base, rank=6 - seed, seed=10 + seed)
        made.append(Query(Row(prompt, g), Row(prompt, e)))
    return made


def ids(decoded: Decoded) -> list[int]:
    return [token.token_id for token in decoded.trace]


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_fused_decode_is_token_identical_to_the_slow_reference(tiny: BaseModel, fixed_shapes: bool) -> None:
    asked = queries(tiny)

    decoded = Scheduler(tiny, fixed_shapes=fixed_shapes).decode(asked, SETTINGS)

    for query, answer in zip(asked, decoded, strict=True):
        assert query.evidence_row is not None
        expected = slow_reference(
            tiny, query.global_row.prompt_ids, query.global_row.factors, query.evidence_row.factors, SETTINGS
        )
        assert ids(answer) == expected


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_a_batch_of_one_equals_a_batch_of_many(tiny: BaseModel, fixed_shapes: bool) -> None:
    decoder = Scheduler(tiny, fixed_shapes=fixed_shapes)

    together = decoder.decode(queries(tiny), SETTINGS)
    alone = [decoder.decode([query], SETTINGS)[0] for query in queries(tiny)]

    assert [ids(answer) for answer in together] == [ids(answer) for answer in alone]


def test_row_i_does_not_depend_on_row_js_adapter(tiny: BaseModel) -> None:
    first, second, third = queries(tiny)
    loud = random_factors(tiny, rank=8, seed=99, size=5.0)
    other = Query(Row(second.global_row.prompt_ids, loud), Row(second.global_row.prompt_ids, loud))

    before = Scheduler(tiny).decode([first, second, third], SETTINGS)
    after = Scheduler(tiny).decode([first, other, third], SETTINGS)

    assert ids(before[0]) == ids(after[0])
    assert ids(before[2]) == ids(after[2])
    assert ids(before[1]) != ids(after[1])


def probe(base: BaseModel) -> torch.Tensor:
    with torch.no_grad():
        return base.model(input_ids=torch.tensor([base.chat.prompt_ids("Who?")])).logits


def test_base_logits_are_bit_identical_after_a_read(tiny: BaseModel) -> None:
    before = probe(tiny)

    Scheduler(tiny).decode(queries(tiny), SETTINGS)

    assert torch.equal(before, probe(tiny))


def test_base_logits_are_bit_identical_after_a_decode_that_raised_midway(tiny_llama: BaseModel) -> None:
    """An adapter for a deeper model raises in the middle of attaching, when some hooks already sit."""
    before = probe(tiny_llama)
    deeper = random_factors(tiny_base("llama", layers=5))

    with pytest.raises(FactorsError, match="layer 3"):
        Scheduler(tiny_llama).decode([Query(Row((5, 6), deeper))], SETTINGS)

    assert torch.equal(before, probe(tiny_llama))


def test_base_logits_are_bit_identical_after_an_abandoned_stream(tiny_llama: BaseModel) -> None:
    before = probe(tiny_llama)
    stream = Scheduler(tiny_llama).stream(queries(tiny_llama), SETTINGS)
    next(stream)

    assert torch.equal(before, probe(tiny_llama)), "no adapter stays attached between two steps"
    stream.close()
    assert torch.equal(before, probe(tiny_llama))


def test_two_interleaved_streams_do_not_disturb_each_other(tiny_llama: BaseModel) -> None:
    decoder = Scheduler(tiny_llama)
    first, second, _ = queries(tiny_llama)
    alone = [ids(decoder.decode([q], SETTINGS)[0]) for q in (first, second)]

    a, b = decoder.stream([first], SETTINGS), decoder.stream([second], SETTINGS)
    woven: tuple[list[int], list[int]] = ([], [])
    for step_a, step_b in zip(a, b, strict=False):
        woven[0].append(step_a.trace.token_id)
        woven[1].append(step_b.trace.token_id)

    shortest = min(map(len, alone))
    assert [w[:shortest] for w in woven] == [a[:shortest] for a in alone]


def test_buffers_of_fixed_shape_never_carry_one_batchs_adapter_into_another(tiny_llama: BaseModel) -> None:
    """Same rows, slots and rank, but other layers adapted."""
    whole = random_factors(tiny_llama, rank=4, seed=1)
    first_layer = LoraFactors({n: Pair(p.A[:1], p.B[:1]) for n, p in whole.modules.items()}, (0,))
    prompt = tuple(tiny_llama.chat.prompt_ids("Who?"))
    fixed, eager = (Scheduler(tiny_llama, fixed_shapes=shapes) for shapes in (True, False))

    for factors in (whole, first_layer, whole):
        query = Query(Row(prompt, factors), Row(prompt, factors))
        assert ids(fixed.decode([query], SETTINGS)[0]) == ids(eager.decode([query], SETTINGS)[0])


def test_few_shapes_stay_captured(tiny_llama: BaseModel) -> None:
    rows = RunningRows(tiny_llama, fixed=True)
    for rank in range(1, 160, 16):
        numbers, _ = rows.admit([Row((5, 6), random_factors(tiny_llama, rank=rank))])
        rows.step(dict.fromkeys(numbers, 7))
        rows.leave(numbers)

    assert len(rows._graphs) == GRAPHS


def test_streamed_text_equals_the_decoded_text(tiny: BaseModel) -> None:
    decoder = Scheduler(tiny)
    pieces: list[str] = ["", "", ""]
    for step in decoder.stream(queries(tiny), SETTINGS):
        pieces[step.query] += step.text

    assert pieces == [answer.text for answer in decoder.decode(queries(tiny), SETTINGS)]


def test_without_evidence_the_answer_is_the_global_streams_greedy_answer(tiny: BaseModel) -> None:
    query = queries(tiny)[0]

    answer = Scheduler(tiny).decode([Query(query.global_row)], SETTINGS)[0]

    factors = query.global_row.factors
    assert ids(answer) == slow_reference(tiny, query.global_row.prompt_ids, factors, factors, SETTINGS)
    assert {token.weight for token in answer.trace} == {0.0}


def test_a_stop_string_split_over_tokens_ends_the_answer_before_it(tiny_llama: BaseModel) -> None:
    query = queries(tiny_llama)[0]
    free = Scheduler(tiny_llama).decode([query], SETTINGS)[0]
    stop = free.text[5:9]

    stopped = Scheduler(tiny_llama).decode([query], DecodeSettings(max_new_tokens=20, stop=(stop,)))[0]

    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.finish_reason == "stop"


def test_a_stop_id_ends_the_answer_before_it(tiny_llama: BaseModel) -> None:
    query = queries(tiny_llama)[0]
    free = Scheduler(tiny_llama).decode([query], SETTINGS)[0]
    stop = ids(free)[3]

    settings = DecodeSettings(max_new_tokens=20, stop_ids=frozenset({stop}))
    stopped = Scheduler(tiny_llama).decode([query], settings)[0]

    assert ids(stopped) == ids(free)[: ids(free).index(stop) + 1]
    assert free.text.startswith(stopped.text)
    assert stopped.finish_reason == "stop"


def test_max_new_tokens_ends_the_answer_with_length(tiny_llama: BaseModel) -> None:
    answer = Scheduler(tiny_llama).decode([queries(tiny_llama)[0]], DecodeSettings(max_new_tokens=3))[0]

    assert answer.finish_reason == "length"
    assert answer.usage.completion_tokens == len(answer.trace) == 3


def test_an_answer_that_goes_round_in_a_circle_ends() -> None:
    """Greedy decoding never leaves a loop. Factors a hundred times too strong make a tiny model say one token."""
    base = tiny_base("qwen3")
    row = queries(base)[0].global_row
    assert isinstance(row.factors, LoraFactors)
    decoder, query = Scheduler(base), Query(Row(row.prompt_ids, scaled(row.factors, 100)))
    forced = DecodeSettings(max_new_tokens=160, min_new_tokens=160)
    said = ids(decoder.decode([query], forced)[0])
    first = next(n for n in range(len(said)) if repeated(said[:n]))
    assert len(said) == 160, "asked for so many, it goes on"

    settings = DecodeSettings(max_new_tokens=160, min_new_tokens=10)
    answer = decoder.decode([query], settings)[0]
    streamed = list(decoder.stream([query], settings))

    assert ids(answer) == said[:first]
    assert answer.finish_reason == "length"
    assert "".join(step.text for step in streamed) == answer.text


def test_the_trace_keeps_candidates_of_both_streams_on_request(tiny_llama: BaseModel) -> None:
    query = queries(tiny_llama)[0]

    answer = Scheduler(tiny_llama).decode([query], DecodeSettings(max_new_tokens=2, top_candidates=4))[0]

    logits = merged_logits(tiny_llama, query.global_row.prompt_ids, query.global_row.factors)
    best = logits.log_softmax(-1).topk(4)
    first = answer.trace[0]
    assert [c.token_id for c in first.global_top] == best.indices.tolist()
    assert [c.log_prob for c in first.global_top] == pytest.approx(best.values.tolist(), abs=1e-4)
    assert len(first.evidence_top) == 4


@pytest.mark.parametrize("lambda_max", [0.0, 1.0, 10.0])
def test_the_trace_says_how_likely_both_streams_held_the_token(tiny_llama: BaseModel, lambda_max: float) -> None:
    """Against the streams' whole distributions: p_g · p_e^λ, at the temperature of one stream."""
    whole = tiny_llama.model.config.vocab_size
    settings = DecodeSettings(max_new_tokens=3, top_candidates=whole, lambda_max=lambda_max)

    answer = Scheduler(tiny_llama).decode([queries(tiny_llama)[0]], settings)[0]

    for token in answer.trace:
        log_g = torch.tensor([c.log_prob for c in sorted(token.global_top, key=lambda c: c.token_id)])
        log_e = torch.tensor([c.log_prob for c in sorted(token.evidence_top, key=lambda c: c.token_id)])
        pooled = ((log_g + token.weight * log_e) / (1 + token.weight)).log_softmax(-1)
        assert token.log_prob == pytest.approx(float(pooled[token.token_id]), abs=1e-4)
        assert token.token_id == int(pooled.argmax())


def test_a_prompt_beyond_the_window_is_refused(tiny_llama: BaseModel) -> None:
    with pytest.raises(PromptTooLong, match="reads at most 2048"):
        Scheduler(tiny_llama).decode([Query(Row(tuple([7] * 2048)))], SETTINGS)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="max_new_tokens"):
        DecodeSettings(max_new_tokens=0)
    with pytest.raises(InvalidInput, match="stop string"):
        DecodeSettings(stop=("",))


def test_compiled_evidence_equals_the_text_in_front_of_the_query(tiny: BaseModel) -> None:
    """Logits agree to 1e-4 in float32, and rows of one batch may have states of different length."""
    prefixes = [tuple(tiny.chat.encode(text)) for text in ("Alice moved to Zurich.", "No.", "x" * 60)]
    question = tuple(tiny.chat.prompt_ids("Where does Alice live?"))
    compiled = [compile_states(tiny, [list(prefix)])[0] for prefix in prefixes]
    plain = tuple(tiny.chat.prompt_ids("Hello"))
    asked = [Query(Row(plain), Row(question, states=prefix)) for prefix in compiled]
    settings = DecodeSettings(max_new_tokens=4, top_candidates=len(tiny.tokenizer))

    for fixed_shapes in (False, True):
        decoded = Scheduler(tiny, fixed_shapes=fixed_shapes).decode(asked, settings)
        for prefix, answer in zip(prefixes, decoded, strict=True):
            for made, token in enumerate(answer.trace):
                ids_so_far = (*prefix, *question, *[t.token_id for t in answer.trace[:made]])
                expected = merged_logits(tiny, ids_so_far, None).log_softmax(-1)
                found = torch.empty_like(expected)
                for candidate in token.evidence_top:
                    found[candidate.token_id] = candidate.log_prob
                torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_compiled_states_survive_their_file(tiny_llama: BaseModel) -> None:
    prefix = compile_states(tiny_llama, [[4, 5, 6]])[0]

    again = States.from_bytes(prefix.to_bytes())

    assert torch.equal(again.keys, prefix.keys)
    assert torch.equal(again.values, prefix.values)
    with pytest.raises(FactorsError, match="Not compiled states"):
        States.from_bytes(b"nonsense")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_captured_graphs_are_token_identical_to_eager_on_cuda() -> None:
    for family in ("llama", "qwen3", "gemma2", "mistral"):
        base = tiny_base(family)
        base.model.to("cuda")
        eager = Scheduler(base, fixed_shapes=False).decode(queries(base), SETTINGS)
        graphs = Scheduler(base, fixed_shapes=True)
        for _ in range(2):  # the second decode replays the captured graph on loaded buffers
            assert [ids(a) for a in graphs.decode(queries(base), SETTINGS)] == [ids(a) for a in eager]


def test_no_stop_id_ends_an_answer_before_min_new_tokens(tiny_llama: BaseModel) -> None:
    query = queries(tiny_llama)[0]
    free = Scheduler(tiny_llama).decode([query], SETTINGS)[0]
    stops = frozenset({ids(free)[3]})

    settings = DecodeSettings(max_new_tokens=20, min_new_tokens=10, stop_ids=stops)
    longer = Scheduler(tiny_llama).decode([query], settings)[0]

    assert ids(longer)[:3] == ids(free)[:3]
    assert not stops & set(ids(longer)[:10])
    assert longer.usage.completion_tokens > 10


def test_min_new_tokens_beyond_the_budget_is_refused() -> None:
    with pytest.raises(InvalidInput, match="between 0 and max_new_tokens"):
        DecodeSettings(max_new_tokens=4, min_new_tokens=5)

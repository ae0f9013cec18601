"""The student: what it reports of each exchange, and where gradients go."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from transformers import DynamicCache

from plume_memory import AnswerPolicy, Engine
from plume_memory.engine import Evidence
from plume_memory.model.adapters import AdapterRows, attached, stack_rows
from plume_memory.model.reading import compile_states
from plume_memory.model.streams import Row, RunningRows
from plume_memory.records import Unit
from plume_memory.testing import HashParameterizer, random_factors, tiny_base
from plume_memory.training.items import Item, ItemWriter
from plume_memory.training.packing import pack
from plume_memory.training.samples import Ask
from plume_memory.training.student import exact_items, item_means, target_logits, token_losses

CPU = torch.device("cpu")
ROWS = ((Item((40, 41), (90, 91, 2), "answer"), Item((50,), (60, 2), "answer")), (Item((70, 71, 72), (72,), "kept"),))


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_each_row_answers_through_its_own_adapter(family: str) -> None:
    """Against weights merged by hand."""
    base = tiny_base(family)
    head = base.chat.prefix_ids()
    packed = pack(ROWS, head, device=CPU, dtype=torch.float32)
    factors = [random_factors(base, seed=1), random_factors(base, seed=2)]
    with torch.no_grad():
        found = target_logits(base, packed, stack_rows(factors, device=CPU, dtype=torch.float32))
    for row, adapter in enumerate(factors):
        merged = tiny_base(family)
        with torch.no_grad():
            for layer in adapter.layers:
                merged.model.model.layers[layer].mlp.down_proj.weight += adapter.delta("mlp.down_proj", layer)
            for item in ROWS[row]:
                n = packed.items.index(item)
                ids = torch.tensor([[*head, *item.prompt_ids, *item.target_ids[:-1]]])
                expected = merged.model(input_ids=ids).logits[0, -len(item.target_ids) :]
                torch.testing.assert_close(found[packed.item == n], expected, atol=5e-4, rtol=1e-3)


def test_gradients_flow_into_the_adapter_alone() -> None:
    base = tiny_base("llama")
    packed = pack(ROWS, base.chat.prefix_ids(), device=CPU, dtype=torch.float32)
    A, B = torch.randn(64, 4, requires_grad=True), torch.zeros(2, 4, 32, requires_grad=True)
    logits = target_logits(base, packed, AdapterRows({(1, "mlp.down_proj"): (A, B)}, 2, 4))
    token_losses(logits, packed).sum().backward()  # type: ignore[no-untyped-call]

    assert B.grad is not None
    assert B.grad.abs().amax((1, 2)).gt(0).all()
    assert all(p.grad is None for p in base.model.parameters())


def test_means_and_exactness_are_by_exchange() -> None:
    packed = pack(ROWS, [1], device=CPU, dtype=torch.float32)
    logits = torch.full((6, 100), -5.0)
    logits[torch.arange(6), packed.targets] = 5.0
    logits[1, 3] = 9.0  # the second token of the first exchange is another's

    assert exact_items(logits, packed).tolist() == [False, True, True]
    means = item_means(torch.tensor([1.0, 2, 6, 4, 8, 5]), packed)
    assert means.tolist() == [3.0, 6.0, 5.0]


def test_words_around_an_answer_count_for_less_and_not_for_exactness() -> None:
    rows = ((Item((40,), (90, 91, 92, 2), "answer", answer=(1, 3)), Item((50,), (60, 2), "answer")),)
    packed = pack(rows, [1], device=CPU, dtype=torch.float32)
    assert packed.in_answer.tolist() == [False, True, True, False, True, True]
    logits = torch.full((6, 100), -5.0)
    logits[torch.arange(6), packed.targets] = 5.0
    logits[0, 3] = logits[3, 3] = 9.0  # the words before and behind the answer are another's

    assert exact_items(logits, packed).tolist() == [True, True]
    means = item_means(torch.tensor([10.0, 1, 3, 10, 4, 8]), packed, lead=0.5)
    torch.testing.assert_close(means, torch.tensor([14 / 3, 6.0]))
    torch.testing.assert_close(item_means(torch.ones(6), packed, lead=0.0), torch.ones(2))


def test_of_equal_logits_the_first_is_the_answer_as_in_greedy_decoding() -> None:
    packed = pack(
        ((Item((40,), (7, 2), "answer"),), (Item((40,), (5, 2), "answer"),)), [1], device=CPU, dtype=torch.float32
    )
    logits = torch.full((4, 100), -5.0, dtype=torch.bfloat16)
    logits[[0, 1, 2, 3], [7, 2, 5, 2]] = 5.0
    logits[[0, 2], [6, 6]] = 5.0  # as likely as the targets: before the 7, behind the 5

    assert exact_items(logits, packed).tolist() == [False, True]
    assert (logits.argmax(-1) == packed.targets).tolist() == [False, True, True, True]


# --- states beside --------------------------------------------------------------------------------

FAMILIES = ("llama", "qwen3", "gemma2", "mistral")
TEXTS = ("Alice lives in Bern, above the old mill that nobody uses. ", "Bo.", "Carol plays chess.")
ASKS = (
    (Ask("Where does Alice live?", "Bern", reply="She lives in Bern."), Ask("Hi", "Hi.")),
    (Ask("Who?", "Bo"),),
    (Ask("What does Carol play?", "chess"),),
)


class Nowhere:
    """A cache that keeps nothing."""

    place = "nowhere"
    owner = "nobody"

    def get(self, key: str) -> bytes | None:
        return None

    def put(self, key: str, kind: str, content: bytes) -> None: ...

    def discard(self, key: str) -> None: ...

    def is_current(self) -> bool:
        return True


@pytest.mark.parametrize("family", FAMILIES)
def test_with_states_beside_a_row_is_the_evidence_row_of_an_answer(family: str) -> None:
    """Every token of every answer, against `Engine.query` and `RunningRows`; the last row carries the adapter alone.

    Head and first text are longer than the sliding window (24) of gemma2 and mistral. float32.
    """
    tiny = tiny_base(family)
    engine = Engine(tiny, HashParameterizer(tiny), AnswerPolicy(evidence="both"))
    writer = ItemWriter(tiny.chat, 2, 10, statements=True)
    expected, factors = [], []
    for at, (text, asks) in enumerate(zip(TEXTS, ASKS, strict=True)):
        for ask in asks:
            framed = tiny.chat.framed([{"role": "user", "content": ask.question}])
            evidence = engine.evidence([Unit(0, 1, 0, len(text), text)], framed, Nowhere())
            row = engine.query(framed, None, evidence if at < 2 else Evidence(evidence.factors, None)).evidence_row
            assert row is not None
            assert (row.states is not None) == (at < 2)
            told = writer.answer(ask).target_ids
            for end in range(len(told)):
                with torch.no_grad():
                    rows = RunningRows(tiny, fixed=False)
                    _, logits = rows.admit([Row((*row.prompt_ids, *told[:end]), row.factors, row.states)])
                expected.append(logits[0])
        factors.append(evidence.factors)
    packed = pack(
        [[writer.answer(ask) for ask in asks] for asks in ASKS],
        tiny.chat.prefix_ids(),
        states=[*(writer.states(text) for text in TEXTS[:2]), ()],
        device=CPU,
        dtype=torch.float32,
    )

    with torch.no_grad():
        found = target_logits(tiny, packed, stack_rows(factors, device=CPU, dtype=torch.float32))
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_come_from_what_is_read_behind_the_states(family: str) -> None:
    """Against states that are constants in a cache, one pass per exchange; with the head's tokens they are others."""
    tiny = tiny_base(family)
    head, writer = tiny.chat.prefix_ids(), ItemWriter(tiny.chat, 2, 10)
    items, states = [[writer.answer(ask) for ask in asks] for asks in ASKS[:2]], [*map(writer.states, TEXTS[:2])]
    chance = torch.Generator().manual_seed(0)
    A, B = torch.randn(64, 4, generator=chance), 0.1 * torch.randn(2, 4, 32, generator=chance)
    A, B = A.requires_grad_(), B.requires_grad_()
    rows = AdapterRows({(layer, "mlp.down_proj"): (A, B) for layer in (0, 2)}, 2, 4)
    packed = pack(items, head, states=states, device=CPU, dtype=torch.float32)
    found, ungated = (
        torch.autograd.grad(token_losses(target_logits(tiny, one, rows), one).sum(), (A, B))
        for one in (packed, replace(packed, gate=None))
    )

    losses = []
    for row, own in enumerate(items):
        compiled = compile_states(tiny, [[*head, *states[row]]])[0]
        for item in own:
            cache = DynamicCache()
            for layer in range(tiny.model.config.num_hidden_layers):
                cache.update(compiled.keys[layer][None].clone(), compiled.values[layer][None].clone(), layer)
            with attached(tiny.model, rows.select(torch.tensor([row]))):
                ids = torch.tensor([[*item.prompt_ids, *item.target_ids[:-1]]])
                logits = tiny.model(input_ids=ids, past_key_values=cache, use_cache=True).logits[0]
            told = torch.tensor(item.target_ids)
            losses.append(F.cross_entropy(logits[-len(told) :], told, reduction="sum"))
    expected = torch.autograd.grad(torch.stack(losses).sum(), (A, B))
    for ours, theirs, others in zip(found, expected, ungated, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
        assert theirs.abs().amax() > 1e-2
        assert (others - theirs).abs().amax() > 1e-2

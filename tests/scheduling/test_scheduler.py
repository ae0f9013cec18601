"""Many callers, one batch. Float32: what a caller gets is what it gets alone."""

import linecache
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from types import FrameType

import pytest
import torch

from plume_memory.cancel import Cancel
from plume_memory.errors import Busy, Cancelled, DeadlineExceeded, FactorsError, InvalidInput
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.base import BaseModel
from plume_memory.model.grammar import Grammar
from plume_memory.model.masks import TokenMask
from plume_memory.model.queries import DecodeSettings, Query, Step
from plume_memory.model.running import RunningQueries
from plume_memory.model.streams import Row, RunningRows
from plume_memory.records import TokenTrace
from plume_memory.scheduling import Scheduler
from plume_memory.scheduling import scheduler as scheduler_module
from plume_memory.scheduling.requests import Request
from plume_memory.testing import random_factors, tiny_base

SETTINGS = DecodeSettings(max_new_tokens=24, stop_loops=False)
LONG = DecodeSettings(max_new_tokens=400, min_new_tokens=400, stop_loops=False)


@pytest.fixture(scope="module")
def base() -> BaseModel:
    return tiny_base("mistral")


def query(base: BaseModel, seed: int, *, with_evidence: bool = True) -> Query:
    prompt = tuple(base.chat.prompt_ids(f"Where is {'x' * (seed % 7)} number {seed}?"))
    evidence = Row(prompt, random_factors(base, rank=2 + seed % 3, seed=100 + seed))
    return Query(Row(prompt, random_factors(base, seed=seed)), evidence if with_evidence else None)


def ids(scheduler: Scheduler, asked: Query, settings: DecodeSettings = SETTINGS) -> list[int]:
    return [token.token_id for token in scheduler.decode([asked], settings)[0].trace]


@pytest.mark.parametrize("fixed", [False, True])
def test_each_of_many_threads_gets_what_it_gets_alone(base: BaseModel, fixed: bool) -> None:
    asked = [query(base, seed, with_evidence=seed % 4 != 0) for seed in range(24)]
    own = [DecodeSettings(max_new_tokens=4 + 3 * (seed % 5), lambda_max=1.0 + seed % 2) for seed in range(24)]
    alone = [ids(Scheduler(base), one, settings) for one, settings in zip(asked, own, strict=True)]
    scheduler = Scheduler(base, fixed_shapes=fixed)

    with ThreadPoolExecutor(12) as threads:
        together = list(threads.map(lambda pair: ids(scheduler, *pair), zip(asked, own, strict=True)))

    assert together == alone
    counters = scheduler.counters()
    assert (counters.asked, counters.answered, counters.running, counters.waiting) == (24, 24, 0, 0)
    assert counters.rows > 1.5 * counters.steps, "more than one query was in the batch"


def test_settings_are_each_querys_own(base: BaseModel) -> None:
    """A grammar, a stop text, and candidates kept, side by side in one batch."""
    scheduler = Scheduler(base)
    own = [
        DecodeSettings(max_new_tokens=20, grammar=Grammar.lark('start: "Bern" | "Zurich"')),
        DecodeSettings(max_new_tokens=20, top_candidates=3, stop_loops=False),
        DecodeSettings(max_new_tokens=20, min_new_tokens=20, tau=0.01, stop_loops=False),
    ]
    alone = [scheduler.decode([query(base, at)], settings)[0] for at, settings in enumerate(own)]
    streams = [scheduler.stream([query(base, at)], settings) for at, settings in enumerate(own)]
    woven = _woven(streams)
    assert ["".join(step.text for step in steps) for steps in woven] == [one.text for one in alone]
    assert woven[0][-1].finish_reason == "stop"
    assert [len(step.trace.global_top) for step in woven[1]] == [3] * len(woven[1])
    assert len(woven[2]) == 20


def _woven(streams: list) -> list[list]:
    """A step of each in turn, until all have ended."""
    found: list[list] = [[] for _ in streams]
    left = dict(enumerate(streams))
    while left:
        for at, stream in list(left.items()):
            step = next(stream, None)
            if step is None:
                del left[at]
            else:
                found[at].append(step)
    return found


def test_a_closed_stream_frees_its_rows_and_who_looks_long_holds_up_nobody(base: BaseModel) -> None:
    scheduler = Scheduler(base)
    slow = scheduler.stream([query(base, 1)], LONG)
    first = next(slow)
    assert ids(scheduler, query(base, 2)) == ids(Scheduler(base), query(base, 2))
    assert (scheduler.counters().running, scheduler.counters().running_rows) == (1, 2)
    rest = [first.trace.token_id, *(next(slow).trace.token_id for _ in range(30))]
    assert rest == ids(Scheduler(base), query(base, 1), LONG)[:31]
    slow.close()
    assert (scheduler.counters().running, scheduler.counters().running_rows) == (0, 0)
    assert scheduler.counters().cancelled == 1


def test_rows_closed_while_another_leads_go_with_its_next_step(base: BaseModel) -> None:
    scheduler = Scheduler(base)
    closed = scheduler.stream([query(base, 1)], LONG)
    next(closed)
    rows: list[int] = []
    with closing(scheduler.stream([query(base, 2)], LONG)) as other:
        next(other)
        rows.append(scheduler._batch.rows)
        threading.Thread(target=closed.close).start()
        while scheduler.counters().cancelled == 0:
            next(other)
        next(other)
        next(other)
        rows.append(scheduler._batch.rows)
    assert rows == [4, 2]


def test_who_asks_much_delays_himself(base: BaseModel) -> None:
    """With 200 questions of one owner waiting, another's is answered among the first of them."""
    scheduler = Scheduler(base, rows=4)
    done: list[str] = []

    def much() -> None:
        for _ in scheduler.decode([query(base, seed) for seed in range(60)], SETTINGS, batch=60, owner="much"):
            pass
        done.append("much")

    thread = threading.Thread(target=much)
    thread.start()
    while scheduler.counters().running == 0:
        time.sleep(0.001)
    scheduler.decode([query(base, 1)], SETTINGS, owner="little")
    assert done == []
    assert scheduler.counters().waiting > 40
    thread.join()
    assert done == ["much"]


def test_what_is_said_of_a_deadline_is_all_the_time_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of it may have gone into reading, before anything was to be decoded."""
    cancel = Cancel(time.monotonic() - 1)
    monkeypatch.setattr(cancel, "begun", cancel.deadline - 120)
    error = Request([], replace(SETTINGS, cancel=cancel, timeout=500), "", 1, False).over()
    assert isinstance(error, DeadlineExceeded)
    assert str(error).startswith("An answer was asked for within 120 s; ")


def test_a_deadline_is_kept_within_a_step(base: BaseModel) -> None:
    scheduler = Scheduler(base)
    hurried = DecodeSettings(max_new_tokens=1500, min_new_tokens=1500, stop_loops=False, timeout=0.2)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s; \d+ tokens were decoded"):
        scheduler.decode([query(base, 1)], hurried)
    assert scheduler.counters().running == 0
    with closing(scheduler.stream([query(base, 3)], LONG)) as leading, ThreadPoolExecutor(1) as other:
        next(leading)
        waiting = other.submit(scheduler.decode, [query(base, 1)], hurried)
        with pytest.raises(DeadlineExceeded):
            waiting.result(timeout=120)
        assert next(leading).finish_reason is None
    with pytest.raises(InvalidInput, match="timeout"):
        DecodeSettings(timeout=0)


def test_a_full_queue_refuses_and_says_so(base: BaseModel) -> None:
    scheduler = Scheduler(base, rows=2, queue=3)
    streams = [scheduler.stream([query(base, seed)], LONG) for seed in range(2)]
    next(streams[0])
    with ThreadPoolExecutor(1) as other:
        waits = other.submit(scheduler.decode, [query(base, 9)] * 3, SETTINGS)
        while scheduler.counters().waiting < 3:
            time.sleep(0.001)
        with pytest.raises(Busy, match="3 questions wait"):
            next(streams[1])
        assert scheduler.counters().waiting_rows == 6
        assert scheduler.counters().refused == 1
        streams[0].close()
        assert len(waits.result(timeout=120)) == 3


def test_one_that_cannot_be_decoded_fails_alone(base: BaseModel) -> None:
    scheduler = Scheduler(base)
    other = random_factors(tiny_base("llama", layers=5))
    unfit = Query(Row((5, 6), other), Row((5, 6), other))
    with closing(scheduler.stream([query(base, 1)], SETTINGS)) as stream:
        told = [next(stream).trace.token_id]
        with pytest.raises(FactorsError):
            scheduler.decode([unfit], SETTINGS)
        told += [step.trace.token_id for step in stream]
    assert told == ids(Scheduler(base), query(base, 1))
    assert scheduler.counters().failed == 1


def test_a_step_that_fails_fails_who_is_in_it_and_the_next_ones_are_answered(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(base)
    advance = RunningQueries.advance

    def broken(self: RunningQueries) -> list:
        monkeypatch.setattr(RunningQueries, "advance", advance)
        raise torch.OutOfMemoryError("no room")

    with closing(scheduler.stream([query(base, 1)], SETTINGS)) as stream:
        next(stream)
        monkeypatch.setattr(RunningQueries, "advance", broken)
        with pytest.raises(torch.OutOfMemoryError):
            list(stream)
    assert ids(scheduler, query(base, 2)) == ids(Scheduler(base), query(base, 2))


@pytest.mark.parametrize("place", ["admit", "advance", "_steps"])
def test_an_interrupt_of_who_leads_changes_no_other_answer(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    scheduler = Scheduler(base)
    whole: Callable = getattr(RunningQueries, place)
    calls = iter(range(1000))

    def interrupted(self: RunningQueries, *args: object) -> list:
        done = whole(self, *args)
        if next(calls) == 4:
            monkeypatch.setattr(RunningQueries, place, whole)
            raise KeyboardInterrupt
        return done

    with closing(scheduler.stream([query(base, 1)], SETTINGS)) as stream:
        told = [next(stream).trace.token_id]
        if place == "admit":
            calls = iter([4])
        monkeypatch.setattr(RunningQueries, place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            scheduler.decode([query(base, 2)], LONG)
        told += [step.trace.token_id for step in stream]
    assert told == ids(Scheduler(base), query(base, 1))
    assert scheduler.counters().running == 0


def test_threads_that_come_and_go_leave_nothing_behind(base: BaseModel) -> None:
    """Streams that are read whole, closed early, or dropped, from eight threads."""
    scheduler = Scheduler(base)
    alone = {seed: ids(Scheduler(base), query(base, seed)) for seed in range(4)}

    def one(turn: int) -> bool:
        stream: Iterator = scheduler.stream([query(base, turn % 4)], SETTINGS)
        most = (99, 1, 5)[turn % 3]
        told = [step.trace.token_id for step, _ in zip(stream, range(most), strict=False)]
        return told == alone[turn % 4][:most]

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(one, range(60)))
    assert scheduler.counters().running == 0
    assert scheduler._batch.rows == 0
    assert not scheduler._open


def test_an_adapter_of_some_layers_leaves_nothing_in_the_next_batch(base: BaseModel) -> None:
    whole = random_factors(base, rank=4, seed=1)
    first = LoraFactors({n: Pair(p.A[:1], p.B[:1]) for n, p in whole.modules.items()}, (0,))
    scheduler = Scheduler(base, fixed_shapes=True)
    for factors in (whole, first, whole):
        asked = Query(Row((5, 6), factors), Row((5, 6), factors))
        assert ids(scheduler, asked) == ids(Scheduler(base), asked)


def test_an_error_of_any_kind_comes_to_whose_it_is(base: BaseModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are answered together; of one every step fails, in the pass itself."""
    asked = [query(base, seed) for seed in range(3)]
    alone = [ids(Scheduler(base), one) for one in asked]
    scheduler = Scheduler(base)
    advance = RunningQueries.advance
    culprit = tuple(asked[1].global_row.prompt_ids)

    def broken(self: RunningQueries) -> list:
        if any(row.prompt_ids == culprit for row in self._rows._rows):
            raise IndexError("a bug of one")
        return advance(self)

    monkeypatch.setattr(RunningQueries, "advance", broken)
    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(ids, scheduler, one) for one in asked]
        assert [answers[at].result(timeout=120) for at in (0, 2)] == [alone[0], alone[2]]
        with pytest.raises(IndexError):
            answers[1].result(timeout=120)
    assert scheduler.counters().failed == 1


def test_a_grammar_that_can_be_followed_no_further_ends_its_own_query(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(base)
    allowed = TokenMask.allowed

    def lost(self: TokenMask, width: int) -> torch.Tensor | None:
        if self._matcher is not None and self._made == 3:
            raise InvalidInput("can be followed no further")
        return allowed(self, width)

    monkeypatch.setattr(TokenMask, "allowed", lost)
    formed = DecodeSettings(max_new_tokens=20, grammar=Grammar.lark("start: /[a-z]{12}/"))
    with closing(scheduler.stream([query(base, 1)], SETTINGS)) as stream:
        told = [next(stream).trace.token_id]
        with pytest.raises(InvalidInput, match="no further"):
            scheduler.decode([query(base, 2)], formed)
        told += [step.trace.token_id for step in stream]
    assert told == ids(Scheduler(base), query(base, 1))


def test_an_interrupt_at_any_line_of_a_caller_stops_nobody_else(base: BaseModel) -> None:
    """Raised once at each line of the scheduler that a caller runs through; then another one asks.

    Not at the end of a `with`: an interrupt between a block and its `__exit__` is lost in any Python program.
    """
    expected = ids(Scheduler(base), query(base, 2))
    interrupted = 0
    for at in range(400):
        scheduler, lines = Scheduler(base), iter(range(100_000))

        def trace(frame: FrameType, event: str, _: object, lines: Iterator[int] = lines, at: int = at) -> object:
            if frame.f_code.co_filename != scheduler_module.__file__ or frame.f_code.co_name in PROTECTED:
                return None
            text = linecache.getline(scheduler_module.__file__, frame.f_lineno)
            if event == "line" and not text.strip().startswith("with ") and next(lines) == at:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            scheduler.decode([query(base, 1)], DecodeSettings(max_new_tokens=2))
        except KeyboardInterrupt:
            interrupted += 1
        else:
            break
        finally:
            sys.settrace(None)
        with ThreadPoolExecutor(1) as other:
            assert other.submit(ids, scheduler, query(base, 2)).result(timeout=60) == expected, at
    assert interrupted > 30


PROTECTED = ("_close", "_forget", "_free", "_wake_a_leader", "_count")
"""What runs while an exception is on its way: Python offers no shelter there."""


def test_nothing_of_a_row_stays_behind_and_no_nan(base: BaseModel) -> None:
    rows = RunningRows(base, fixed=False)
    whole = random_factors(base, rank=2, seed=1)
    poisoned = LoraFactors({n: Pair(p.A, p.B * float("nan")) for n, p in whole.modules.items()}, whole.layers)
    with torch.inference_mode():
        stays, _ = rows.admit([Row(tuple(range(3, 40)))])
        gone, _ = rows.admit([Row(tuple(range(3, 20)), poisoned)])
        rows.leave(gone)
        new, _ = rows.admit([Row((5, 6, 7))])
        logits = rows.step({stays[0]: 8, new[0]: 8})
        assert torch.isfinite(logits).all()
        rows.leave([*stays, *new])
    assert rows._cache is not None
    assert not any(layer.any() for layer in rows._cache.layers)


def test_what_is_decoded_anew_and_ends_sooner_still_ends() -> None:
    trace = TokenTrace(token_id=1, text="a", js=0.0, weight=0.0, log_prob=0.0, global_top=(), evidence_top=())
    for is_streamed in (True, False):
        request = Request([], SETTINGS, "", 1, is_streamed)
        request.running = {7: 0}
        for _ in range(3):
            request.take(7, Step(7, "a", trace))
        request.begin_again()
        request.running = {8: request.waiting.popleft()}
        request.take(8, Step(8, "a", trace, "stop"))
        assert [step.finish_reason for step in request.steps] == ([None] * 3 if is_streamed else []) + ["stop"]
        assert request.is_done


def test_values_that_wait_or_turn_for_ever_are_refused(base: BaseModel) -> None:
    with pytest.raises(InvalidInput, match="batch=0"):
        Scheduler(base).decode([query(base, 1)], SETTINGS, batch=0)
    with pytest.raises(InvalidInput, match="stop string"):
        DecodeSettings(stop=(1,))  # type: ignore[arg-type]
    endless = DecodeSettings(max_new_tokens=4, timeout=1e12)
    assert len(ids(Scheduler(base), query(base, 1), endless)) <= 4


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_cancelled_decode_ends_with_the_next_step_whoever_leads(base: BaseModel, is_streamed: bool) -> None:
    scheduler, cancel = Scheduler(base), Cancel()
    settings = replace(LONG, cancel=cancel)
    with closing(scheduler.stream([query(base, 2)], LONG)) as other, ThreadPoolExecutor(1) as threads:
        next(other)

        def decoded() -> object:
            if is_streamed:
                return list(scheduler.stream([query(base, 1)], settings))
            return scheduler.decode([query(base, 1)], settings)

        waiting = threads.submit(decoded)
        while scheduler.counters().running < 2:
            next(other)
        cancel("its caller went away")
        steps = scheduler.counters().steps
        with pytest.raises(Cancelled, match="its caller went away"):
            waiting.result(timeout=30)
        next(other)
        assert scheduler.counters().steps - steps <= 3
        assert scheduler.counters().running == 1
        assert scheduler._batch.rows == 2
    assert scheduler.counters().seconds > 0


def test_what_is_cancelled_already_is_not_begun(base: BaseModel) -> None:
    scheduler, cancel = Scheduler(base), Cancel()
    cancel("nobody waits")
    with pytest.raises(Cancelled):
        scheduler.decode([query(base, 1)], replace(SETTINGS, cancel=cancel))
    assert scheduler.counters().running == 0

"""What one tenant has told tells another nothing, nor does how soon it is there; who left is worked for no more."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import pytest

from plume_memory.engine import Engine
from plume_memory.model import reading
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import HashParameterizer
from tests.server.conftest import BASE, Served, until

TEXT = "The takeover of Initrode is signed on Friday."
QUESTION = "When is the takeover signed?"


def tell_and_ask(client: httpx2.Client, name: str) -> None:
    memory = client.post("/v1/memories", json={"name": name}).json()
    path = f"/v1/memories/{memory['id']}"
    assert client.post(f"{path}/updates", json={"text": TEXT, "derive": "wait"}).json()["derived"] is True
    assert client.post(f"{path}/ask", json={"question": QUESTION}).status_code == 200


def test_what_another_tenant_has_told_is_made_anew_and_so_takes_as_long(
    serve: Callable[..., Served],
) -> None:
    parameterizer = HashParameterizer(BASE)
    policy = AnswerPolicy(max_new_tokens=4, unit_tokens=64, retrieval="reader")
    served = serve(Engine(BASE, parameterizer, policy))
    engine = served.serving.pool.engine
    spent = []
    for tenant in ("acme", "initech"):
        with served.client(served.key(tenant=tenant)) as client:
            before = _work(engine), len(parameterizer.calls), _misses(engine)
            tell_and_ask(client, "secret")
            done = parameterizer.calls[before[1] :]
            spent.append((_less(_work(engine), before[0]), done, _less(_misses(engine), before[2])))
    assert spent[0] == spent[1], "passes, texts encoded, and misses of every cache are those of who told it first"
    assert spent[0][1], "something was encoded"
    with served.client(served.key(tenant="acme")) as client:
        before = _work(engine), _misses(engine)
        tell_and_ask(client, "secret, told again")
        assert (_less(_work(engine), before[0]), _less(_misses(engine), before[1])) == (spent[0][0], spent[0][2])


def _work(engine: Engine) -> dict[str, int]:
    return {stage: passes for stage, (passes, _) in engine.work().items() if stage in ("read", "encode")}


def _misses(engine: Engine) -> dict[str, int]:
    return {name: kept.misses for name, kept in engine.caches().items()}


def _less(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: now[name] - before[name] for name in now}


def test_a_request_whose_client_left_reads_no_further_text(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(Engine(BASE, HashParameterizer(BASE), AnswerPolicy(max_new_tokens=4, retrieval="reader")))
    entered, go_on = threading.Event(), threading.Event()
    batches: list[int] = []
    own = reading.batches

    def held(lengths: Sequence[int], **options: Any) -> Any:
        for batch in ([row] for row in range(len(lengths))) if options else own(lengths):
            if options:
                batches.append(len(batches))
                entered.set()
                go_on.wait(300)
            yield batch

    with served.client(served.key()) as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        path = f"/v1/memories/{memory['id']}"
        for n in range(6):
            text = f"Alice has {n} boats on lake number {n}."
            client.post(f"{path}/updates", json={"text": text, "derive": "later"})
        served.serving.pool.flush()
        monkeypatch.setattr(reading, "batches", held)

        def ask() -> None:
            with pytest.raises(httpx2.ReadTimeout):
                client.post(f"{path}/ask", json={"question": "How many boats has Alice?"}, timeout=0.5)

        asking = threading.Thread(target=ask)
        asking.start()
        assert entered.wait(300)
        asking.join()
        running = served.serving.answers
        until(lambda: all(one.cancel.reason is not None for one in running._now()))
        go_on.set()
        until(lambda: len(running) == 0)
        until(lambda: served.serving.condition.in_flight == 0)
    assert len(batches) <= 2, "the batch that was begun, and at most a look at the next"
    assert served.serving.pool.engine.scheduler.counters().asked == 0


def test_the_time_for_an_answer_holds_for_reading_too(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(Engine(BASE, HashParameterizer(BASE), AnswerPolicy(max_new_tokens=4, retrieval="reader")))
    own = reading.batches

    def slow(lengths: Sequence[int], **options: Any) -> Any:
        for batch in own(lengths, **options):
            threading.Event().wait(0.2)
            yield batch

    with served.client(served.key()) as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        path = f"/v1/memories/{memory['id']}"
        client.post(f"{path}/updates", json={"text": "Alice has a boat.", "derive": "later"})
        served.serving.pool.flush()
        monkeypatch.setattr(reading, "batches", slow)
        for asked in ({"question": "Who has a boat?"}, {"question": "Who has a boat?", "stream": True}):
            late = client.post(f"{path}/ask", json=asked, headers={"x-plume-timeout": "0.05"})
            assert (late.status_code, late.json()["type"]) == (503, "urn:plume:problem:deadline-exceeded")
    assert served.serving.pool.engine.scheduler.counters().asked == 0

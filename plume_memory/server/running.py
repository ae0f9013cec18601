"""Runs the application: warms the model, serves, and ends in order.

The order at a stop (SIGTERM, SIGINT): not ready any more, no new work, streams may end for a while, the others are
ended with an error, then the sockets, then the model and the database. uvicorn alone would close the sockets first,
and then wait for open streams without end.
"""

import asyncio
import ipaddress
import logging
import re
import threading
import time
from types import FrameType

import uvicorn
from fastapi import FastAPI

from plume_memory.errors import ArtifactError, InvalidInput, MissingExtra, ModelError, PlumeError, StoreUnavailable
from plume_memory.heap import give_back_freed_memory
from plume_memory.server.connections import patience
from plume_memory.server.state import Serving
from plume_memory.store.keys import Keys
from plume_memory.store.peers import check_clock

_LOGGER = logging.getLogger(__name__)
_TICK_S = 0.1
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")
_TIDIED_EVERY_S = 10.0
LOOKED_AGAIN_S = 5.0
_LAST_WORDS_S = 3.0
"""For ended streams to say so, and for uvicorn to close its connections."""


class DrainingServer(uvicorn.Server):
    """uvicorn's server, which ends as the module says. A second signal ends it at once."""

    def __init__(self, config: uvicorn.Config, serving: Serving) -> None:
        super().__init__(config)
        self._serving = serving

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at the second signal stop."""
        if self._serving.condition.is_draining:
            super().handle_exit(sig, frame)
        self._serving.condition.is_draining = True
        self._serving.metrics.draining.set(1)

    async def main_loop(self) -> None:
        """Serve until the drain is over."""
        drain, tidying = asyncio.create_task(self._drained()), asyncio.create_task(self._tidied())
        try:
            await super().main_loop()
        finally:
            drain.cancel()
            tidying.cancel()

    async def _tidied(self) -> None:
        """Give back what answers have freed, as long as there were any since."""
        seen = None
        while True:
            await asyncio.sleep(_TIDIED_EVERY_S)
            engine = self._serving.pool.loaded_engine
            done = None if engine is None else engine.work()
            if done != seen:
                seen = done
                await asyncio.to_thread(give_back_freed_memory)

    async def _drained(self) -> None:
        condition = self._serving.condition
        while not condition.is_draining:
            await asyncio.sleep(_TICK_S)
        await self._idle_within(self._serving.settings.drain_s)
        self._serving.answers.cancel_all("the server is being stopped")
        await self._idle_within(_LAST_WORDS_S)
        self.should_exit = True

    async def _idle_within(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._serving.condition.in_flight and time.monotonic() < deadline:
            await asyncio.sleep(_TICK_S)


def server_of(app: FastAPI, *, host: str, port: int) -> DrainingServer:
    """Return the server of an application; `run()` serves until it is told to stop."""
    serving: Serving = app.state.serving
    config = uvicorn.Config(
        app,
        http=patience(serving.settings.headers_s, serving.settings.connections),
        host=host,
        port=port,
        access_log=False,  # it prints whole paths; access.py says what is to be said
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=round(_LAST_WORDS_S),
    )
    return DrainingServer(config, serving)


def warm(serving: Serving) -> threading.Thread:
    """Load the model in a thread and let it answer once: until then the server lives, and is not ready.

    Nor is it with another clock than the database's, or another engine than its peers' of the same name.
    """
    thread = threading.Thread(target=_warm, args=[serving], name="plume-warm", daemon=True)
    thread.start()
    return thread


def _warm(serving: Serving) -> None:
    from plume_memory.answering.pinned import Snapshot  # noqa: PLC0415 — torch: seconds

    pool = serving.pool
    try:
        pool.artifacts.check()
    except (ArtifactError, MissingExtra) as err:  # nobody waits for it: what it would keep is made again
        _LOGGER.error("What is derived cannot be kept, and is made again each time: %s", err)
    try:
        Snapshot.of_nothing(pool.engine).ask("Hello?", max_new_tokens=1, unknown="bare")
    except PlumeError as err:
        _LOGGER.error("The server is not ready, and does not become so: %s", err, exc_info=err)
        return
    while not serving.condition.is_draining:
        try:
            check_clock(pool.database)
            pool.check_peers()
        except (StoreUnavailable, ModelError) as err:  # a database comes back, a clock is set, a peer ends
            _LOGGER.error("The server is not ready, and looks again in %g s: %s", LOOKED_AGAIN_S, err)
            time.sleep(LOOKED_AGAIN_S)
        else:
            serving.condition.is_warm = True
            return


def is_loopback(host: str) -> bool:
    """Tell whether an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, keys: Keys, *, is_insecure: bool) -> None:
    """Refuse to serve other machines as long as anybody would be let in.

    Raises:
        InvalidInput: no key was ever made, and nobody said that this is meant.
    """
    if not is_loopback(host) and not is_insecure and not keys.any_made():
        raise InvalidInput(
            f"{host} is no address of this machine alone, and no key was made: anybody could read and write every "
            "memory. Make one with `plume keys create`, or say --insecure."
        )


def checked_origin(origin: str) -> str:
    """Return a site as browsers name it.

    Raises:
        InvalidInput: it is none: any site (`*`) is not let in.
    """
    if not _ORIGIN.fullmatch(origin):
        raise InvalidInput(
            f"--cors-origin is one site as a browser names it, `https://app.example` or `http://localhost:3000`; got "
            f"{origin!r}."
        )
    return origin

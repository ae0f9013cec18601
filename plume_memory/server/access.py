"""Every request: its id, a line in the log, a count, and a refusal while the server drains.

The line holds ids and numbers. Texts, questions and names are nobody's business who reads logs, and a path holds none.
"""

import json
import logging
import secrets
import time
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plume_memory.server.problems import Problem, response
from plume_memory.server.state import Serving

ACCESS = logging.getLogger("plume_memory.server.access")
OPERATIONS_PATHS = ("/healthz", "/readyz", "/metrics")
"""Answered while the server drains, and not counted as work."""


class Access:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, serving: Serving) -> None:
        self._app, self._serving = app, serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the module."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        state: dict[str, Any] = scope.setdefault("state", {})
        state["request_id"] = request_id = f"req_{secrets.token_hex(12)}"
        begun, status = time.monotonic(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                if (rate := state.get("rate")) is not None:
                    headers.update(rate.headers())
            await send(message)

        condition = self._serving.condition
        is_work = scope["path"] not in OPERATIONS_PATHS
        condition.in_flight += is_work
        try:
            if is_work and condition.is_draining:
                problem = Problem(503, "draining", "The server is being stopped; ask another one, or later.", 5)
                refused = response(problem, scope["path"], request_id, headers={"connection": "close"})
                await refused(scope, receive, sent)
            elif not is_work:
                await self._app(scope, receive, sent)
            else:
                with self._serving.telemetry.request(scope["method"], Headers(scope=scope), state) as span:
                    try:
                        await self._app(scope, receive, sent)
                    finally:
                        span.end(_route(scope), status)
        finally:
            condition.in_flight -= is_work
            route = _route(scope)
            self._serving.metrics.requests.labels(route, str(status)).inc()
            if is_work:
                ACCESS.info(_line(state, scope["method"], route, status, time.monotonic() - begun))


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", "unmatched")


def _line(state: dict[str, Any], method: str, route: str, status: int, seconds: float) -> str:
    found = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request": state["request_id"],
        "method": method,
        "route": route,
        "status": status,
        "tenant": state.get("tenant"),
        "memory": state.get("memory"),
        "version": state.get("version"),
        "ms": round(seconds * 1000, 1),
    }
    return json.dumps({name: value for name, value in found.items() if value is not None})

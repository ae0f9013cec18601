"""What all rooms of the page share: a request with who it is from, templates, and the headers of every response."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from plume_memory.errors import PlumeError
from plume_memory.server.auth import Caller, caller_of, unauthorized
from plume_memory.server.page.assets import Assets
from plume_memory.server.page.sessions import COOKIE, Sessions
from plume_memory.server.problems import Problem, invalid, problem_of
from plume_memory.server.rest.common import memory_of
from plume_memory.server.state import Serving, serving_of, stored
from plume_memory.store.directory import ListedMemory

_TEMPLATES = Path(__file__).parent / "templates"
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # stricter, and a browser hides a form's own origin from us
}
_MOST_FIELDS = 20


@dataclass(frozen=True, slots=True)
class Visit:
    """A request, and who it is from."""

    request: Request
    serving: Serving
    caller: Caller

    async def memory(self, number: str, scope: str) -> ListedMemory:
        """Return the memory of a path, for who has the scope.

        Raises:
            Refused: 403, asked before anything is looked up.
            MemoryNotFound: there is none of that id, or it is not this visitor's.
        """
        return await memory_of(self.request, self.serving, self.caller, number, scope)


class Page:
    """The page's parts: made once, by its router.

    Args:
        mark: see `ServerSettings.mark`.
    """

    def __init__(self, mark: str = "") -> None:
        self.sessions = Sessions(mark=mark)
        self.assets = Assets()
        self._templates = Environment(
            loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self._templates.lstrip_blocks = True
        self._templates.globals["asset"] = self.assets.url

    async def visit(self, request: Request) -> Visit:
        """Return a request with who it is from, and count it.

        Raises:
            Refused: 401, 403 or 429.
        """
        serving = serving_of(request)
        key_id = self.sessions.key_of(cookie_of(request))
        caller = await stored(lambda: _caller(serving, request, key_id))
        request.state.tenant = caller.tenant
        request.state.rate = serving.limits.request(caller.key_id)
        return Visit(request, serving, caller)

    async def form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form of this page's.

        Raises:
            Refused: 403 without this visitor's token; 400, it is no form.
        """
        body = await request.body()
        try:
            fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError as err:
            raise invalid("This is no form of this page.") from err
        self.sessions.check_token(cookie_of(request), fields.pop("token", ""))
        return {name: value.replace("\r\n", "\n") for name, value in fields.items()}  # browsers send CRLF

    def html(self, request: Request, template: str, *, status: int = 200, **shown: Any) -> HTMLResponse:
        """Return a page; a visitor who has no cookie yet gets one, for the tokens of its forms."""
        cookie = cookie_of(request) or self.sessions.new_cookie()
        request.state.page_cookie = cookie
        has_session = self.sessions.key_of(cookie) is not None
        shared = {"token": self.sessions.token(cookie), "has_session": has_session, "path": request.url.path}
        return HTMLResponse(self._templates.get_template(template).render(**shared, **shown), status)

    def failed(self, request: Request, error: PlumeError | RequestValidationError) -> Response:
        """Return the page of an error; without a key, the way to where one is typed."""
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            problem = Problem(400, "invalid-input", f"{first['loc'][-1]}: {first['msg']}.")
        else:
            serving_of(request).failed(error)
            problem = problem_of(error)
        if problem.status == 401 and request.url.path != "/login":
            going = f"?next={quote(request.url.path)}" if request.method == "GET" and request.url.path != "/" else ""
            return RedirectResponse(f"/login{going}", 303)
        return self.html(request, "error.html", status=problem.status, problem=problem)

    def sent(self, request: Request, response: Response) -> Response:
        """Put on a response what every one of the page's has."""
        response.headers.update(_HEADERS)
        response.headers.setdefault("cache-control", "no-store")
        cookie = getattr(request.state, "page_cookie", None)
        if cookie is not None and cookie != request.cookies.get(COOKIE):
            is_secure = request.url.scheme == "https"
            response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=is_secure)
        return response


def cookie_of(request: Request) -> str:
    """Return the visitor's cookie; empty without one."""
    return request.cookies.get(COOKIE, "")


def _caller(serving: Serving, request: Request, key_id: str | None) -> Caller:
    headers = request.headers
    if key_id is None:
        host, origin = headers.get("host", ""), headers.get("origin")
        return caller_of(serving.keys, serving.settings, authorization="", host=host, origin=origin)
    if not serving.keys.is_valid(key_id):
        raise unauthorized("The key of this session was revoked, or has expired: type another.")
    key = serving.keys.get(key_id)
    return Caller(key.id, key.tenant, key.scopes, key.memory, key.writes)


def number_in(text: str, *, what: str) -> int | None:
    """Return the number of a form's field; None of an empty one.

    Raises:
        Refused: 400, no number.
    """
    if not text.strip():
        return None
    if not text.strip().isascii() or not text.strip().isdecimal() or len(text) > 15:
        raise invalid(f"{what} is a number; got {text[:40]!r}.")
    return int(text)

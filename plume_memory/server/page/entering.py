"""The door: a key is typed once, and what a page loads beside itself."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import RedirectResponse, Response

from plume_memory.server.auth import caller_of, unauthorized
from plume_memory.server.page.page import Page, cookie_of
from plume_memory.server.problems import Problem, Refused
from plume_memory.server.state import ServingNow, stored

_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}


def add_routes(router: APIRouter, page: Page) -> None:
    """Add the routes of the door."""

    @router.get("/login")
    async def login(request: Request, following: Annotated[str, Query(alias="next")] = "/") -> Response:
        return page.html(request, "login.html", following=_own_path(following), problem=None)

    @router.post("/login")
    async def enter(request: Request, serving: ServingNow) -> Response:
        fields = await page.form(request)
        request.state.rate = serving.limits.request(None)  # whoever tries keys shares one bucket
        following, secret = _own_path(fields.get("next", "")), fields.get("key", "").strip()
        try:
            if not secret.startswith("plk_"):
                raise unauthorized("A key begins with plk_.")
            caller = await stored(
                lambda: caller_of(
                    serving.keys, serving.settings, authorization=f"Bearer {secret}", host="", origin=None
                )
            )
        except Refused as refused:
            return page.html(request, "login.html", status=401, following=following, problem=refused.problem)
        assert caller.key_id is not None, "whoever has a key has its id"
        page.sessions.end(cookie_of(request))
        request.state.page_cookie = page.sessions.begin(caller.key_id)
        return RedirectResponse(following, 303)

    @router.post("/logout")
    async def leave(request: Request) -> Response:
        await page.form(request)
        page.sessions.end(cookie_of(request))
        return RedirectResponse("/login", 303)

    @router.get("/assets/{name}")
    async def asset(name: Annotated[str, Path(max_length=100)]) -> Response:
        found = page.assets.get(name)
        if found is None:
            raise Refused(Problem(404, "not-found", "There is no such file."))
        return Response(found.content, media_type=found.media_type, headers=_FOR_EVER)


def _own_path(following: str) -> str:
    """A path of this page: a link to the door may not lead on to another site."""
    is_own = following.startswith("/") and not following.startswith("//") and "\\" not in following
    return following if is_own and following.isprintable() else "/"

"""The page's router: its rooms, and the shape of its errors, which are pages as well."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from plume_memory.errors import PlumeError
from plume_memory.server.page import asking, entering, forgetting, looking
from plume_memory.server.page.page import Page


def router(mark: str = "") -> APIRouter:
    """Return the page's routes; which sessions are open is theirs. They are no part of the OpenAPI document.

    Args:
        mark: see `ServerSettings.mark`.
    """
    page = Page(mark)
    made = APIRouter(route_class=_route_class(page), include_in_schema=False)
    for room in (entering, looking, asking, forgetting):
        room.add_routes(made, page)
    return made


def _route_class(page: Page) -> type[APIRoute]:
    class PageRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handled(request: Request) -> Response:
                try:
                    response = await handle(request)
                except (PlumeError, RequestValidationError) as error:
                    response = page.failed(request, error)
                return page.sent(request, response)

            return handled

    return PageRoute

"""Whole memories as files: written to one and read from one, streamed either way."""

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from plume_memory.server.body import IMPORT_PATH, too_large
from plume_memory.server.problems import Problem, Refused
from plume_memory.server.rest.common import MemoryId, memory_of, opened, tagged
from plume_memory.server.rest.schemas import PROBLEMS, ImportOut, MemoryOut, Name
from plume_memory.server.settings import ServerSettings
from plume_memory.server.state import Identified, ServingNow, stored
from plume_memory.store.archive_reading import read_archive
from plume_memory.store.directory import log_name

router = APIRouter(tags=["archives"], responses=PROBLEMS)

ARCHIVE = "application/vnd.plume.archive"
_FILE = "upload.plume"


@router.get(
    "/v1/memories/{id}/export",
    response_class=FileResponse,
    responses={200: {"content": {ARCHIVE: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def export(request: Request, number: MemoryId, serving: ServingNow, caller: Identified) -> FileResponse:
    """Return the whole memory as one archive; the same memory gives the same bytes."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    with ExitStack() as made:
        path = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="plume-export-"))) / f"{memory.id}.plume"
        await stored(lambda: opened(serving, memory).export_archive(path))
        folder = made.pop_all()  # it goes when the archive is sent
    return FileResponse(
        path,
        media_type=ARCHIVE,
        filename=path.name,
        headers={"cache-control": "no-store"},
        background=BackgroundTask(folder.close),
    )


@router.post(
    IMPORT_PATH,
    status_code=201,
    response_model=ImportOut,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def import_archive(
    request: Request,
    response: Response,
    serving: ServingNow,
    caller: Identified,
    name: Annotated[Name, Query(description="Of the new memory.")],
) -> ImportOut:
    """Read an archive into a new memory of the same history, hashes and times: all of it, or nothing."""
    caller.check("memory:write")
    caller.check_unbound()
    listing = await stored(lambda: serving.directory.listing(caller.tenant, name))
    with tempfile.TemporaryDirectory(prefix="plume-import-") as folder:
        path = Path(folder) / _FILE
        await _received(request, path, serving.settings)
        database = serving.pool.database
        read = await stored(lambda: read_archive(database, path, name=log_name(listing), listing=listing))
    made = await stored(lambda: serving.directory.get(caller.tenant, listing.id))
    request.state.memory = made.id
    tagged(response, made.head_number, made.head_hash)
    response.headers["location"] = f"/v1/memories/{made.id}"
    return ImportOut(memory=MemoryOut.of(made), versions=read.versions, head_hash=read.head_hash)


async def _received(request: Request, path: Path, settings: ServerSettings) -> None:
    """Write a body to a file as it comes.

    Raises:
        Refused: 413 or 408.
    """
    size = 0
    try:
        async with asyncio.timeout(settings.archive_s):
            with path.open("wb") as file:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > settings.archive_bytes:
                        raise Refused(too_large(settings.archive_bytes))
                    file.write(chunk)
    except TimeoutError as err:
        detail = f"The archive did not arrive within {settings.archive_s:g} s."
        raise Refused(Problem(408, "slow-body", detail, should_retry=False)) from err

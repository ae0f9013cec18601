"""`plume serve`: the HTTP server on a database and a model."""

import logging
import sys
from typing import Annotated, Any

import typer

from plume_memory.cli.memory_commands import AsJson, Hypernetwork, Model, Url
from plume_memory.cli.output import ERR, PROGRESS, emit
from plume_memory.defaults import CONNECTIONS, DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import InvalidInput, MissingExtra
from plume_memory.heap import share_heaps


def register(app: typer.Typer) -> None:
    """Add this command to the tree."""
    app.command()(serve)


def serve(
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    artifacts: Annotated[
        str | None,
        typer.Option("--artifacts", help="Folder or URL (s3://…) for what is derived.", envvar="PLUME_ARTIFACTS"),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to serve; this machine alone by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to serve.")] = 8000,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve another address though no key was made: anybody comes in.")
    ] = False,
    map_header: Annotated[
        list[str] | None,
        typer.Option("--map-header", help="A header that names a memory, for keys that may act-as. Repeatable."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option("--cors-origin", help="A site whose pages may call, as https://app.example. Repeatable."),
    ] = None,
    requests: Annotated[int, typer.Option("--requests-per-minute", min=1, help="Of one key.")] = 600,
    rows: Annotated[
        int, typer.Option("--rows-per-minute", min=1, help="Decode rows of one key; a question: 2.")
    ] = 1200,
    workers: Annotated[int, typer.Option("--workers", help="Only 1: one process has the model.")] = 1,
    connections: Annotated[
        int,
        typer.Option("--connections", min=2, help="To PostgreSQL, of one process; some beside them: docs/scaling.md."),
    ] = CONNECTIONS,
    ray: Annotated[
        bool, typer.Option("--ray", help="Serve with replicas on Ray Serve, on PostgreSQL; extra `ray`.")
    ] = False,
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="With --ray: at least so many.")] = 1,
    max_replicas: Annotated[
        int | None, typer.Option("--max-replicas", min=1, help="With --ray: at most so many, as load asks for them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve memories over HTTP: OpenAI's protocol and memory's own, on one port."""
    if workers != 1:
        raise InvalidInput(
            f"--workers {workers}: one process serves one model. Its scheduler decodes all requests in one batch, "
            "which several processes would split, each with the weights in memory once more. Leave it out; for more "
            "machines start a server on each, on one PostgreSQL database, or use --ray."
        )
    if not ray and (replicas != 1 or max_replicas is not None):
        raise InvalidInput("--replicas and --max-replicas go with --ray.")
    if ray and map_header:
        raise InvalidInput("--map-header does not go with --ray: build the application with `ray_plume.application`.")
    if ray and url.startswith("sqlite"):
        raise InvalidInput("Replicas share their log: give the URL of a PostgreSQL database, or leave out --ray.")
    PROGRESS("starting the server")
    try:
        from plume_memory.server.app import create_app  # noqa: PLC0415 — an extra
        from plume_memory.server.running import (  # noqa: PLC0415 — as above
            check_address,
            checked_origin,
            is_loopback,
            server_of,
            warm,
        )
        from plume_memory.server.settings import UPDATE_CHARS, ServerSettings  # noqa: PLC0415 — as above
        from plume_memory.server.telemetry import configure  # noqa: PLC0415 — as above
        from plume_memory.store.keys import Keys  # noqa: PLC0415 — as above
    except ImportError as err:
        raise MissingExtra(f"`plume serve` needs the extra: pip install 'plume-memory[server]' ({err}).") from err
    from plume_memory.pool import MemoryPool  # noqa: PLC0415 — a database, after `--help`

    configure()
    share_heaps()
    with MemoryPool(
        url,
        model=model,
        hypernetwork=hypernetwork,
        artifacts=artifacts,
        max_update_chars=UPDATE_CHARS,
        connections=connections,
    ) as pool:
        check_address(host, Keys(pool.database), is_insecure=insecure)
        origins = tuple(map(checked_origin, cors_origin or ()))
        if ray:
            pool.database.check()  # one line here says more than the logs of replicas that do not start
            arguments = {
                "db": url,
                "artifacts": pool.artifacts.root_url,
                "model": model,
                "hypernetwork": hypernetwork,
                "needs_key": not is_loopback(host) and not insecure,
                "local_only": is_loopback(host),
                "cors_origins": origins,
                "requests_per_minute": requests,
                "rows_per_minute": rows,
                "connections": connections,
                "min_replicas": replicas,
                "max_replicas": max(replicas, max_replicas or replicas),
            }
            _serve_on_ray(arguments, host=host, port=port, as_json=as_json)
            return
        settings = ServerSettings(
            needs_key=not is_loopback(host) and not insecure,
            local_only=is_loopback(host),
            cors_origins=origins,
            mapped_headers=tuple(name.lower() for name in map_header or ()),
            requests_per_minute=requests,
            rows_per_minute=rows,
        )
        app = create_app(pool, settings)
        _log_to_stdout()
        warm(app.state.serving)
        served = f"http://{host}:{port}"
        emit(
            {"url": served, "model": pool.model},
            as_json,
            lambda: ERR.print(
                f"serving {served}; the model loads, /readyz says once it is ready", style="dim", markup=False
            ),
        )
        sys.stdout.flush()  # whoever waits for that line, the program does not end for a long time
        server_of(app, host=host, port=port).run()


def _serve_on_ray(arguments: dict[str, Any], *, host: str, port: int, as_json: bool) -> None:
    try:
        from ray_plume.application import AppArguments  # noqa: PLC0415 — an extra
        from ray_plume.running import run  # noqa: PLC0415 — as above
    except ImportError as err:
        raise MissingExtra(f"`plume serve --ray` needs the extra: pip install 'plume-memory[ray]' ({err}).") from err
    served = f"http://{host}:{port}"

    def say() -> None:
        shown = {"url": served, "model": arguments["model"], "replicas": arguments["min_replicas"]}
        emit(shown, as_json, lambda: ERR.print(f"serving {served}, ready", style="dim", markup=False))
        sys.stdout.flush()

    run(AppArguments(**arguments), host=host, port=port, started=say)


def _log_to_stdout() -> None:
    """Access lines to stdout as they are; everything else to stderr."""
    access = logging.getLogger("plume_memory.server.access")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    access.addHandler(handler)
    access.setLevel(logging.INFO)
    access.propagate = False
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")

"""Runs the application on this machine: starts Ray, serves, and ends in order at a signal."""

import os
import signal
import threading
from types import FrameType
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read once, when ray is imported: nothing is sent home

import ray
from ray import serve

from ray_plume.application import AppArguments, app


def run(args: AppArguments, *, host: str, port: int, started: Any) -> None:
    """Serve until SIGTERM or SIGINT. Then no request is taken any more, and what runs may end.

    Args:
        args: see `AppArguments`.
        host: address to serve.
        port: of it.
        started: called once every replica has its model.

    Raises:
        RuntimeError: the replicas could not be started.
    """
    built = app(args)
    ray.init(include_dashboard=False, num_cpus=_cores(args), log_to_driver=False)
    try:
        serve.start(http_options={"host": host, "port": port})
        serve.run(built, name="plume")
        started()
        _signalled().wait()
        serve.shutdown()
    finally:
        ray.shutdown()


def _cores(args: AppArguments) -> int:
    """Cores that Ray counts with: on one machine they are shared, and what is asked for must fit."""
    return max(os.cpu_count() or 1, round(args.cpus * max(args.min_replicas, args.max_replicas)) + 2)


def _signalled() -> threading.Event:
    told = threading.Event()

    def tell(_: int, __: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)
    return told

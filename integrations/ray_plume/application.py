"""The application of Ray Serve: its two deployments, put together from a few settings."""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

from plume_memory.defaults import DEFAULT_MODEL
from plume_memory.errors import InvalidInput
from plume_memory.pool import MemoryPool
from plume_memory.server.running import checked_origin
from plume_memory.server.settings import UPDATE_CHARS, ServerSettings
from ray_plume.gateway import Gateway
from ray_plume.replica import Replica
from ray_plume.routing import ReplicaRouter
from ray_plume.scaling import replicas_for_rows

_MORE_S = 10.0
"""Beyond the longest answer, for a replica to end in."""
_REQUESTS_PER_GATEWAY = 200.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How many replicas there are, and what each is given."""

    min_replicas: int = 1
    max_replicas: int = 1
    rows_per_replica: float = 32.0
    """Decode rows, running or waiting, that one more replica is started beyond; a question takes two."""
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    """Long: a replica that goes takes what it holds of its memories along."""
    look_back_s: float = 30.0
    """Time that the load is averaged over."""
    cpus: float = 1.0
    """Cores that Ray sets aside for a replica."""
    gpus: float = 0.0
    max_gateways: int = 1


class AppArguments(BaseModel):
    """What `app` takes: of a `serve run` line, or of `args:` in a configuration file of Ray Serve."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    db: str
    """URL of the log: PostgreSQL, which every replica reaches."""
    artifacts: str
    """Where what is derived is kept: an object store's URL, or a folder that every replica sees."""
    model: str = DEFAULT_MODEL
    hypernetwork: str = "auto"
    needs_key: bool = True
    local_only: bool | None = None
    """Only callers that name this machine, as its browser does; where not given, if no key is needed."""
    cors_origins: tuple[str, ...] = ()
    """Sites whose pages may call."""
    requests_per_minute: int = Field(600, ge=1)
    """Of one key, at each replica."""
    rows_per_minute: int = Field(1200, ge=1)
    connections: int = Field(16, ge=2)
    """To PostgreSQL, of one replica at most."""
    min_replicas: int = Field(1, ge=1)
    max_replicas: int = Field(1, ge=1)
    rows_per_replica: float = Field(32.0, gt=0)
    cpus: float = Field(1.0, ge=0)
    gpus: float = Field(0.0, ge=0)
    max_gateways: int = Field(1, ge=1)


def app(args: AppArguments) -> Any:
    """Return the application that a configuration describes. See `AppArguments`.

    Raises:
        InvalidInput: the database is a file, or an origin is none.
    """
    check_shared(args.db)
    make_pool = partial(pool_of, args.db, args.artifacts, args.model, args.hypernetwork, args.connections)
    settings = ServerSettings(
        needs_key=args.needs_key,
        local_only=not args.needs_key if args.local_only is None else args.local_only,
        cors_origins=tuple(map(checked_origin, args.cors_origins)),
        requests_per_minute=args.requests_per_minute,
        rows_per_minute=args.rows_per_minute,
    )
    shape = Shape(
        min_replicas=args.min_replicas,
        max_replicas=max(args.min_replicas, args.max_replicas),
        rows_per_replica=args.rows_per_replica,
        cpus=args.cpus,
        gpus=args.gpus,
        max_gateways=args.max_gateways,
    )
    return application(make_pool, settings, shape)


def application(make_pool: Callable[[], MemoryPool], settings: ServerSettings, shape: Shape) -> Any:
    """Return the application for `serve.run`.

    Args:
        make_pool: makes a replica's pool, in its process: of one database, one place of artifacts and one model.
        settings: of the server.
        shape: how many replicas there are.
    """
    replicas = serve.deployment(
        _MarkedReplica,
        name="Replica",
        ray_actor_options={"num_cpus": shape.cpus, "num_gpus": shape.gpus},
        autoscaling_config=AutoscalingConfig(
            min_replicas=shape.min_replicas,
            max_replicas=shape.max_replicas,
            target_ongoing_requests=shape.rows_per_replica,
            upscale_delay_s=shape.upscale_delay_s,
            downscale_delay_s=shape.downscale_delay_s,
            look_back_period_s=shape.look_back_s,
            policy=AutoscalingPolicy(policy_function=replicas_for_rows),
        ),
        max_ongoing_requests=settings.answers_at_once,  # beyond it the next replica of the ring is asked
        max_queued_requests=settings.answers_at_once,  # at a gateway; beyond it 503
        graceful_shutdown_timeout_s=settings.answer_s + _MORE_S,
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=5.0,
        request_router_config=RequestRouterConfig(request_router_class=ReplicaRouter),
    )
    gateways = serve.deployment(
        serve.ingress()(Gateway),
        name="Gateway",
        ray_actor_options={"num_cpus": 0.1},
        autoscaling_config=AutoscalingConfig(
            min_replicas=1, max_replicas=shape.max_gateways, target_ongoing_requests=_REQUESTS_PER_GATEWAY
        ),
        max_ongoing_requests=int(4 * _REQUESTS_PER_GATEWAY),
        graceful_shutdown_timeout_s=settings.answer_s + 2 * _MORE_S,
        graceful_shutdown_wait_loop_s=0.5,
    )
    return gateways.bind(replicas.bind(make_pool, settings), settings)


class _MarkedReplica(Replica):
    """A replica that is marked as Ray Serve calls it; its access lines go to the actor's stdout."""

    def __init__(self, make_pool: Callable[[], MemoryPool], settings: ServerSettings) -> None:
        access = logging.getLogger("plume_memory.server.access")
        access.addHandler(logging.StreamHandler(sys.stdout))
        access.setLevel(logging.INFO)
        access.propagate = False
        super().__init__(make_pool, settings, serve.get_replica_context().replica_id.unique_id)


def pool_of(db: str, artifacts: str, model: str, hypernetwork: str, connections: int) -> MemoryPool:
    """Make a replica's pool."""
    return MemoryPool(
        db,
        model=model,
        hypernetwork=hypernetwork,
        artifacts=artifacts,
        max_update_chars=UPDATE_CHARS,
        connections=connections,
    )


def check_shared(db: str) -> None:
    """Refuse a database that is one machine's own.

    Raises:
        InvalidInput: it is a file, or in memory.
    """
    if db.startswith("sqlite"):
        raise InvalidInput(
            "Replicas share their log: give the URL of a PostgreSQL database. A SQLite file is one machine's, "
            "`plume serve` without --ray is for it."
        )

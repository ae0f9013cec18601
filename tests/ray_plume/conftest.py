"""Two replicas on tiny models, one PostgreSQL database, one folder of artifacts: a cluster of Ray on this machine."""

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from plume_memory.pool import MemoryPool

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the parameters of `importlib` mode do not reach the actors, and this does not need to

from tests.postgres import PostgresServer  # noqa: E402


@dataclass(frozen=True)
class Cluster:
    """A cluster that serves."""

    url: str
    make_pool: Callable[[], MemoryPool]

    def client(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=300, trust_env=False, **options)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Started once: a replica is a process that imports torch."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S"] = "0.5"
    for what in ("READY_CHECK", "HEALTH_CHECK"):  # on a busy machine Ray kills its own proxy after three times 5 s
        os.environ[f"RAY_SERVE_PROXY_{what}_TIMEOUT_S"] = "300"
    import ray
    from ray import serve
    from ray_plume import Shape, application

    from plume_memory.server.settings import ServerSettings

    with PostgresServer.running() as postgres, tempfile.TemporaryDirectory(prefix="plume-ray-") as folder:
        url = postgres.url(postgres.create_database())

        def make_pool() -> MemoryPool:  # sent by value: it imports in the replica what it needs
            import torch

            from plume_memory.policy import AnswerPolicy
            from plume_memory.pool import MemoryPool
            from plume_memory.testing import tiny_engine

            torch.set_num_threads(1)
            policy = AnswerPolicy(max_new_tokens=24, unit_tokens=64)
            return MemoryPool(url, engine=tiny_engine(policy=policy), artifacts=f"{folder}/artifacts", connections=4)

        with make_pool() as pool:
            pool.database.upgrade()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'integrations'}"}
        ray.init(
            include_dashboard=False,
            num_cpus=8,  # counted, not had
            object_store_memory=100 << 20,
            log_to_driver=False,
            runtime_env={"env_vars": environment},
        )
        try:
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            settings = ServerSettings(requests_per_minute=100_000, rows_per_minute=100_000)
            shape = Shape(
                min_replicas=2,
                max_replicas=3,
                rows_per_replica=4,
                upscale_delay_s=0,
                downscale_delay_s=4,  # longer than a process may be silent on a busy machine
                look_back_s=2,
                cpus=0.5,
            )
            serve.run(application(make_pool, settings, shape), name="plume")
            yield Cluster(f"http://127.0.0.1:{port}", make_pool)
            serve.shutdown()
        finally:
            ray.shutdown()

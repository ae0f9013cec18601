"""Requests a second and their latency: replicas on Ray Serve, on this machine, one against several.

    python bench/cluster.py --db postgresql://… --replicas 2 [--memories 16] [--clients 8] [--seconds 30]

Each replica has one thread of PyTorch. Each memory is told one fact and asked about it, over HTTP, by as many clients
as are said, for so long; the first question of each is not counted. `look` is a request that asks no model. One JSON
line for the number of replicas: run it for each.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import httpx2
import ray
from ray import serve
from ray_plume import Shape, application
from ray_plume.application import pool_of

from plume_memory.server.settings import ServerSettings

PORT = 8265
TOWNS = ("Bern", "Porto", "Lyon", "Graz", "Turin", "Cork", "Bonn", "Nantes", "Ghent", "Leeds")
LOOKS = 100


def main() -> None:
    """Start, time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True, help="of PostgreSQL; memories are added to it")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--memories", type=int, default=16)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--model", default="smollm2-135m")
    asked = parser.parse_args()
    paths = os.pathsep.join(str(Path(__file__).parents[1] / name) for name in (".", "integrations"))
    ray.init(
        include_dashboard=False,
        num_cpus=asked.replicas + 2,  # counted, not had
        log_to_driver=False,
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}},
    )
    with tempfile.TemporaryDirectory() as artifacts:
        make_pool = partial(pool_of, asked.db, artifacts, asked.model, "auto", 8)
        settings = ServerSettings(requests_per_minute=1_000_000, rows_per_minute=1_000_000)
        shape = Shape(min_replicas=asked.replicas, max_replicas=asked.replicas)
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        serve.run(application(make_pool, settings, shape), name="plume")
        print(json.dumps(_measured(asked)))
        serve.shutdown()
    ray.shutdown()


def _measured(asked: argparse.Namespace) -> dict[str, float | int | str]:
    with httpx2.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=120, trust_env=False) as client:
        marks = set()
        paths = []
        for n in range(asked.memories):
            made = client.post("/v1/memories", json={"name": f"user {n} {time.time_ns()}"}).json()
            paths.append(f"/v1/memories/{made['id']}")
            client.post(f"{paths[-1]}/updates", json={"text": f"I live in {TOWNS[n % len(TOWNS)]}."}).raise_for_status()
            first = client.post(f"{paths[-1]}/ask", json={"question": "Where do I live?"}).json()
            marks.add(first["trace_id"][4:12])
        looks = [_seconds(lambda: client.get(paths[0])) for _ in range(LOOKS)]

        took: list[float] = []
        numbers = iter(range(1 << 30))
        taking, end = threading.Lock(), time.perf_counter() + asked.seconds

        def ask_on() -> None:
            while time.perf_counter() < end:
                with taking:
                    path = paths[next(numbers) % len(paths)]
                took.append(_seconds(partial(client.post, f"{path}/ask", json={"question": "Where do I live?"})))

        begun = time.perf_counter()
        with ThreadPoolExecutor(asked.clients) as threads:
            for one in [threads.submit(ask_on) for _ in range(asked.clients)]:
                one.result()
        seconds = time.perf_counter() - begun
    return {
        "replicas": asked.replicas,
        "replicas_used": len(marks),
        "cores": os.cpu_count() or 0,
        "model": asked.model,
        "memories": asked.memories,
        "clients": asked.clients,
        "questions": len(took),
        "questions_per_s": round(len(took) / seconds, 2),
        "median_s": round(statistics.median(took), 2),
        "p90_s": round(statistics.quantiles(took, n=10)[-1], 2),
        "look_median_ms": round(1000 * statistics.median(looks), 1),
    }


def _seconds(call: Callable[[], httpx2.Response]) -> float:
    begun = time.perf_counter()
    call().raise_for_status()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()

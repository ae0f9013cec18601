"""A writer that is killed at a random moment has lost nothing that it acknowledged."""

import os
import random
import signal
import subprocess
import sys
import time

from plume_memory.store.database import Database
from plume_memory.store.log import Log

DATABASES = ("sqlite", "postgresql")
KILLS = 200 if os.environ.get("PLUME_SOAK") == "1" else 6

WRITER = """
import sys
from plume_memory.store.database import Database
from plume_memory.store.log import Log
url, name = sys.argv[1:]
with Database(url) as database:
    log = Log(database)
    for i in range(100_000):
        version = log.append("alice", f"{name} {i}", idempotency_key=f"{name} {i}")
        print(version.number, f"{name} {i}", flush=True)
"""


def test_a_killed_writer_loses_nothing_it_acknowledged(url: str):
    rng = random.Random(5)
    acknowledged: dict[int, str] = {}
    for turn in range(KILLS):
        command = [sys.executable, "-c", WRITER, url, f"turn{turn}"]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        # The first line says that the writer is at work; then it is killed at a random moment.
        lines = [writer.stdout.readline()]
        time.sleep(rng.uniform(0, 0.06))
        writer.send_signal(signal.SIGKILL)
        lines += writer.communicate()[0].splitlines(keepends=True)
        for line in lines:
            if line.endswith("\n"):
                number, text = line.strip().split(" ", 1)
                acknowledged[int(number)] = text
    with Database(url) as database:
        log = Log(database)
        found = log.versions("alice")
        assert log.verify("alice") == len(found)
    texts = {version.number: version.text for version in found}
    assert len(acknowledged) >= KILLS
    assert acknowledged.items() <= texts.items()
    assert len(set(texts.values())) == len(texts)
    # Per kill, one version at most was written without its acknowledgement reaching anyone.
    assert len(texts) - len(acknowledged) <= KILLS

"""A process that raises children to be killed: torch is imported once, every child is a fork of it.

Reads one JSON object per line from its standard input, forks a child for it, kills it (SIGKILL) after the job's
`kill_after` seconds unless that is null, and writes how it ended. A child runs one job (`live` or `migrate`) and says
after every step that the step is done: one line in a file, the acknowledgement that must never be taken back.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from plume_memory.errors import PlumeError
from plume_memory.forks import ModelLock
from plume_memory.memory import ParametricMemory
from plume_memory.store.database import Database
from plume_memory.testing import tiny_engine

sys.path.insert(0, str(Path(__file__).parent))
from plan import Step, plan

QUESTIONS = ("Where does Alice Keller live?", "Who lives in Zug?")


def live(job: dict[str, Any], engine: Any) -> None:
    """Take the steps of a plan from the first that is not acknowledged on, then answer."""
    # one thread of PyTorch's, so nothing of it is missing here: the model may be used in this fork
    object.__setattr__(engine.base, "lock", ModelLock())
    acknowledged = Path(job["acknowledged"])
    done = len(acknowledged.read_text().splitlines()) if acknowledged.exists() else 0
    with ParametricMemory.open("alice", url=job["url"], artifacts=job["artifacts"], engine=engine) as memory:
        with acknowledged.open("a") as said:
            for step in plan(job["seed"], job["steps"])[done:]:
                number = take(memory, step)
                if number != step.number:
                    raise AssertionError(f"{step} made version {number}")
                said.write(f"{number}\n")
                said.flush()
        memory.verify()
        answers = [memory.ask(question).text for question in QUESTIONS]
    Path(job["answers"]).write_text(json.dumps(answers))


def take(memory: ParametricMemory, step: Step) -> int:
    """Take one step, or find that it was taken before the process was killed."""
    key = f"step {step.number}"
    if step.kind == "update":
        return memory.update(step.text, idempotency_key=key).number
    if step.kind == "forget":
        return memory.forget(step.names, idempotency_key=key).number
    if step.kind == "erase":
        return memory.erase(step.names, idempotency_key=key).version
    # A rollback has no key: whoever repeats it looks first.
    return memory.version if memory.version >= step.number else memory.rollback(to=step.names).number


def migrate(job: dict[str, Any]) -> None:
    """Bring a database to the newest schema."""
    with Database(job["url"]) as database:
        database.upgrade()


def main() -> None:
    """Serve jobs until the input ends."""
    torch.set_num_threads(1)
    engine = tiny_engine(additive=True)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                migrate(job) if job["kind"] == "migrate" else live(job, engine)
            except (PlumeError, AssertionError):
                Path(job["failed"]).write_text(traceback.format_exc())
                os._exit(3)
            os._exit(0)
        sys.stdout.write(f"{ended(pid, job['kill_after'])}\n")
        sys.stdout.flush()


def ended(pid: int, kill_after: float | None) -> int:
    """Wait for a child, no longer than asked; returns its exit code, −9 when it was killed."""
    if kill_after is not None:
        end = time.monotonic() + kill_after
        while time.monotonic() < end:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)  # not waited for yet, so the pid is still its own
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    main()

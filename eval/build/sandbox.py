"""Programs of a data set, executed for their reference answers.

Guaranteed, on Linux: a wall-clock limit that ends the process group; limits of the kernel on processor time, memory,
file size (0), open files and processes (0; root is dropped to `nobody` first, whom the limit binds); an empty
environment, a temporary working directory, no site packages; a bounded result.

Refused by an audit hook inside the interpreter: sockets, subprocesses, exec, fork, system, every file opened, every
import that is not one of `IMPORTS`, ctypes. Where the kernel allows it the process also has a network namespace of its
own, in which no route leads anywhere; `Execution.network` says which of the two holds.

NOT guaranteed: this is a fence around programs that a language model revised, not a jail for hostile ones. The hook
lives in the interpreter it guards, so code that breaks the interpreter's memory breaks the hook; there is no mount
namespace and no seccomp filter. Run untrusted builds in a container.
"""

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eval.build.words import listed
from plume_memory.errors import InvalidInput

Status = Literal["returned", "raised", "timeout", "memory", "refused", "output", "crashed"]

IMPORTS = frozenset(
    listed(
        "ast bisect collections copy datetime functools heapq itertools math operator random re statistics string "
        "textwrap typing"
    )
)
"""What a program may import: modules that compute and touch nothing outside the process."""

_CHILD = Path(__file__).with_name("sandbox_child.py")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one execution may use."""

    wall_s: float = 30.0
    """Generous: a busy machine must not make a program wrong; a loop ends by `cpu_s`."""
    cpu_s: int = 4
    memory_bytes: int = 512 * 2**20
    """Of address space, interpreter included."""
    result_chars: int = 20_000


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Execution:
    """How a program ended."""

    status: Status
    value: str = ""
    """`repr` of what f returned; empty unless `status` is "returned"."""
    message: str = ""
    """What went wrong otherwise."""
    network: Literal["namespace", "hook"] | None = None
    """What kept the process off the network; None where it did not live to say."""


def call_f(code: str, arguments: str, limits: Limits = DEFAULT_LIMITS) -> Execution:
    """Execute a program that defines f, and call `f(arguments)` once.

    Raises:
        InvalidInput: this is no Linux machine, so that the limits do not exist.
    """
    if sys.platform != "linux":
        raise InvalidInput(f"Programs are executed on Linux only, for its limits; this is {sys.platform}.")
    refused = _refused_before_running(code, arguments)
    if refused is not None:
        return refused
    job = {"code": code, "arguments": arguments, "cpu_s": limits.cpu_s, "memory_bytes": limits.memory_bytes}
    reply = _run(json.dumps(job | {"result_chars": limits.result_chars}).encode(), limits)
    if reply.killed:
        return Execution("timeout", message=f"no result within {limits.wall_s} s")
    if len(reply.stdout) > _most_bytes(limits):
        return Execution("output", message=f"more than {_most_bytes(limits)} bytes were written")
    try:
        return Execution(**json.loads(reply.stdout))
    except (ValueError, TypeError):
        return _without_result(reply.returncode, limits)


def literal_equal(one: str, other: str) -> bool:
    """Whether two results are equal as Python literals, by type too, at every depth; as texts where they are none."""
    try:
        a, b = ast.literal_eval(one.strip()), ast.literal_eval(other.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return one.strip() == other.strip()
    return _typed(a) == _typed(b)


def _typed(value: object) -> tuple[str, object]:
    """A literal as something hashable in which 1, 1.0 and True differ at every depth, as Python's own == has it not."""
    content: object = value
    if isinstance(value, list | tuple):
        content = tuple(_typed(one) for one in value)
    elif isinstance(value, set):
        content = frozenset(_typed(one) for one in value)
    elif isinstance(value, dict):
        content = frozenset((_typed(key), _typed(one)) for key, one in value.items())
    return type(value).__name__, content


@dataclass(frozen=True, slots=True)
class _Reply:
    stdout: bytes
    returncode: int
    killed: bool


def _refused_before_running(code: str, arguments: str) -> Execution | None:
    try:
        nodes = [*ast.walk(ast.parse(code)), *ast.walk(ast.parse(f"f({arguments})", mode="eval"))]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        return Execution("raised", message=f"{type(err).__name__}: {err}")
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names = [node.module or "."] if isinstance(node, ast.ImportFrom) else names
        for name in names:
            if name.split(".")[0] not in IMPORTS:
                return Execution("refused", message=f"the program imports {name}; allowed are {sorted(IMPORTS)}")
    return None


def _run(job: bytes, limits: Limits) -> _Reply:
    killed = threading.Event()
    with tempfile.TemporaryDirectory(prefix="muse-sandbox-") as folder:
        process = subprocess.Popen(
            # -I without the -E that it implies: the order of a set must not differ from run to run
            [sys.executable, "-s", "-P", "-S", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PYTHONHASHSEED": "0"},
            start_new_session=True,
        )

        def kill() -> None:
            killed.set()
            _kill_group(process)

        watchdog = threading.Timer(limits.wall_s, kill)
        watchdog.start()
        try:
            stdout = _exchange(process, job, _most_bytes(limits) + 1)
            if len(stdout) > _most_bytes(limits):
                _kill_group(process)
            process.wait()  # ends: the watchdog is still there
        finally:
            watchdog.cancel()
            _kill_group(process)
            process.wait()
    return _Reply(stdout, process.returncode, killed.is_set())


def _exchange(process: "subprocess.Popen[bytes]", job: bytes, most: int) -> bytes:
    """Hand the job over and read until the end or until there is too much; the watchdog ends a silent child."""
    assert process.stdin is not None  # both were asked for as pipes
    assert process.stdout is not None
    with process.stdout as stdout:
        try:
            with process.stdin as stdin:
                stdin.write(job)
        except BrokenPipeError:
            return b""  # it died before it read: the return code says how
        read = b""
        while len(read) < most and (part := stdout.read(most - len(read))):
            read += part
        return read


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it ended in between


def _without_result(returncode: int, limits: Limits) -> Execution:
    if returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return Execution("timeout", message=f"more than {limits.cpu_s} s of processor time")
    return Execution("crashed", message=f"the process ended with status {returncode} and no result")


def _most_bytes(limits: Limits) -> int:
    """The longest reply: every character of a result may need 12 bytes in ASCII JSON."""
    return 12 * limits.result_chars + 4096

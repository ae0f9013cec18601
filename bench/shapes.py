"""Models and Doc-to-LoRA checkpoints of the published shapes, with random weights: do they fit, and what do they take?

    python bench/shapes.py arithmetic                  # bytes of each part, from the shapes alone: nothing is allocated
    python bench/shapes.py make gemma-2-2b --work FOLDER
    python bench/shapes.py run gemma-2-2b --work FOLDER [--device cuda] [--tokens 2]

`make` writes the model's folder (bfloat16) and a checkpoint in the reference's pickle format to where the hub's client
looks for them; `run` goes the whole way without the hub: `plume models convert`, `Engine.load` by the model's own name,
two updates, a question, an adapter for vLLM. Answers are gibberish: what is learnt is whether every shape fits, and
memory and seconds here. The tokenizer is one of bytes: a text has about four times its usual tokens.
JSON lines, raw. Sizes: the models' public config.json; of the checkpoint the reference's training configurations.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from plume_memory.hypernet.d2l.config import D2LConfig, ModuleShape
from plume_memory.hypernet.d2l.network import D2LNetwork
from plume_memory.model.hub import named_source
from plume_memory.testing import byte_tokenizer
from tests.hypernet import conftest as reference

LATENT, RANK, QUERIES, BLOCKS, PRE_HEAD = 512, 8, 8, 9, 1
"""Of the reference's configurations for both models (configs/main_exp)."""
HEADS, KV_HEADS, HEAD = 16, 4, 128
ROWS, TOKENS = 2, 1024
"""Of the table: decode rows of one question, and tokens that each holds."""
CHUNK = 8192
"""Tokens of a history that the network sees at once, by the default policy."""
SHARD_BYTES = 2 << 30
GIB = 2**30


@dataclass(frozen=True)
class Shape:
    """A base model of `plume models`."""

    kind: Any
    sizes: dict[str, Any]

    def config(self, **more: Any) -> Any:
        """Its config, in Hugging Face's class."""
        return self.kind(**self.sizes, tie_word_embeddings=True, rms_norm_eps=1e-6, **more)


SHAPES = {
    "qwen3-4b": Shape(
        hf.Qwen3Config,
        {
            "vocab_size": 151_936,
            "hidden_size": 2560,
            "intermediate_size": 9728,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 262_144,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5_000_000.0},
        },
    ),
    "gemma-2-2b": Shape(
        hf.Gemma2Config,
        {
            "vocab_size": 256_000,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "max_position_embeddings": 8192,
            "sliding_window": 4096,
            "query_pre_attn_scalar": 256,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        },
    ),
}


def network_config(shape: Shape) -> D2LConfig:
    """The published network for a model of these sizes."""
    hidden, inner, layers = (shape.sizes[f"{n}"] for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    return D2LConfig(
        hidden_size=hidden,
        latent_size=LATENT,
        rank=RANK,
        lora_alpha=2 * RANK**1.5,
        layers=tuple(range(layers)),
        modules=(ModuleShape(name="down_proj", path="mlp.down_proj", d_in=inner, d_out=hidden),),
        latent_queries=QUERIES,
        heads=HEADS,
        kv_heads=KV_HEADS,
        head_size=HEAD,
        projection_size=4 * hidden,
        mlp_size=4 * LATENT,
        encoder_layers=("cross",) * BLOCKS,
        encoder_order=tuple(range(BLOCKS)),
        decoder_layers=("cross",),
        decoder_order=(0,),
        pre_head_blocks=PRE_HEAD,
        pre_head_size=4 * LATENT,
        per_layer_pre_head=True,
        use_bias=True,
    )


def arithmetic(name: str) -> dict[str, Any]:
    """Bytes of every part, from the shapes alone."""
    shape = SHAPES[name]
    with torch.device("meta"):
        model = hf.AutoModelForCausalLM.from_config(shape.config())
        network = D2LNetwork(network_config(shape))
    parameters = sum(p.numel() for p in model.parameters())  # what is tied is there once
    perceiver = sum(p.numel() for p in network.perceiver.parameters())
    others = sum(p.numel() for p in network.parameters()) - perceiver
    s = shape.sizes
    layers, hidden, inner = s["num_hidden_layers"], s["hidden_size"], s["intermediate_size"]
    kv = 2 * layers * s["num_key_value_heads"] * s["head_dim"] * 2
    chunk = layers * RANK * (inner + hidden)
    weights, hypernetwork = 2 * parameters, 2 * perceiver + 4 * others
    # the adapter of a row: the history's chunks and the bias block; here of eight chunks, the most that was trained
    row = ROWS * (TOKENS * kv + 2 * (8 + 1) * chunk)
    head = LATENT * layers * (inner + hidden)
    # one layer over the longest chunk: the MLP's three; where scores are capped, they too, as their sum and weights
    chunk_bytes = 3 * CHUNK * inner * 2
    if "attn_logit_softcapping" in s:
        chunk_bytes = max(chunk_bytes, s["num_attention_heads"] * CHUNK**2 * (2 + 2 + 4 + 2))
    return {
        "part": "arithmetic",
        "model": name,
        "parameters": parameters,
        "weights_bf16_bytes": weights,
        "kv_bytes_per_token_bf16": kv,
        "hypernetwork_parameters": perceiver + others,
        "hypernetwork_bytes_on_cuda": hypernetwork,
        "checkpoint_bytes_float32": 4 * (perceiver + others),
        "of_it_the_head_bytes": 4 * head,
        "factors_bytes_per_chunk_float32": 4 * chunk,
        "one_question_bytes": row,
        "update_of_8192_tokens_bytes": chunk_bytes,
        "gpu_bytes_1_question": weights + hypernetwork + row,
        "gpu_bytes_16_questions": weights + hypernetwork + 16 * row,
        "gpu_bytes_longest_update": weights + hypernetwork + chunk_bytes,
    }


class Peak:
    """The most memory a process has: all of it, and without what is mapped from files."""

    def __init__(self) -> None:
        self.private = 0
        self._is_over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._is_over.wait(0.1):
            self.private = max(self.private, status_kib("RssAnon"))

    def row(self) -> dict[str, float]:
        """In GiB."""
        return {"peak_gib": round(status_kib("VmHWM") / 2**20, 2), "peak_private_gib": round(self.private / 2**20, 2)}


def status_kib(name: str) -> int:
    """A line of this process's status."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def write_model(shape: Shape, folder: Path) -> None:
    """A model's folder with random weights, a file at a time: never all of it in memory."""
    folder.mkdir(parents=True)
    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(folder)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": 0}
    shape.config(**ends, dtype="bfloat16").save_pretrained(folder)
    with torch.device("meta"):
        model = hf.AutoModelForCausalLM.from_config(shape.config())
    left = dict(model.named_parameters())  # the head is tied, and left out
    where: dict[str, str] = {}
    for number, names in enumerate(_files({name: 2 * tensor.numel() for name, tensor in left.items()})):
        file = f"model-{number:05}.safetensors"
        save_file({name: _drawn(name, left[name].shape) for name in names}, folder / file, {"format": "pt"})
        where |= dict.fromkeys(names, file)
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def _files(sizes: dict[str, int]) -> Iterator[list[str]]:
    names: list[str] = []
    for name, size in sizes.items():
        if names and sum(sizes[each] for each in names) + size > SHARD_BYTES:
            yield names
            names = []
        names.append(name)
    yield names


def _drawn(name: str, shape: torch.Size) -> torch.Tensor:
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=torch.bfloat16)
    return torch.empty(shape, dtype=torch.bfloat16).normal_(std=0.02)


def write_checkpoint(shape: Shape, file: Path) -> None:
    """A checkpoint as the reference pickles it."""
    hidden, inner = shape.sizes["hidden_size"], shape.sizes["intermediate_size"]
    reference.D_IN["down_proj"], reference.D_OUT["down_proj"] = inner, hidden
    recipe = reference.Recipe(
        latent=LATENT,
        hidden=hidden,
        rank=RANK,
        queries=QUERIES,
        blocks=BLOCKS,
        layers=shape.sizes["num_hidden_layers"],
        pre_head=PRE_HEAD,
        q_width=HEADS * HEAD,
        k_width=KV_HEADS * HEAD,
    )
    made = reference.make_reference(recipe)
    made.tensors["scaler_B.down_proj"].mul_(0.001)  # as drawn it would drown the model in noise
    file.parent.mkdir(parents=True)
    made.save(file)


def hub_folder(cache: Path, repo: str) -> Path:
    """Where the hub's client keeps a repository, made so that it finds it offline."""
    kept = cache / f"models--{repo.replace('/', '--')}"
    (kept / "refs").mkdir(parents=True, exist_ok=True)
    (kept / "refs" / "main").write_text("0" * 40, encoding="ascii")
    return kept / "snapshots" / ("0" * 40)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def prepare(name: str, work: Path) -> None:
    """Write model and checkpoint to where `Engine.load(name)` finds them; what is there stays."""
    source = named_source(name)
    assert source is not None
    assert source.checkpoint is not None
    assert isinstance(source.origin, str)
    model = hub_folder(work / "hub", source.origin)
    if not model.exists():
        write_model(SHAPES[name], model)
    checkpoint = hub_folder(work / "hub", source.checkpoint.repo) / source.checkpoint.filename
    if not checkpoint.exists():
        write_checkpoint(SHAPES[name], checkpoint)
    print(json.dumps({"part": "made", "model": name, "model_bytes": size_of(model), "checkpoint": str(checkpoint)}))


def run(name: str, work: Path, device: str, tokens: int) -> None:
    """The whole way, timed; one JSON line a step."""
    from plume_memory import Engine, ParametricMemory  # noqa: PLC0415 — not needed to make a model
    from plume_memory.cli.main import main  # noqa: PLC0415 — as above
    from plume_memory.hypernet.d2l.checkpoint import Manifest  # noqa: PLC0415 — as above
    from plume_memory.policy import AnswerPolicy  # noqa: PLC0415 — as above

    source = named_source(name)
    assert source is not None
    assert source.checkpoint is not None
    checkpoint = hub_folder(work / "hub", source.checkpoint.repo) / source.checkpoint.filename
    for left in ("converted", "cache", "artifacts", "adapter", "log.db"):
        shutil.rmtree(work / left, ignore_errors=True)
        (work / "log.db").unlink(missing_ok=True)
    peak = Peak()

    @contextmanager
    def step(part: str, **more: Callable[[], Any]) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        seconds = round(time.perf_counter() - begun, 2)
        gpu = {"peak_gpu_gib": round(torch.cuda.max_memory_allocated() / GIB, 2)} if device == "cuda" else {}
        row = {"part": part, "model": name, "device": device, "threads": torch.get_num_threads(), "seconds": seconds}
        print(json.dumps(row | peak.row() | gpu | {key: read() for key, read in more.items()}), flush=True)

    converted = work / "converted"
    with step("convert", pickle_bytes=lambda: size_of(checkpoint), bytes=lambda: size_of(converted)):
        assert main(["models", "convert", str(checkpoint), str(converted)]) == 0
    found = Manifest.model_validate_json((converted / "config.json").read_bytes()).network
    assert found == network_config(SHAPES[name]), found
    shutil.rmtree(converted)
    with step("load, with its conversion"):
        engine = Engine.load(
            name, device=device, dtype="bfloat16", cache=work / "cache", policy=AnswerPolicy(max_new_tokens=tokens)
        )
    artifacts = work / "artifacts"
    with ParametricMemory.open(
        "ann", url=f"sqlite:///{work / 'log.db'}", artifacts=str(artifacts), engine=engine
    ) as memory:
        with step("first update", artifact_bytes=lambda: size_of(artifacts)):
            memory.update("Ann lives in Bern.")
        with step("second update", artifact_bytes=lambda: size_of(artifacts)):
            memory.update("Ann has moved to Oslo.")
        for part in ("first question", "second question"):
            with step(part):
                answer = memory.ask("Where does Ann live?", unknown="bare")
                assert answer.version == 2
        with step("adapter for vLLM", bytes=lambda: size_of(work / "adapter")):
            memory.export_adapter(work / "adapter", format="vllm")


def cli() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["arithmetic", "make", "run"])
    parser.add_argument("model", nargs="?", choices=sorted(SHAPES))
    parser.add_argument("--work", type=Path, default=Path("shapes"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=2)
    asked = parser.parse_args()
    if asked.what == "arithmetic":
        for name in [asked.model] if asked.model else SHAPES:
            print(json.dumps(arithmetic(name)))
        return
    if asked.model is None:
        parser.error("name a model")
    work = asked.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if asked.what == "make":
        prepare(asked.model, work)
        return
    needed = {"HF_HUB_CACHE": str(work / "hub"), "HF_HUB_OFFLINE": "1", "PLUME_CACHE": str(work / "cache")}
    if os.environ.get("HF_HUB_CACHE") != needed["HF_HUB_CACHE"]:  # the hub's client read it when it was imported
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | needed)
    print(json.dumps({"part": "machine", "torch": torch.__version__, "processor": platform.machine()}))
    run(asked.model, work, asked.device, asked.tokens)


if __name__ == "__main__":
    cli()

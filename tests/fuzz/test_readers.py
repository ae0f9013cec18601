"""Whatever bytes a file holds: its reader returns something or raises one of our errors, and executes nothing of it.

Valid files are damaged: cut, flipped, spliced, blown up; documents of JSON have values replaced, removed and nested.
A short pass by default, `make soak` (PLUME_SOAK=1) takes forty times as many; PLUME_SEED=7 draws others.
"""

import hashlib
import importlib.util
import io
import json
import os
import pickletools
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from safetensors import torch as safetensors

from plume_memory.errors import CheckpointError, InvalidInput, PlumeError
from plume_memory.hypernet.d2l.checkpoint import convert
from plume_memory.hypernet.d2l.checkpoint import load as load_d2l
from plume_memory.hypernet.d2l.pickle_reader import read_checkpoint
from plume_memory.hypernet.fastweight import checkpoint as fastweight
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.importers.letta import import_letta
from plume_memory.importers.mem0 import import_mem0
from plume_memory.lora import files
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.prefix import KVPrefix
from plume_memory.store.archive import write_archive
from plume_memory.store.archive_reading import read_archive
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.training.overrides import read_settings
from plume_memory.training.settings import TrainSettings

SOAK = os.environ.get("PLUME_SOAK") == "1"
SEED = int(os.environ.get("PLUME_SEED", "20261121"))
TIMES = 40 if SOAK else 1
pytestmark = pytest.mark.timeout(20 * TIMES)

_Test = TypeVar("_Test", bound=Callable[..., None])
LENGTHS = (b"\xff" * 4, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\0\0\0\0\x40", b"\0" * 8)


def fuzzed(examples: int) -> Callable[[_Test], _Test]:
    """Run a test on so many examples, times forty in a soak."""

    def decorate(test: _Test) -> _Test:
        chosen = settings(
            max_examples=examples * TIMES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        return seed(SEED)(chosen(test))

    return decorate


def _module(path: Path, name: str) -> ModuleType:
    """Import a file that lies on no import path."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# --- damage -------------------------------------------------------------------------------------


def places(size: int) -> st.SearchStrategy[int]:
    """Draw a place in bytes; the beginning and the end, where lengths and tables stand, come more often."""
    return st.integers(0, size) | st.integers(0, min(size, 300)) | st.integers(max(0, size - 600), size)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a few changes to bytes."""
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted((draw(places(len(content))), draw(places(len(content)))))
        change = draw(st.sampled_from(["cut", "flip", "overwrite", "insert", "double", "remove", "move", "length"]))
        if change == "cut":
            content = content[:at]
        elif change == "flip" and at < len(content):
            content = content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]
        elif change in ("overwrite", "insert", "length"):
            new = draw(st.sampled_from(LENGTHS) if change == "length" else st.binary(min_size=1, max_size=12))
            content = content[:at] + new + content[at + (0 if change == "insert" else len(new)) :]
        elif change in ("double", "remove"):
            content = content[:end] + (content[at:] if change == "double" else content[end + (end - at) :])
        else:
            content = content[:at] + content[end:] + content[at:end]
    return content


NESTED = "[" * 100_000 + "]" * 100_000
"""Deeper than any parser's recursion."""
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**40, -1, "\ud800", "a\x00b", "../../x", "9999-12-31T23:59:59-23:59"])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """Draw a copy of a JSON document with a value somewhere in it replaced, removed, added or doubled."""
    if isinstance(document, dict) and document and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(document)))
        inside = draw(altered(document[key]))
        rest = {name: value for name, value in document.items() if name != key}
        change = draw(st.sampled_from(["keep", "keep", "keep", "remove", "rename"]))
        return rest if change == "remove" else {**rest, key if change == "keep" else draw(st.text(max_size=5)): inside}
    if isinstance(document, list) and document and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(document) - 1))
        change = draw(st.sampled_from(["alter", "alter", "remove", "double"]))
        middle = {"remove": [], "double": [document[at]] * 2}.get(change) if change != "alter" else None
        return [*document[:at], *([draw(altered(document[at]))] if middle is None else middle), *document[at + 1 :]]
    return draw(VALUES)


def as_json(document: Any) -> bytes:
    """Write what may hold half a character or NaN, as a hostile file does."""
    return json.dumps(document).encode()


def read_or_refused(read: Callable[[], object]) -> None:
    """The claim of every test here: nothing but one of our errors comes out."""
    with suppress(PlumeError):
        read()


# --- safetensors: artifacts and prefixes --------------------------------------------------------


@cache
def factors() -> bytes:
    """A whole file of factors."""
    pair = Pair(torch.ones(2, 3, 4), torch.ones(2, 3, 5))
    return files.to_bytes(LoraFactors({"mlp.down_proj": pair}, (0, 2)), fingerprints={"model": "tiny"})


@cache
def prefix() -> bytes:
    """A whole compiled prefix."""
    return KVPrefix(torch.ones(2, 1, 3, 4), torch.zeros(2, 1, 3, 4)).to_bytes()


def use_prefix(content: bytes) -> None:
    """Read a prefix, and what its reader takes for granted."""
    found = KVPrefix.from_bytes(content)
    assert found.tokens == found.values.shape[2]


def with_header(content: bytes, header: Any) -> bytes:
    """Return a safetensors file with another header of the right length."""
    size = int.from_bytes(content[:8], "little")
    written = as_json(header)
    return len(written).to_bytes(8, "little") + written + content[8 + size :]


def header_of(content: bytes) -> Any:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


DTYPES = ("F4", "F6_E2M3", "F8_E8M0", "U64", "BOOL", "C64", "I8", "F64", "none")
READERS = {"factors": (factors, files.from_bytes), "prefix": (prefix, use_prefix)}


@pytest.mark.parametrize("kind", READERS)
@fuzzed(120)
@given(data=st.data())
def test_a_damaged_artifact_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    make, read = READERS[kind]
    content = data.draw(damaged(make()))
    read_or_refused(lambda: read(content))
    read_or_refused(lambda: files.read_fingerprints(content))


@pytest.mark.parametrize("kind", READERS)
@fuzzed(150)
@given(data=st.data())
def test_an_artifact_with_an_altered_header_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    make, read = READERS[kind]
    header = data.draw(altered(header_of(make())))
    if data.draw(st.booleans()) and isinstance(header, dict):
        entry = data.draw(st.sampled_from(sorted(set(header) - {"__metadata__"}) or [""]))
        if isinstance(header.get(entry), dict):
            header[entry]["dtype"] = data.draw(st.sampled_from(DTYPES))
    content = with_header(make(), header)
    read_or_refused(lambda: read(content))


@fuzzed(60)
@given(data=st.data())
def test_tensors_of_any_name_shape_and_dtype_are_factors_or_a_prefix_or_refused(data: st.DataObject) -> None:
    """The digest is right: nothing but the reader's own checks stands between such a file and the model."""
    names = st.sampled_from(["keys", "values", "x.A", "x.B", ".A", ".B", "A", ""])
    shapes = st.lists(st.integers(0, 3), max_size=5)
    dtypes = st.sampled_from([torch.float32, torch.bool, torch.int64, torch.float8_e5m2, torch.bfloat16])
    drawn = data.draw(st.dictionaries(names, st.tuples(shapes, dtypes), max_size=4))
    tensors = {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in drawn.items()}
    layers = data.draw(st.lists(st.integers(-1, 3), max_size=3))
    header = {"format": 1, "layers": layers, "scale": 1.0, "fingerprints": {}, "sha256": files._digest(tensors)}
    content = bytes(safetensors.save(tensors, {"plume": json.dumps(header)}))
    read_or_refused(lambda: files.from_bytes(content))
    read_or_refused(lambda: use_prefix(content))


@pytest.mark.parametrize("kind", READERS)
def test_a_header_nested_too_deeply_is_refused(kind: str) -> None:
    make, read = READERS[kind]
    content = len(NESTED).to_bytes(8, "little") + NESTED.encode()
    with pytest.raises(PlumeError):
        read(content + make())


# --- pickles ------------------------------------------------------------------------------------


@cache
def pickled() -> bytes:
    """A whole checkpoint in the reference's format."""
    recipes = _module(Path(__file__).parents[1] / "hypernet" / "conftest.py", "hypernet_recipes")
    with tempfile.TemporaryDirectory() as folder:
        return bytes(recipes.make_reference().save(Path(folder) / "m.bin").read_bytes())


def convert_or_refuse(content: bytes) -> None:
    """Convert bytes; a witness of executed code is looked for beside them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "m.bin").write_bytes(content)
        here = Path.cwd()
        os.chdir(folder)
        try:
            read_or_refused(lambda: convert(folder / "m.bin", folder / "out"))
        finally:
            os.chdir(here)
        assert {path.name for path in folder.iterdir()} <= {"m.bin", "out"}, "the pickle was executed"


def with_pickle(content: bytes) -> bytes:
    """Return the checkpoint with another pickle in it, its checksum right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(pickled())) as whole, zipfile.ZipFile(buffer, "w") as made:
        for name in whole.namelist():
            made.writestr(name, content if name.endswith("/data.pkl") else whole.read(name))
    return buffer.getvalue()


@cache
def the_pickle() -> bytes:
    with zipfile.ZipFile(io.BytesIO(pickled())) as whole:
        return whole.read(next(name for name in whole.namelist() if name.endswith("/data.pkl")))


@fuzzed(40)
@given(data=st.data())
def test_a_damaged_checkpoint_is_converted_or_refused(data: st.DataObject) -> None:
    convert_or_refuse(data.draw(damaged(pickled())))


@pytest.mark.parametrize(
    ("field", "content"),
    [(6, b"\xff\xff"), (8, b"\x01\x00"), (8, b"\x00\x08m/\xd1"), (10, b"\x63\x00"), (42, b"\xff\xff\xff\x7f")],
    ids=["version", "encrypted", "not UTF-8", "compression", "offset"],
)
def test_a_checkpoint_whose_table_says_what_torch_writes_never_is_refused(
    field: int, content: bytes, tmp_path: Path
) -> None:
    whole = bytearray(pickled())
    entry = whole.index(b"PK\x01\x02")
    whole[entry + field : entry + field + 2] = content[:2]
    if len(content) == 4:
        whole[entry + field : entry + field + 4] = content
    elif len(content) > 4:
        whole[entry + 46 : entry + 46 + len(content) - 2] = content[2:]
    (tmp_path / "m.bin").write_bytes(whole)
    with pytest.raises(CheckpointError):
        read_checkpoint(tmp_path / "m.bin")


@fuzzed(100)
@given(data=st.data())
def test_a_checkpoint_with_a_damaged_pickle_is_converted_or_refused(data: st.DataObject) -> None:
    convert_or_refuse(with_pickle(data.draw(damaged(the_pickle()))))


def test_a_string_with_an_escape_that_is_none_makes_python_warn_and_nobody_else():
    whole = the_pickle()
    convert_or_refuse(with_pickle(whole[:2] + b"S'\\o'\n0" + whole[2:]))  # pushed, and popped at once


TOUCH = b"X\x0d\x00\x00\x00touch witness"
GLOBALS = tuple(
    b"c" + name + b"\n"
    for name in (
        b"os\nsystem",
        b"builtins\neval",
        b"builtins\ngetattr",
        b"posix\nsystem",
        b"pathlib\nPath.touch",
        b"torch\nload",
        b"torch._utils\n_rebuild_tensor_v2",
        b"torch._utils\n_rebuild_parameter",
        b"torch\nFloatStorage",
        b"torch\nfloat32",
        b"torch\ndevice",
        b"collections\nOrderedDict",
        b"builtins\nset",
        b"ctx_to_lora.configs\nCtxEncoderArguments",
    )
)
STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\x00K\x02\x85K\x01\x85\x89}tR"
NUMBERS = (b"K\x01", b"J\xff\xff\xff\xff", b"G" + b"\x7f" * 8)
PARTS = (*GLOBALS, TOUCH, STORAGE, TENSOR, *NUMBERS, b"}", b"]", b")", b"N", b"\x89")
OPCODES = tuple(bytes(opcode.code, "latin-1") for opcode in pickletools.opcodes if opcode.arg is None)
SIZED = tuple(bytes(opcode.code, "latin-1") for opcode in pickletools.opcodes if opcode.arg is not None)


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """Draw a program for the pickle machine out of what a hostile one is made of."""
    parts = st.sampled_from(PARTS) | st.sampled_from(OPCODES)
    sized = st.builds(lambda code, argument: code + argument, st.sampled_from(SIZED), st.sampled_from(LENGTHS))
    written = draw(st.lists(parts | parts | parts | sized, max_size=25))
    return b"\x80\x02" + b"".join(written) + b"."


@fuzzed(400)
@given(program=programs())
def test_a_hostile_pickle_executes_nothing_and_is_refused(program: bytes) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("m/data.pkl", program)
        made.writestr("m/data/0", b"\0" * 16)
    convert_or_refuse(buffer.getvalue())


@pytest.mark.parametrize(
    "program",
    [
        b"r\xff\xff\xff\xff",  # LONG_BINPUT: a memo of four thousand million places
        b"p4294967295\n",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x3f",  # BINBYTES8
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x3f",  # BYTEARRAY8
        b"\x95\xff\xff\xff\xff\xff\xff\xff\x3f",  # FRAME
        b"\x8b\xff\xff\xff\x7f",  # LONG4
    ],
    ids=["LONG_BINPUT", "PUT", "BINBYTES8", "BYTEARRAY8", "FRAME", "LONG4"],
)
def test_a_pickle_that_says_it_is_huge_takes_no_memory(program: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.bin", "w") as made:
        made.writestr("m/data.pkl", b"\x80\x04}" + program + b".")
    with pytest.raises(PlumeError):
        read_checkpoint(tmp_path / "m.bin")


HUGE_VIEW = b"(" + STORAGE + b"K\x00J\xff\xff\xff\x7f\x85K\x01\x85tb"


@pytest.mark.parametrize("build", [b"(K\x00K\x01K\x02K\x03tb", HUGE_VIEW], ids=["numbers", "huge view"])
def test_a_tensor_that_is_given_a_state_is_refused(build: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.bin", "w") as made:
        made.writestr("m/data.pkl", b"\x80\x02}X\x01\x00\x00\x00x" + TENSOR + build + b"s.")
        made.writestr("m/data/0", b"\0" * 16)
    with pytest.raises(PlumeError):
        read_checkpoint(tmp_path / "m.bin")


def test_tuples_in_tuples_are_not_written_out_in_an_error(tmp_path: Path) -> None:
    """Forty of them, each twice in the next, are a few hundred bytes and a message of terabytes."""
    nested = b")" + b"2\x86" * 40
    for program in (nested + b"Q", b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\x00" + nested + b")\x89}tR"):
        with zipfile.ZipFile(tmp_path / "m.bin", "w") as made:
            made.writestr("m/data.pkl", b"\x80\x02" + program + b".")
            made.writestr("m/data/0", b"\0" * 16)
        with pytest.raises(PlumeError):
            read_checkpoint(tmp_path / "m.bin")


# --- networks and settings ----------------------------------------------------------------------


@cache
def network() -> dict[str, bytes]:
    """The files of a whole fast-weight network."""
    sizes = FastWeightConfig(
        hidden_size=8, intermediate_size=16, layers=(1,), rank=2, value_width=2, taps=2, mixer_width=8, mixer_layer=1
    )
    with tempfile.TemporaryDirectory() as folder:
        fastweight.save(FastWeightNetwork(sizes), Path(folder), base_model="tiny", max_tokens=40, shard_bytes=2000)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@cache
def converted() -> dict[str, bytes]:
    """The files of a converted checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m.bin").write_bytes(pickled())
        convert(Path(folder) / "m.bin", Path(folder) / "out")
        return {path.name: path.read_bytes() for path in sorted((Path(folder) / "out").iterdir())}


def load_either(folder: Path) -> None:
    """Load a folder as each kind of network that it may be taken for."""
    fastweight.is_fast_weight(folder)
    read_or_refused(lambda: fastweight.load(folder))
    read_or_refused(lambda: load_d2l(folder))


@pytest.mark.parametrize("kind", ["fast-weight", "converted"])
@fuzzed(100)
@given(data=st.data())
def test_a_network_with_an_altered_file_is_loaded_or_refused(kind: str, data: st.DataObject) -> None:
    content = dict(network() if kind == "fast-weight" else converted())
    name = data.draw(st.sampled_from(sorted(content)))
    if name.endswith(".json") and data.draw(st.booleans()):
        content[name] = as_json(data.draw(altered(json.loads(content[name]))))
    else:
        content[name] = data.draw(damaged(content[name]))
    with tempfile.TemporaryDirectory() as folder:
        for each, written in content.items():
            (Path(folder) / each).write_bytes(written)
        load_either(Path(folder))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_a_network_whose_file_is_nested_too_deeply_is_refused(name: str, tmp_path: Path) -> None:
    for each, written in {**network(), name: NESTED.encode()}.items():
        (tmp_path / each).write_bytes(written)
    fastweight.is_fast_weight(tmp_path)
    with pytest.raises(PlumeError):
        fastweight.load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("hidden_size", 10**40), ("hidden_size", 2**62), ("rank", 2**40), ("value_width", 2**63), ("mixer_blocks", 10**9)],
)
def test_a_network_whose_config_says_it_is_huge_is_refused(key: str, value: int, tmp_path: Path) -> None:
    config = json.loads(network()["config.json"])
    config["network"][key] = value
    for each, written in {**network(), "config.json": as_json(config)}.items():
        (tmp_path / each).write_bytes(written)
    with pytest.raises(CheckpointError):
        fastweight.load(tmp_path)


@pytest.mark.parametrize("key", ["hidden_size", "latent_size", "heads", "head_size", "rank", "projection_size"])
@pytest.mark.parametrize("value", [0, 10**40, 2**62])
def test_a_converted_checkpoint_whose_config_says_any_size_is_refused(key: str, value: int, tmp_path: Path) -> None:
    config = json.loads(converted()["config.json"])
    assert key in config["network"]
    config["network"][key] = value
    for each, written in {**converted(), "config.json": as_json(config)}.items():
        (tmp_path / each).write_bytes(written)
    with pytest.raises(CheckpointError):
        load_d2l(tmp_path)


SETTINGS: dict[str, Any] = {
    "model": "smollm2-135m",
    "network": {"kind": "fast-weight", "rank": 8},
    "data": [{"kind": "facts", "weight": 1.0}],
    "run": {"steps": 10, "betas": [0.9, 0.95]},
}


@fuzzed(150)
@given(data=st.data())
def test_altered_settings_are_read_or_refused(data: st.DataObject) -> None:
    content = as_json(SETTINGS)
    content = as_json(data.draw(altered(SETTINGS))) if data.draw(st.booleans()) else data.draw(damaged(content))
    paths = st.sampled_from(
        ["run.steps", "data.0.kind", "data", "network", "run.betas.1", "nowhere", "", ".", "data.²"]
    )
    values = SCALARS.map(lambda value: json.dumps(value)) | st.sampled_from(["[" * 100_000, "9" * 5000, "\ud800"])
    overrides = data.draw(st.lists(st.builds(lambda path, value: f"{path}={value}", paths, values), max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.json"
        path.write_bytes(content)
        read_or_refused(lambda: read_settings(TrainSettings, path, overrides))


def test_settings_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(NESTED)
    with pytest.raises(InvalidInput, match="nested"):
        read_settings(TrainSettings, tmp_path / "settings.json")


# --- what other stores and other databases wrote ------------------------------------------------

MEM0: dict[str, Any] = {
    "results": [
        {"id": "1", "memory": "Alice lives in Bern.", "user_id": "alice", "created_at": "2025-01-01T00:00:00Z"},
        {"id": "2", "memory": "Alice has a cat.", "user_id": "alice", "metadata": {"a": [1]}, "updated_at": None},
    ]
}
LETTA: dict[str, Any] = {
    "agents": [
        {
            "name": "alice",
            "block_ids": ["b1"],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
            "passages": [{"text": "a passage"}],
        }
    ],
    "blocks": [{"id": "b1", "label": "human", "value": "Alice lives in Bern."}],
}
IMPORTERS: dict[str, tuple[Any, Callable[[Path, str], object]]] = {
    "mem0": (MEM0, lambda path, url: import_mem0(path, url=url)),
    "letta": (LETTA, lambda path, url: import_letta(path, url=url, messages=True)),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with its schema: one for all examples."""
    made = f"sqlite:///{tmp_path_factory.mktemp('imports') / 'plume.db'}"
    with Database(made) as database:
        database.upgrade()
    return made


@pytest.mark.parametrize("kind", IMPORTERS)
@fuzzed(80)
@given(data=st.data())
def test_an_altered_export_is_imported_or_refused(kind: str, url: str, data: st.DataObject) -> None:
    document, read = IMPORTERS[kind]
    content = as_json(data.draw(altered(document)))
    if data.draw(st.booleans()):
        content = data.draw(damaged(as_json(document)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / data.draw(st.sampled_from(["export.json", "export.jsonl"]))
        path.write_bytes(content)
        read_or_refused(lambda: read(path, url))
    with Database(url) as database:
        log = Log(database)
        assert all(log.verify(name) == log.head_number(name) for name in log.names())


@pytest.mark.parametrize("kind", IMPORTERS)
def test_an_export_nested_too_deeply_is_refused(kind: str, url: str, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(NESTED)
    with pytest.raises(InvalidInput, match="nested too deeply"):
        IMPORTERS[kind][1](tmp_path / "export.json", url)


@cache
def archive() -> bytes:
    """A whole archive: every kind of version, and an artifact."""
    with tempfile.TemporaryDirectory() as name, Database("sqlite://") as database:
        log, folder = Log(database), Path(name)
        log.append("alice", "Alice lives in Bern.", metadata={"a": 1}, idempotency_key="k")
        log.append("alice", "Alice has a cat.")
        log.forget("alice", 2, span=(0, 5), reason="asked to")
        log.rollback("alice", 1)
        write_archive(database, "alice", folder / "alice.plume", artifacts=ArtifactStore(str(folder / "artifacts")))
        return (folder / "alice.plume").read_bytes()


def import_or_refuse(content: bytes) -> None:
    """Import bytes into a database of their own; afterwards a memory is there and verifies, or none is."""
    with tempfile.TemporaryDirectory() as folder, Database("sqlite://") as database:
        path = Path(folder) / "alice.plume"
        path.write_bytes(content)
        store = ArtifactStore(f"{folder}/artifacts")
        try:
            read_archive(database, path, artifacts=store)
        except PlumeError:
            assert Log(database).names() == []
        else:
            [name] = Log(database).names()
            assert Log(database).verify(name) == Log(database).head_number(name)


def member_of(name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive())) as whole:
        return whole.read(name)


def archive_with(log: bytes, manifest: dict[str, Any]) -> bytes:
    """Return an archive whose manifest vouches for its log, as a hostile one's does."""
    members = {"log.jsonl": {"sha256": hashlib.sha256(log).hexdigest(), "size": len(log)}}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("log.jsonl", log)
        made.writestr("manifest.json", as_json({**manifest, "members": members}))
    return buffer.getvalue()


@fuzzed(40)
@given(data=st.data())
def test_an_archive_with_altered_lines_is_imported_or_refused(data: st.DataObject) -> None:
    manifest = json.loads(member_of("manifest.json"))
    lines = [json.loads(line) for line in member_of("log.jsonl").splitlines()]
    if data.draw(st.booleans()):
        found = data.draw(altered(manifest))
        manifest = found if isinstance(found, dict) else manifest
    else:
        found = data.draw(altered(lines))
        lines = found if isinstance(found, list) else [found]
    import_or_refuse(archive_with(b"".join(as_json(line) + b"\n" for line in lines), manifest))


@fuzzed(40)
@given(data=st.data())
def test_a_damaged_archive_is_imported_or_refused(data: st.DataObject) -> None:
    import_or_refuse(data.draw(damaged(archive())))


def test_an_archive_nested_too_deeply_is_refused() -> None:
    manifest = json.loads(member_of("manifest.json"))
    for log in (NESTED.encode(), b'{"metadata": ' + NESTED.encode() + b"}"):
        import_or_refuse(archive_with(log, manifest))

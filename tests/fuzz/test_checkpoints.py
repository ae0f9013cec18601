"""Whatever bytes a checkpoint or a network holds: it is loaded or refused, and nothing of it is executed."""

import importlib.util
import io
import json
import os
import pickletools
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.errors import CheckpointError, PlumeError
from plume_memory.hypernet.d2l.checkpoint import convert
from plume_memory.hypernet.d2l.checkpoint import load as load_d2l
from plume_memory.hypernet.d2l.pickle_reader import read_checkpoint
from plume_memory.hypernet.fastweight import checkpoint as fastweight
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork


def _module(path: Path, name: str) -> ModuleType:
    """Import a file that lies on no import path."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


damage = _module(Path(__file__).with_name("damage.py"), "damage")
LENGTHS = damage.LENGTHS
NESTED = damage.NESTED
altered = damage.altered
as_json = damage.as_json
damaged = damage.damaged
fuzzed = damage.fuzzed
read_or_refused = damage.read_or_refused
pytestmark = pytest.mark.timeout(20 * damage.TIMES)


# --- pickles --------------------------------------------------------------------------------------


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


# --- networks -------------------------------------------------------------------------------------


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

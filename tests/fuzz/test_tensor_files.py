"""Whatever bytes an artifact or a compiled prefix holds: it is read, or one of our errors says why not."""

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import torch as safetensors

from plume_memory.errors import PlumeError
from plume_memory.lora import files
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.states import States


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
NESTED = damage.NESTED
altered = damage.altered
as_json = damage.as_json
damaged = damage.damaged
fuzzed = damage.fuzzed
read_or_refused = damage.read_or_refused
pytestmark = pytest.mark.timeout(20 * damage.TIMES)


@cache
def factors() -> bytes:
    """A whole file of factors."""
    pair = Pair(torch.ones(2, 3, 4), torch.ones(2, 3, 5))
    return files.to_bytes(LoraFactors({"mlp.down_proj": pair}, (0, 2)), fingerprints={"model": "tiny"})


@cache
def prefix() -> bytes:
    """A whole compiled prefix."""
    return States(torch.ones(2, 1, 3, 4), torch.zeros(2, 1, 3, 4)).to_bytes()


def use_prefix(content: bytes) -> None:
    """Read a prefix, and what its reader takes for granted."""
    found = States.from_bytes(content)
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

"""Read a `torch.save` checkpoint without executing it.

A pickle names functions and classes to be called. This reader knows a short list of names and maps each
to something inert of our own: tensors become tensors over bytes we read and measure ourselves, every
other object becomes a `Stub` that holds what the pickle said about it. Any other name stops the reading
before anything is made of it. Only torch's zip format (since 1.6) is read; nothing here calls torch.load.
"""

import io
import pickle  # noqa: TID251 — subclassed to admit nothing but the names below
import pickletools
import reprlib
import struct
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plume_memory.errors import CheckpointError, UnsafeCheckpoint


class Stub:
    """An object of the pickle, as data: the arguments it would have been made with, and its state."""

    arguments: tuple[Any, ...]
    state: dict[str, Any]

    def __new__(cls, *arguments: Any) -> "Stub":
        """Keep the arguments; do nothing."""
        self = super().__new__(cls)
        self.arguments = arguments
        self.state = {}
        return self

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise pickle.UnpicklingError(f"the state of {type(self).__name__} is a {type(state).__name__}")
        self.state = state


class _EnumStub(Stub):
    """A member of an enum: its value is its one argument."""

    value_of: Callable[[str], str]


class _Storage(NamedTuple):
    """A storage class of torch: the dtype of what it holds."""

    dtype: torch.dtype


class _Maker:
    """A function of ours that a pickle may call and cannot alter."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a function is given a state")


_STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "BoolStorage": torch.bool,
}
_STUBS = (
    "ctx_to_lora.modeling.hypernet.HypernetConfig",
    "ctx_to_lora.modeling.aggregator.AggregatorConfig",
    "ctx_to_lora.configs.CtxEncoderArguments",
    "peft.tuners.lora.config.LoraConfig",
    "peft.tuners.lora.config.LoraRuntimeConfig",
    "torch.device",
)
_ENUMS: dict[str, Callable[[str], str]] = {
    "ctx_to_lora.modeling.aggregator.AGGREGATOR_TYPE": str.lower,
    "ctx_to_lora.pooling.POOL_FN": str.lower,
    "ctx_to_lora.modeling.aggregator.POOL_FN": str.lower,
    "ctx_to_lora.modeling.ctx_encoder.CTX_ENCODER_TYPE": str.lower,
    "ctx_to_lora.configs.CTX_ENCODER_TYPE": str.lower,
    "peft.utils.peft_types.PeftType": str,
    "peft.utils.peft_types.TaskType": str,
}
"""The value of a member by its name: Python 3.11.0 to 3.11.3 pickle the name, all others the value."""
_MOST_TUPLES = 1000
"""Written out, in one tuple; torch's are made of three or four."""
_DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool")


def _rebuild_tensor(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    """Stand in for torch._utils._rebuild_tensor_v2, measuring what it is told."""
    if not isinstance(storage, Tensor) or not isinstance(size, tuple) or not isinstance(stride, tuple):
        raise pickle.UnpicklingError("a tensor is not made of a storage, a size and a stride")
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
        shown = reprlib.repr((size, stride, offset))  # shortened: tuples in tuples are endless when written out
        raise pickle.UnpicklingError(f"a tensor has size, stride and offset {shown}")
    extent = sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    # the second test: a stride of 0 would make a huge tensor of a small file
    if (0 not in size and offset + extent > storage.numel()) or prod(size) > storage.numel():
        raise pickle.UnpicklingError(
            f"a tensor of size {reprlib.repr(size)} reaches beyond its storage of {storage.numel()}"
        )
    return storage.as_strided(size, stride, offset)


def _rebuild_parameter(content: Any, requires_grad: Any, hooks: Any) -> Tensor:
    """Stand in for torch._utils._rebuild_parameter."""
    if not isinstance(content, Tensor):
        raise pickle.UnpicklingError("a parameter is not made of a tensor")
    return content


def _member(kind: Any, name: Any) -> Stub:
    """Stand in for getattr, which some Pythons pickle a member of an enum with; nothing else is got by it."""
    if not (isinstance(kind, type) and issubclass(kind, _EnumStub) and type(name) is str):
        raise _unsafe("builtins.getattr")
    return kind(kind.value_of(name))


def _unsafe(name: str) -> UnsafeCheckpoint:
    return UnsafeCheckpoint(
        f"The checkpoint names {name}, which is not on the converter's list; nothing was "
        "executed. Do not load this file with other tools unless you trust its author."
    )


def _admitted() -> dict[str, Any]:
    """Every name a checkpoint may use, and what stands in for it."""
    names: dict[str, Any] = {f"torch.{name}": _Storage(dtype) for name, dtype in _STORAGES.items()}
    names |= {f"torch.storage.{name}": _Storage(dtype) for name, dtype in _STORAGES.items()}
    names |= {name: type(name.rpartition(".")[2], (Stub,), {}) for name in _STUBS}
    for name, value_of in _ENUMS.items():
        names[name] = type(name.rpartition(".")[2], (_EnumStub,), {"value_of": staticmethod(value_of)})
    names |= {f"torch.{name}": getattr(torch, name) for name in _DTYPES}
    names |= {
        "torch._utils._rebuild_tensor_v2": _Maker(_rebuild_tensor),
        "torch._utils._rebuild_parameter": _Maker(_rebuild_parameter),
        "collections.OrderedDict": OrderedDict,
        "builtins.set": set,
        "builtins.getattr": _Maker(_member),
    }
    names |= {
        f"__builtin__.{name}": names[f"builtins.{name}"] for name in ("set", "getattr")
    }  # as protocol 2 spells it
    return names


class _RestrictedUnpickler(pickle.Unpickler):
    def __init__(self, content: bytes, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(io.BytesIO(content))
        self._admitted = _admitted()
        self._archive, self._root = archive, root
        self._storages: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        found = self._admitted.get(f"{module}.{name}")
        if found is None:
            raise _unsafe(f"{module}.{name}")
        return found

    def persistent_load(self, pid: Any) -> Tensor:
        match pid:
            case ("storage", _Storage(dtype=dtype), str(key), str(), int(numel)) if numel >= 0:
                pass
            case _:
                raise pickle.UnpicklingError(f"unknown persistent id {reprlib.repr(pid)}")
        if key not in self._storages:
            self._storages[key] = self._read_storage(key, dtype, numel)
        storage = self._storages[key]
        if storage.dtype != dtype or storage.numel() != numel:
            raise pickle.UnpicklingError(f"storage {key} is described in two ways")
        return storage

    def _read_storage(self, key: str, dtype: torch.dtype, numel: int) -> Tensor:
        content = bytearray(_read_member(self._archive, f"{self._root}/data/{key}"))
        expected = numel * dtype.itemsize
        if len(content) != expected:
            raise pickle.UnpicklingError(f"storage {key} has {len(content)} bytes; expected {expected}")
        if not numel:
            return torch.empty(0, dtype=dtype)
        if dtype == torch.bool and max(content) > 1:
            raise pickle.UnpicklingError(f"storage {key} holds booleans other than 0 and 1")
        return torch.frombuffer(content, dtype=dtype)


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """Read the dict a checkpoint holds: tensors, plain Python values and `Stub`s.

    Raises:
        UnsafeCheckpoint: the pickle names anything outside the list; the message says what.
        CheckpointError: no such file, another format, or a damaged file.
    """
    try:
        # A string with an escape that is none makes Python warn; it is read as it stands, and names nothing admitted.
        with warnings.catch_warnings(), zipfile.ZipFile(path) as archive:
            warnings.simplefilter("ignore", DeprecationWarning)
            return _read_archive(path, archive)
    # what zipfile raises beside its own error: names that are no UTF-8, a newer version, encryption, short fields
    except (zipfile.BadZipFile, EOFError, ValueError, RuntimeError, OverflowError, struct.error) as err:
        raise CheckpointError(
            f"{path} is not in torch's zip format ({err}). Checkpoints of torch before 1.6 are not read: "
            "load and save it once with a current torch in a place where running its pickle is safe."
        ) from err
    except OSError as err:
        raise CheckpointError(f"Cannot read the checkpoint {path}: {err.strerror or err}.") from err


def _read_archive(path: Path, archive: zipfile.ZipFile) -> Mapping[str, Any]:
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise CheckpointError(f"{path} holds {len(pickles)} files data.pkl; a checkpoint has one.")
    root = pickles[0].partition("/")[0]
    if f"{root}/byteorder" in archive.namelist():
        order = _read_member(archive, f"{root}/byteorder")
        if order != b"little":
            raise CheckpointError(f"{path} has byte order {order!r}; only little-endian checkpoints are read.")
    try:
        written = _read_member(archive, pickles[0])
        _check_extent(written)
        _check_tuples(written)
        content = _RestrictedUnpickler(written, archive, root).load()
    # what the pickle machine, and torch in it, raise on bytes that make no sense
    except (
        RuntimeError,  # RecursionError and NotImplementedError too
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        TypeError,
        ValueError,
        LookupError,
        OverflowError,
    ) as err:
        raise CheckpointError(f"{path} is damaged or no Doc-to-LoRA checkpoint: {err}.") from err
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise CheckpointError(f"{path} holds a {type(content).__name__}; expected a dict by name.")
    return content


def _check_extent(content: bytes) -> None:
    """Refuse a pickle that would take more memory than its length explains: the machine believes what it reads.

    Raises:
        ValueError: an opcode is unknown or cut short (`pickletools` measures every length it reads).
        UnpicklingError: a frame or a place in the memo lies beyond the end.
    """
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT", "FRAME") and int(argument or 0) > len(content):
            raise pickle.UnpicklingError(f"{opcode.name} names {argument}, in a pickle of {len(content)} bytes")


def _check_tuples(content: bytes) -> None:
    """Refuse tuples that hold one another so often that to hash one, as a key, would never end.

    The machine is played through on sizes alone: how many tuples each thing on its stack is made of, written out.

    Raises:
        UnpicklingError: one is made of more than `_MOST_TUPLES`, or the stack is empty where something is taken.
    """
    stack: list[int] = []
    marks: list[int] = []
    memo: dict[int, int] = {}
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "MARK":
            marks.append(len(stack))
            continue
        takes = opcode.stack_before
        if pickletools.markobject in takes:
            bottom = (marks.pop() if marks else 0) - takes.index(pickletools.markobject)
        elif opcode.name == "POP" and marks and marks[-1] == len(stack):  # pickle takes a mark for a thing here
            bottom = marks.pop()
        else:
            bottom = len(stack) - len(takes)
        if bottom < 0:
            raise pickle.UnpicklingError(f"{opcode.name} takes more than there is")
        taken = stack[bottom:]
        del stack[bottom:]
        size = 1 + sum(taken) if opcode.stack_after == [pickletools.pytuple] else 0
        if opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            size = memo.get(int(argument or 0), 0)
        if opcode.name in ("DUP", "MEMOIZE"):
            size = taken[0]
        if size > _MOST_TUPLES:
            raise pickle.UnpicklingError(f"a tuple is made of more than {_MOST_TUPLES} others")
        stack += [size] * len(opcode.stack_after)
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE") and stack:
            memo[len(memo) if opcode.name == "MEMOIZE" else int(argument or 0)] = stack[-1]


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read one file of the archive; torch stores them uncompressed, so none can be larger than it looks."""
    try:
        member = archive.getinfo(name)
    except KeyError as err:
        raise CheckpointError(f"The checkpoint has no member {name}; it is cut short.") from err
    if member.compress_type != zipfile.ZIP_STORED:
        raise CheckpointError(f"The checkpoint's member {name} is compressed; torch writes none that are.")
    return archive.read(member)

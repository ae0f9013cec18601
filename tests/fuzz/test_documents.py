"""Whatever settings, an export or an archive say: they are read, or one of our errors says why not."""

import hashlib
import importlib.util
import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.errors import InvalidInput, PlumeError
from plume_memory.importers.letta import import_letta
from plume_memory.importers.mem0 import import_mem0
from plume_memory.store.archive import write_archive
from plume_memory.store.archive_reading import read_archive
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.training.overrides import read_settings
from plume_memory.training.settings import TrainSettings


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
SCALARS = damage.SCALARS
altered = damage.altered
as_json = damage.as_json
damaged = damage.damaged
fuzzed = damage.fuzzed
read_or_refused = damage.read_or_refused
pytestmark = pytest.mark.timeout(20 * damage.TIMES)


# --- settings -------------------------------------------------------------------------------------


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


# --- what other stores and other databases wrote --------------------------------------------------


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

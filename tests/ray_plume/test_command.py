"""`plume serve --ray` refuses what cannot be served by several processes, before anything is started."""

import sys
from pathlib import Path

import pytest
from ray_plume import AppArguments, app

from plume_memory.cli.main import main
from plume_memory.errors import InvalidInput
from plume_memory.server.settings import ServerSettings


def test_a_database_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        app(AppArguments(db=f"sqlite:///{tmp_path / 'log.db'}", artifacts=str(tmp_path)))
    assert main(["serve", "--ray", "--db", f"sqlite:///{tmp_path / 'log.db'}"]) == 2
    assert "PostgreSQL" in capsys.readouterr().err
    assert not (tmp_path / "log.db").exists()


@pytest.mark.parametrize("options", [["--replicas", "2"], ["--max-replicas", "2"], ["--ray", "--map-header", "X-User"]])
def test_options_that_do_not_go_together_are_refused(options: list[str]) -> None:
    assert main(["serve", *options]) == 2


@pytest.mark.parametrize(("host", "is_local"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_who_may_call_is_passed_on(monkeypatch: pytest.MonkeyPatch, host: str, is_local: bool) -> None:
    made: list[ServerSettings] = []
    monkeypatch.setattr("plume_memory.store.database.Database.check", lambda _: None)
    monkeypatch.setattr(sys.modules[app.__module__], "application", lambda _, settings, __: made.append(settings))
    monkeypatch.setattr("ray_plume.running.run", lambda arguments, **_: app(arguments))
    options = ["--ray", "--insecure", "--host", host, "--cors-origin", "https://app.example"]
    assert main(["serve", *options, "--db", "postgresql://nobody@127.0.0.1:1/none"]) == 0
    (settings,) = made
    assert (settings.needs_key, settings.local_only) == (False, is_local)
    assert settings.cors_origins == ("https://app.example",)

"""`plume serve --ray` refuses what cannot be served by several processes, before anything is started."""

from pathlib import Path

import pytest
from ray_plume import AppArguments, app

from plume_memory.cli.main import main
from plume_memory.errors import InvalidInput


def test_a_database_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        app(AppArguments(db=f"sqlite:///{tmp_path / 'log.db'}", artifacts=str(tmp_path)))
    assert main(["serve", "--ray", "--db", f"sqlite:///{tmp_path / 'log.db'}"]) == 2
    assert "PostgreSQL" in capsys.readouterr().err
    assert not (tmp_path / "log.db").exists()


@pytest.mark.parametrize("options", [["--replicas", "2"], ["--max-replicas", "2"], ["--ray", "--map-header", "X-User"]])
def test_options_that_do_not_go_together_are_refused(options: list[str]) -> None:
    assert main(["serve", *options]) == 2

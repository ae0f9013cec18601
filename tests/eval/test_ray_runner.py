"""On Ray the rows are those of one process."""

from pathlib import Path

import pytest
from rich.console import Console

from eval.cli import main
from eval.datasets.muse import load
from eval.experiments.experiment import PLUME, each, spec
from eval.ray_runner import run_on_ray
from eval.rows import RowFolder
from eval.specs import RunSettings
from tests.eval.test_runner import outcomes


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*")  # Ray Data of its own settings
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_two_actors_make_the_rows_of_one_process(
    tiny_model_folder: Path, tiny_network_folder: Path, records_file: Path, arguments: list[str], tmp_path: Path
) -> None:
    settings = RunSettings(
        model=str(tiny_model_folder),
        hypernetwork=str(tiny_network_folder),
        device="cpu",
        dtype="float32",
        max_new_tokens=6,
    )
    items = each([spec("base"), PLUME], load(str(records_file)))
    run_on_ray(items, settings, tmp_path / "ray", workers=2, console=Console(quiet=True), cpus=0.5)
    assert len(RowFolder(tmp_path / "ray").read()) == 8

    call = ["main", *arguments, "--method", "base", "--method", "plume", "--out", str(tmp_path / "one")]
    assert main(call) == 0
    assert outcomes(tmp_path / "ray") == outcomes(tmp_path / "one")

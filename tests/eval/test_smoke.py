"""The regression check says worse when something is worse."""

from pathlib import Path

import pytest

from eval.cli import main
from eval.smoke import STORED, Baseline, Figure, compare, plan
from plume_memory.errors import InvalidInput


def figures(of: int = 1000, **means: float) -> dict[str, Figure]:
    return {method: Figure(mean=mean, answers=of) for method, mean in means.items()}


BASE = Baseline(recall=figures(plume=0.30, base=0.10), stale=figures(plume=0.05))


def found(**changes: dict[str, Figure]) -> Baseline:
    return BASE.model_copy(update=changes)


def test_within_the_tolerance_nothing_is_said() -> None:
    outcome = compare(BASE, found(recall=figures(plume=0.271, base=0.129), stale=figures(plume=0.079)))
    assert outcome.worse == outcome.better == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recall": figures(plume=0.26, base=0.10)}, "plume: recall 0.26 of 1000"),
        ({"recall": figures(base=0.10)}, "plume: recall None"),
        ({"stale": figures(plume=0.09)}, "plume: stale 0.09"),
        ({"stale": {}}, "plume: stale None"),
    ],
)
def test_what_fell_rose_or_is_missing_is_worse(changes: dict[str, dict[str, Figure]], said: str) -> None:
    outcome = compare(BASE, found(**changes))
    assert len(outcome.worse) == 1
    assert said in outcome.worse[0]


def test_of_a_few_answers_two_may_tip_over_and_not_three() -> None:
    few = Baseline(recall=figures(20, plume=0.50), stale=figures(10, plume=0.10))
    for fallen, risen, worse in ((0.40, 0.30, 0), (0.35, 0.10, 1), (0.50, 0.40, 1)):
        now = Baseline(recall=figures(20, plume=fallen), stale=figures(10, plume=risen))
        assert len(compare(few, now).worse) == worse


def test_a_gain_beyond_the_tolerance_is_said_but_does_not_fail() -> None:
    outcome = compare(BASE, found(recall=figures(plume=0.40, base=0.10)))
    assert outcome.worse == ()
    assert "plume: recall 0.4" in outcome.better[0]


def test_the_stored_figures_are_of_the_methods_that_are_run() -> None:
    stored = Baseline.read()
    assert set(stored.recall) == set(stored.stale) == {item.method.name for item in plan()}
    assert STORED.is_file()


def test_missing_figures_say_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="smoke --write"):
        Baseline.read(tmp_path / "none.json")


@pytest.mark.parametrize(("within", "code"), [("3600", 0), ("0", 1)])
def test_a_smoke_run_that_takes_too_long_fails(
    within: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eval.commands.smoke.run_here", lambda *_, **__: None)
    monkeypatch.setattr("eval.commands.smoke.measure", lambda _: Baseline.read())
    assert main(["smoke", "--out", str(tmp_path), "--within", within]) == code
    assert ("LATE: 0 were given" in capsys.readouterr().out) == bool(code)


def test_a_smoke_run_whose_figures_are_stored_is_held_to_its_seconds_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = Baseline.read()
    monkeypatch.setattr("eval.commands.smoke.run_here", lambda *_, **__: None)
    monkeypatch.setattr("eval.commands.smoke.measure", lambda _: stored)
    monkeypatch.setattr("eval.commands.smoke.STORED", tmp_path / "figures.json")
    assert main(["smoke", "--out", str(tmp_path / "run"), "--write", "--within", "0"]) == 1
    assert "LATE: 0 were given" in capsys.readouterr().out
    assert (tmp_path / "figures.json").read_text(encoding="utf-8") == stored.model_dump_json(indent=2) + "\n"


@pytest.mark.model
@pytest.mark.timeout(1200)  # it shares two cores with the other tests
def test_the_benchmark_has_not_become_worse_on_smollm2(tmp_path: Path) -> None:
    """A few records of each mini dataset, three baselines and PLUME with both settings, against the stored figures."""
    assert main(["smoke", "--out", str(tmp_path / "smoke")]) == 0

"""What experiments make of rows, on rows written by hand."""

import dataclasses
from pathlib import Path

import pytest

from eval.experiments.catalogue import EXPERIMENTS
from eval.experiments.cells import bars
from eval.experiments.continual import CONTINUAL
from eval.experiments.crosstask import CROSSTASK
from eval.experiments.diagnosis import DIAGNOSIS, SUSPECTS
from eval.experiments.efficiency import view_efficiency, view_radar
from eval.experiments.experiment import PAPER, Experiment, Selection
from eval.experiments.locality import LOCALITY, view_ablation, view_locality
from eval.experiments.main_table import MAIN
from eval.experiments.sweep import AMPLIFY, AROUND, PAIRS, SWEEP, SWEEP_SHIPPED, VALUES
from eval.experiments.topk import TOPK, within
from eval.report.plots import save_figures
from eval.report.view import BarFigure, RadarFigure
from eval.results import Results, judged, recall, stale
from eval.rows import Answered, ItemRow
from plume_memory.policy import AnswerPolicy

SETTINGS = {"alpha": 1.0, "beta": 0.75, "tau": 0.3, "lambda_max": 1.0, "delta": 0.4, "unit_tokens": 192}


def answered(output: str, *, affected: bool, **detail: object) -> Answered:
    return Answered(
        question_id="q",
        question="Where?",
        references=("Zug",),
        old_references=("Bern",) if affected else ("Zug",),
        affected=affected,
        output=output,
        tokens=4,
        finish_reason="stop",
        seconds=2.0,
        peak_bytes=2**20,
        detail={"evidence": "Zug", **detail},
    )


def row(method: str, record: str, *outputs: str, step: int = 1, **changes: object) -> ItemRow:
    """The first output answers an affected question, the others kept ones."""
    made = ItemRow(
        key=f"{method}-{record}",
        method=method,
        kind=method,
        dataset="d",
        transition=record,
        step=step,
        settings=dict(SETTINGS),
        seed=0,
        probe="answers",
        batch=8,
        fresh=False,
        update_seconds=1.0,
        update_peak_bytes=3 * 2**20,
        update_derived=1,
        made_on="cpu",
        first_in_process=record == "r1",
        answers=tuple(answered(text, affected=n == 0) for n, text in enumerate(outputs)),
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


ROWS = [
    row("base with context", "r1", "Zug", "Zug"),
    row("base with context", "r2", "Zug", "Zug"),
    row("d2l", "r1", "Bern", "Zug"),
    row("d2l", "r2", "Bern", "no"),
    row("plume", "r1", "Zug", "Zug"),
    row("plume", "r2", "Bern", "Zug"),
]


def cells(table: object, name: str) -> tuple[str, ...]:
    return next(line for line in table.rows if line[0] == name)  # type: ignore[attr-defined]


def test_affected_kept_and_stale_are_told_apart() -> None:
    results = Results(ROWS)
    found = {which: results.estimate("plume", None, recall, which=which) for which in ("all", "affected", "kept")}  # type: ignore[arg-type]
    assert [one.mean if one else None for one in found.values()] == [0.75, 0.5, 1.0]
    shares = [results.estimate(method, None, stale) for method in results.methods]
    assert [one.mean if one else None for one in shares] == [0.0, 1.0, 0.5]
    assert shares[0] is not None
    assert shares[0].count == 2, "kept questions cannot be stale"


def test_the_main_table_compares_plume_with_each_method() -> None:
    view = MAIN.view(Results(ROWS))
    assert cells(view.tables[0], "plume")[1] == "75.0", "two records have no interval"
    tests = next(table for table in view.tables if table.title.startswith("Paired tests"))
    assert cells(tests, "plume − d2l")[1] == "+50.0"
    assert cells(tests, "plume − base with context")[1] == "-25.0"
    assert not any("judge" in column for table in view.tables[:-1] for column in (table.title, *table.header))


def test_overlaps_are_macro_averages_as_recall_is() -> None:
    # one data set of two records, one of one: pooled, plume would have 2 of 3
    rows = [
        *(row("plume", record, "Zug") for record in ("r1", "r2")),
        row("plume", "r1", "Bern", dataset="other", key="other-plume"),
    ]
    view = MAIN.view(Results(rows))
    overlaps = next(table for table in view.tables if table.title.startswith("Every overlap"))
    assert cells(overlaps, "plume")[1:] == ("50.0",) * 5
    assert cells(view.tables[0], "plume")[-1] == "50.0"


def test_every_table_says_which_methods_were_run_on_fewer_records() -> None:
    for table in [*MAIN.view(Results(ROWS[:-1])).tables, *CROSSTASK.view(Results(ROWS[:-1])).tables]:
        if table.title.startswith(("ROUGE-L", "Questions", "Every overlap", "Exact match")):
            assert any("plume 1 of 2" in note for note in table.notes), table.title


@pytest.mark.parametrize("experiment", [MAIN, LOCALITY, CROSSTASK, AMPLIFY])
def test_every_figure_says_which_methods_were_run_on_fewer_records(experiment: Experiment) -> None:
    figure = experiment.view(Results(ROWS[:-1])).figures[0]
    assert isinstance(figure, BarFigure)
    names = [*figure.groups, *(one.name for one in figure.series)]
    assert "plume (1 of 2)" in names
    assert "d2l" in names


def test_a_method_without_all_records_has_no_average() -> None:
    view = MAIN.view(Results(ROWS[:-1]))
    assert cells(view.tables[0], "plume")[-1] == "–"
    assert any("plume 1 of 2" in note for note in view.tables[0].notes)
    assert cells(view.tables[0], "d2l")[-1] != "–"


def test_locality_and_ablation_are_shares_of_reading() -> None:
    kept = view_locality(Results(ROWS)).tables[0]
    assert cells(kept, "d2l")[2] == "50.0"
    assert cells(kept, "plume")[4] == "84.24"
    ablation = view_ablation(Results(ROWS)).tables[0]
    assert cells(ablation, "plume")[2] == "75.0"


def test_the_continual_table_goes_by_updates() -> None:
    rows = [row("plume", f"c{n}@{t}", "Zug" if t == 3 else "Bern", "Zug", step=t) for n in (1, 2) for t in (3, 20)]
    view = CONTINUAL.view(Results(rows))
    assert [cell.split(" ")[0] for cell in cells(view.tables[0], "plume")[1:]] == ["100.0", "50.0"]
    assert [cell.split(" ")[0] for cell in cells(view.tables[3], "plume")[1:]] == ["0.0", "100.0"]
    assert "2 chains" in view.tables[0].notes[0]


def test_the_steps_of_a_chain_are_one_cluster() -> None:
    rows = [row("plume", f"c{n}@{t}", "Zug", step=t) for n in (1, 2) for t in (3, 5, 20)]
    found = Results(rows).estimate("plume", None, recall)
    assert found is not None
    assert (found.count, found.clusters) == (6, 2)


def test_records_of_one_id_in_two_datasets_do_not_replace_each_other() -> None:
    rows = [row("plume", "r1", "Zug"), row("plume", "r1", "no", dataset="other", key="k2")]
    found = Results(rows).estimate("plume", None, recall)
    assert found is not None
    assert (found.mean, found.clusters) == (0.5, 2)


def test_a_comparison_uses_the_transitions_both_answered() -> None:
    rows = [
        *(row("plume", f"c1@{t}", "Zug", step=t) for t in (3, 5)),
        row("d2l", "c1@3", "Bern", step=3),
    ]
    found = Results(rows).compare("plume", "d2l", recall)
    assert found is not None
    assert (found.difference, found.clusters) == (1.0, 1)


def test_topk_is_the_share_of_tokens_within_k() -> None:
    ranked = dataclasses.replace(
        row("plume", "r1"), probe="ranks", answers=(answered("", affected=True, ranks=[1, 4, 11]),)
    )
    results = Results([ranked])
    shares = [results.estimate("plume", None, within(k)) for k in (1, 3, 5, 10)]
    assert [one.mean if one else None for one in shares] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert cells(TOPK.view(results).tables[0], "plume")[3].startswith("66.7")


def test_a_sweep_has_a_table_per_parameter_in_the_order_of_its_values() -> None:
    rows = [row("plume", "r1", "Zug")]
    for value in (3.0, 0.125):
        rows.append(row(f"beta = {value:g}", "r1", "Zug", settings={**SETTINGS, "beta": value}, kind="plume"))
    table = SWEEP.view(Results(rows)).tables[0]
    assert [line[0] for line in table.rows] == ["0.125", "3"]
    assert [line[-1] for line in table.rows] == ["71.94", "70.62"]
    assert "alpha 1" in table.notes[0]
    assert len(SWEEP.methods) == 1 + sum(len(values) for values in VALUES.values())


def test_the_sweep_around_the_shipped_settings_has_these_in_every_table() -> None:
    shipped = {**SETTINGS, "lambda_max": 10.0, "tau": 0.05}
    other = {**shipped, "lambda_max": 30.0}
    rows = [
        row("plume lambda_max = 30", "r1", "Bern", settings=other, kind="plume"),
        row("plume", "r1", "Zug", settings=shipped, kind="plume"),
    ]
    tables = SWEEP_SHIPPED.view(Results(rows)).tables
    assert [(table.title, [line[0] for line in table.rows]) for table in tables] == [("lambda_max, %", ["10", "30"])]
    assert tables[0].rows[0][1].startswith("100.0")
    assert "tau 0.05" in tables[0].notes[0]
    assert all(one.shipped for one in SWEEP_SHIPPED.methods)
    assert len(SWEEP_SHIPPED.methods) == 1 + sum(len(values) for values in AROUND.values())


def test_a_sweep_of_a_network_without_some_settings_leaves_these_out() -> None:
    plain = {**AnswerPolicy().model_dump(), "retry_scale": None}
    rows = [row("plume", "r1", "Zug", settings=plain, kind="plume")]
    for name in ("plume beta = 1", "plume retry_scale = 2"):
        rows.append(row(name, "r1", "Zug", settings=plain, kind="plume"))
    tables = SWEEP_SHIPPED.view(Results(rows)).tables
    assert [[line[0] for line in table.rows] for table in tables] == [["0.75", "1"], ["2"]]
    assert "retry_scale" not in tables[0].notes[0]


def test_a_sweep_names_as_defaults_only_what_is_known_to_be_one() -> None:
    rows = [
        row("beta = 3", "r1", "Zug", settings={**SETTINGS, "beta": 3.0}, kind="plume"),
        row("tau = 1", "r1", "Zug", settings={**SETTINGS, "tau": 1.0}, kind="plume"),
    ]
    for table in SWEEP.view(Results(rows)).tables:
        assert not any("beta 3" in note or "tau 1" in note for note in table.notes)
    tables = SWEEP.view(Results([row("plume", "r1", "Zug"), *rows])).tables
    assert [("beta" in table.notes[0], "tau" in table.notes[0]) for table in tables] == [(False, True), (True, False)]


def test_only_a_sweep_from_the_papers_settings_stands_beside_the_papers_figures() -> None:
    with_other_tau = {**SETTINGS, "tau": 0.2}
    of_paper = SWEEP.view(Results([row("tau = 0.2", "r1", "Zug", settings=with_other_tau, kind="plume")]))
    ours = row("plume tau = 0.2", "r1", "Zug", settings=with_other_tau, kind="plume")
    of_shipped = SWEEP_SHIPPED.view(Results([ours]))
    assert "80.10" in of_paper.tables[0].rows[0]
    assert "80.10" not in of_shipped.tables[0].rows[0]


def test_efficiency_counts_fresh_single_questions_and_drops_the_first_for_the_steady_state() -> None:
    slow = row("plume", "r1", "Zug", fresh=True, batch=1, update_seconds=9.0)
    fast = row("plume", "r2", "Zug", fresh=True, batch=1, update_seconds=1.0)
    batched = row("plume", "r3", "Zug", update_seconds=100.0)
    line = cells(view_efficiency(Results([slow, fast, batched])).tables[0], "plume")
    assert line[1:4] == ("5.000", "1.000", "3")
    assert line[4:] == ("2.000", "2.000", "0.5000", "1", "2")


def test_the_radar_divides_by_the_best_of_the_compared() -> None:
    rows = [
        row("plume", "r1", "Zug", "Zug", fresh=True, batch=1, update_seconds=1.0),
        row("cd", "r1", "Bern", "Zug", fresh=True, batch=1, update_seconds=4.0),
    ]
    line = {cells_[0]: cells_[1:] for cells_ in view_radar(Results(rows)).tables[0].rows}
    assert line["plume"][0] == "1.00"
    assert line["cd"][0] == "0.50"
    assert line["cd"][2] == "0.25", "four times slower to update"


@pytest.mark.parametrize(("made_on", "shares"), [("m, cpu, float32", None), ("m, cuda:0, float32", ["1.00", "0.25"])])
def test_the_radar_compares_memory_on_a_gpu_alone(made_on: str, shares: list[str] | None) -> None:
    """A CPU's resident set does not grow while what was freed lasts: it would make the last to run the best."""
    rows = [
        row("plume", "r1", "Zug", fresh=True, batch=1, update_peak_bytes=2**20, made_on=made_on),
        row("cd", "r1", "Bern", fresh=True, batch=1, update_peak_bytes=2**22, made_on=made_on),
    ]
    view = view_radar(Results(rows))
    table, figure = view.tables[0], view.figures[0]
    assert isinstance(figure, RadarFigure)
    assert ("update memory" in table.header) == ("update memory" in figure.axes) == (shares is not None)
    assert any("resident set" in note for note in table.notes) == (shares is None)
    if shares is not None:
        assert [line[-1] for line in table.rows] == shares


def test_every_experiment_names_distinct_methods_and_plans_them() -> None:
    for experiment in EXPERIMENTS:
        names = [method.name for method in experiment.methods]
        assert len(set(names)) == len(names)
        items = experiment.plan(experiment.methods[:2], Selection(limit=1))
        assert {item.method.name for item in items} == set(names[:2])


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_every_experiment_draws_what_it_shows(experiment: Experiment, tmp_path: Path) -> None:
    rows = []
    for method in experiment.methods:
        for record in ("r1", "r2"):
            made = row(method.name, record, kind=method.kind, fresh=True, batch=1, step=3)
            told = (answered("Zug", affected=True, ranks=[1, 4]), answered("Zug", affected=False, ranks=[2, 20]))
            settings = SETTINGS | method.settings
            rows.append(dataclasses.replace(made, answers=told, settings=settings))
    figures = experiment.view(Results(rows)).figures
    assert figures
    assert all(path.stat().st_size > 2_000 for path in save_figures(figures, tmp_path))


def test_the_ablation_s_chart_is_in_percent_of_reading_beside_the_paper_s() -> None:
    rows = [
        *(row("base with context", record, "no", "Zug") for record in ("r1", "r2")),
        *(row("plume", record, "Bern", "Zug") for record in ("r1", "r2")),
    ]
    (figure,) = view_ablation(Results(rows)).figures
    assert isinstance(figure, BarFigure)
    assert figure.groups == ("recall", "locality")
    found = {one.name: one.values for one in figure.series}
    assert found["plume"] == (100.0, 100.0)
    assert found["memory only (the paper)"] == (57.28, pytest.approx(76.34))


def test_no_interval_is_drawn_where_none_is_written() -> None:
    few = bars("few", [Results(ROWS).estimate("plume", None, recall)])
    assert (few.values, few.low, few.high) == ((75.0,), (None,), (None,))


def test_every_suspect_and_pair_is_run() -> None:
    run = {method.name for method in DIAGNOSIS.methods}
    assert {name for _, first, second in SUSPECTS for name in (first, second)} <= run
    amplify = next(one for one in EXPERIMENTS if one.name == "amplify")
    assert {name for pair in PAIRS for name in pair} <= {method.name for method in amplify.methods}
    assert PAPER in DIAGNOSIS.methods


def test_what_a_method_refused_is_in_no_mean_and_is_said() -> None:
    refused = row("plume", "r2", error="The prompt has 9000 tokens.")
    view = MAIN.view(Results([*(one for one in ROWS if (one.method, one.transition) != ("plume", "r2")), refused]))

    assert cells(view.tables[0], "plume")[-1] == "–"
    assert any("plume 1 of 2" in note for note in view.tables[0].notes)
    assert any("plume 1 (the first: r2: The prompt has 9000 tokens.)" in note for note in view.tables[0].notes)


def test_methods_are_judged_by_the_same_questions() -> None:
    """A judge that failed on the hard ones must not make a method look better than those it did not fail on."""

    class Some:
        def of(self, answer: Answered) -> bool | None:
            return {"yes": True, "no": False}.get(answer.output)

    rows = [row("a", "r1", "yes", "no"), row("b", "r1", "yes", "?")]
    rows = [
        dataclasses.replace(
            one, answers=tuple(dataclasses.replace(x, question_id=f"q{n}") for n, x in enumerate(one.answers))
        )
        for one in rows
    ]
    results = Results(rows, Some())  # type: ignore[arg-type]

    found = [results.estimate(method, None, judged) for method in "ab"]
    assert [(one.mean, one.count) for one in found if one] == [(1.0, 1), (1.0, 1)]

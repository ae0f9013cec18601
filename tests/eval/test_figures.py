"""Figures that pages take from results."""

import json
from pathlib import Path

import pytest

from eval.commands.pages import PAGES, RESULTS, ROOT, ROWS, TAKE, read_pages, run_folder, shown
from eval.figures import Figures, cells_of
from eval.report.view import Table, View
from plume_memory.errors import InvalidInput

VIEW = View(
    (
        Table(
            "Recall, %",
            ("method", "squad", "average"),
            (("base", "15.1", "18.2 \\[14.0, 23.0\\]"), ("plume", "67.0", "1,044.6")),
        ),
        Table("Stale, %", ("method", "stale"), (("base", "0.6"), ("plume", "–"))),
        Table(
            "Tests",
            ("pair", "questions", "all", "p", "p"),
            (("a − b", "kept", "-4.9 (p 0.1619)", "0.1", "0.2"), ("a − b", "changed", "+0.5 (p 1.0000)", "0.3", "0.4")),
        ),
    ),
    (),
)


@pytest.fixture
def figures(tmp_path: Path) -> Figures:
    lines = [
        {"what": "first", "whole": 1.488, "half": 0.25},
        {
            "what": "later",
            "whole": 1.001,
            "share": 0.9333,
            "share_interval": [0.5, 1.0],
            "answer_s": {"p50": 4.56, "all": [7, 8]},
        },
    ]
    (tmp_path / "ask.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Figures({"main": cells_of(VIEW)}, tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("**9 %**<!-- =main | Recall, % | base | squad -->!", "**15 %**<!-- =main | Recall, % | base | squad -->!"),
        ("9.00<!-- =main | Recall, % | base | average -->", "18.20<!-- =main | Recall, % | base | average -->"),
        ("1<!-- =main | Recall, % | plume | average -->", "1,045<!-- =main | Recall, % | plume | average -->"),
        ("in 0.5 s<!-- =ask.jsonl | what=later | whole -->", "in 1.0 s<!-- =ask.jsonl | what=later | whole -->"),
        ("5 %<!-- =ask.jsonl | what=later | share | % -->", "93 %<!-- =ask.jsonl | what=later | share | % -->"),
        (
            "1 ms<!-- =ask.jsonl | what=later | whole | ×1e3 -->",
            "1,001 ms<!-- =ask.jsonl | what=later | whole | ×1e3 -->",
        ),
        ("1 s<!-- =ask.jsonl | answer_s.all.1 -->", "8 s<!-- =ask.jsonl | answer_s.all.1 -->"),
        ("0.0<!-- =ask.jsonl | whole | max -->", "1.5<!-- =ask.jsonl | whole | max -->"),
        ("1.00<!-- =ask.jsonl | whole | mean -->", "1.24<!-- =ask.jsonl | whole | mean -->"),
        ("7 of 9<!-- =ask.jsonl | what=later | # -->", "7 of 1<!-- =ask.jsonl | what=later | # -->"),
        ("1 s<!-- =ask.jsonl | answer_s.p50 -->", "5 s<!-- =ask.jsonl | answer_s.p50 -->"),
        (
            "**9** [1, 2] %<!-- =ask.jsonl | what=later | share | % -->",
            "**93** [50, 100] %<!-- =ask.jsonl | what=later | share | % -->",
        ),
        (
            "9.0 [1.0, 2.0]<!-- =main | Recall, % | base | average -->",
            "18.2 [14.0, 23.0]<!-- =main | Recall, % | base | average -->",
        ),
        (
            "+9.0 (p 0.9)<!-- =main | Tests | a − b, kept | all -->",
            "−4.9 (p 0.2)<!-- =main | Tests | a − b, kept | all -->",
        ),
        (
            "−1, yes<!-- =main | Tests | a − b, changed | all -->",
            "+1, yes<!-- =main | Tests | a − b, changed | all -->",
        ),
        ("0.8<!-- =ask.jsonl | half -->", "0.3<!-- =ask.jsonl | half -->"),
        (".90<!-- =main | Tests | a − b, changed | p (2) -->", ".40<!-- =main | Tests | a − b, changed | p (2) -->"),
        ("2-9 %<!-- =main | Recall, % | base | squad -->", "2-15 %<!-- =main | Recall, % | base | squad -->"),
        ("no 7 mark", "no 7 mark"),
    ],
)
def test_a_number_becomes_what_its_mark_names(figures: Figures, before: str, after: str) -> None:
    assert figures.taken(before) == after
    assert figures.taken(after) == after


def test_two_marks_of_a_line_are_each_of_the_number_before_them(figures: Figures) -> None:
    one, other = "<!-- =main | Recall, % | base | squad -->", "<!-- =main | Stale, % | base | stale -->"
    assert figures.taken(f"20 updates: 1.0{one}, stale 2.0 %{other}.") == f"20 updates: 15.1{one}, stale 0.6 %{other}."


def test_a_table_takes_the_cells_of_the_rows_that_results_have(figures: Figures) -> None:
    mark = "<!-- =columns main | Recall, % | squad; main | Recall, % | average; main | Stale, % | stale -->"
    page = [
        mark,
        "| method | squad | average | stale |",
        "| --- | --- | --- | --- |",
        "| base: nothing is told | 1.0 | 2.0 [1.0, 3.0] | 5.0 |",
        "| **plume** | **1.0** | 2.0 | 5.0 |",
        "| *the paper* | *80.7* | | |",
        "",
        "| base | 1.0 | another table |",
    ]
    assert figures.taken("\n".join(page)).split("\n") == [
        *page[:3],
        "| base: nothing is told | 15.1 | 18.2 [14.0, 23.0] | 0.6 |",
        "| **plume** | **67.0** | 1,044.6 | – |",
        *page[5:],
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1<!-- =main | Recall | base | squad -->", "No table 'Recall' of main; there are: Recall, %; Stale, %"),
        ("1<!-- =main | Recall, % | bm25 | squad -->", "that row has: nothing"),
        ("1<!-- =main | Recall, % | base | ropes -->", "that row has: squad, average"),
        ("1<!-- =main | Stale, % | plume | stale -->", "No figure"),
        ("1<!-- =other.jsonl | what=later | whole -->", "No rows for the figure"),
        ("1<!-- =ask.jsonl | whole -->", "has 2 lines with {} and a number 'whole'"),
        (
            "1<!-- =ask.jsonl | what=later | what -->",
            "has 0 lines with",
        ),
        ("1<!-- =ask.jsonl | what=latter | # -->", "has 0 lines with"),
        ("1<!-- =ask.jsonl | answer_s.p95 -->", "has 0 lines with"),
        ("1 [0, 2]<!-- =main | Recall, % | base | squad -->", "has no [0, 2]"),
        ("none<!-- =main | Recall, % | base | squad -->", "stands behind no number"),
        ("<!-- =columns main | Stale, % | stale -->\n| base | 1 | 2 |", "its mark names 1 columns"),
        ("<!-- =columns main | Stale, % | stole -->\n| base | 1 |", "No column 'stole' in main | Stale, %"),
        ("<!-- =columns mian | Stale, % | stale -->\n| base | 1 |", "No page 'mian'; there are: main"),
        ("<!-- =columns main | Stale, % -->\n| base | 1 |", "has 2 parts; a page's figure takes 3"),
        ("<!-- =columns main | Stale, % | stale -->\n\n| base | 1 |", "stands no table"),
        ("<!-- =columns main | Stale, % | stale -->\n| bass | 1 |", "stands no table with a row"),
        ("1<!-- =main | Stale, % | base -->", "has 3 parts; a page's figure takes 4"),
    ],
)
def test_a_mark_that_names_nothing_is_refused(figures: Figures, text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        figures.taken(text)
    assert said in str(refused.value)


def test_a_page_that_these_rows_do_not_make_is_read_as_it_is_committed() -> None:
    """Recall of gold turns, from the ranks of each question: the page says of those what it shows."""
    figures = Figures.read(RESULTS, ROWS)
    shown = figures.pages["conversations-locomo"]["Recall of gold turns"]
    lines = (RESULTS / "conversations-locomo" / "figures.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["gold_ranks"]]
    every = [{row["question"] for row in rows if row["method"] == method} for method in shown]
    for method, cells in shown.items():
        for column, cell in cells.items():
            if column != "questions":
                of = [
                    row["gold_ranks"]
                    for row in rows
                    if row["method"] == method and row["question"] in set.intersection(*every)
                ]
                found = [
                    sum(rank is not None and rank <= int(column[1:]) for rank in ranks) / len(ranks) for ranks in of
                ]
                exact = (
                    100 * sum(found) / len(found)
                )  # a half may be rounded either way: it was summed in another order
                assert float(cell.split(" ")[0]) == pytest.approx(exact, abs=0.05 + 1e-9), (method, column)


def test_a_folder_without_figures_says_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="python -m eval pages"):
        Figures.read(tmp_path, tmp_path)


@pytest.mark.parametrize("page", TAKE, ids=str)
def test_every_page_says_what_the_results_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert Figures.read(RESULTS, ROWS).taken(text) == text, "run `python -m eval pages`"
    assert "<!-- =" in text, "a page that takes no figure is none of these"


def test_no_page_has_marks_that_nothing_fills() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert {page for page in pages if "<!-- =" in page.read_text(encoding="utf-8")} <= set(TAKE)


def test_a_page_of_results_is_what_its_rows_make(tmp_path: Path) -> None:
    page = read_pages(RESULTS / PAGES)["crosstask"]
    view = shown(page, run_folder(RESULTS, tmp_path), tmp_path / "made", Path())
    committed = json.loads((RESULTS / "figures.json").read_text(encoding="utf-8"))
    assert cells_of(view) == committed["crosstask"], "run `python -m eval pages`"
    made, there = ((folder / "README.md").read_text("utf-8") for folder in (tmp_path / "made", RESULTS / "crosstask"))
    assert made == there


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('{"experiment": "mian"}', "No experiment 'mian'; there are: main"),
        ('{"experiment": "main", "methods": ["plum"]}', "Unknown method 'plum'"),
        ('{"experiments": "main"}', "cannot be read"),
    ],
)
def test_a_page_that_cannot_be_made_is_refused(tmp_path: Path, page: str, said: str) -> None:
    (tmp_path / PAGES).write_text(f'{{"one": {page}}}', encoding="utf-8")
    with pytest.raises(InvalidInput, match=said):
        shown(read_pages(tmp_path / PAGES)["one"], tmp_path, tmp_path, Path())

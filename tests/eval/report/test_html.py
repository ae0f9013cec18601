"""The page holds everything, asks for nothing, and runs nothing that a model said."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from eval.manifest import Manifest
from eval.metrics.verdicts import VerdictFile
from eval.report.html import KEYS, to_html
from eval.rows import Answered, ItemRow, RowFolder
from eval.specs import RunSettings
from plume_memory.errors import InvalidInput

ATTACK = "</li></ul></details><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; {{ 7*7 }}"


def _row(method: str, transition: str, output: str, **changes: object) -> ItemRow:
    answer = Answered(
        question_id=f"{transition}-q1",
        question=f"Where is {ATTACK}?",
        references=("Zug", f"town {ATTACK}"),
        old_references=("Bern",),
        affected=True,
        output=output,
        tokens=3,
        finish_reason="length",
        seconds=0.5,
        peak_bytes=None,
        detail={"evidence": f"Unit {ATTACK}"},
    )
    fields = {
        "key": f"{method} {transition}",
        "method": method,
        "kind": "base",
        "dataset": "mini-squad",
        "transition": transition,
        "step": 1,
        "settings": {},
        "seed": 0,
        "probe": "answers",
        "batch": 8,
        "fresh": False,
        "update_seconds": 1.0,
        "update_peak_bytes": 5,
        "update_derived": 2,
        "made_on": "cpu",
        "first_in_process": True,
        "answers": (answer,),
    }
    return ItemRow(**{**fields, **changes})  # type: ignore[arg-type]


ROWS = [
    _row("base", "r1", f"In Bern {ATTACK}"),
    _row("base", "r2", "In Zug."),
    _row(f"plume {ATTACK}", "r1", "In Zug."),
    _row(f"plume {ATTACK}", "r2", "In Zug."),
]


def _run(folder: Path, rows: list[ItemRow], experiments: tuple[str, ...] = ("main",), planned: int = 0) -> Path:
    run = folder / "my <run>"
    Manifest(RunSettings(), {"torch": "2"}, "CPU; 2 cores").claim(run)
    with RowFolder(run).writer("w") as writer:
        for row in rows:
            writer.write(row)
    for name in experiments:
        (run / name).mkdir()
        keys = {row.key: row.method for row in rows} | {f"missing {n}": "base" for n in range(planned)}
        (run / name / KEYS).write_text(json.dumps({"command": f"python -m eval {name} --out '<x>'", "keys": keys}))
    return run


class Page(HTMLParser):
    """Elements with their attributes, and the text of the page."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_a_model_said_is_text(tmp_path: Path) -> None:
    page = Page(to_html(_run(tmp_path, ROWS)))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert f"In Bern {ATTACK}" in page.text
    assert f"Unit {ATTACK}" in page.text
    assert tags.count("details") == 2 + 4  # two questions, and the evidence of each output


def test_the_page_asks_for_nothing(tmp_path: Path) -> None:
    content = to_html(_run(tmp_path, ROWS))
    for tag, attributes in Page(content).elements:
        for name in ("src", "href", "xlink:href", "action", "srcset", "data", "poster"):
            target = attributes.get(name)
            assert target is None or target.startswith("#") or target == "data:,", (tag, name, target)
    for match in re.findall(r"@import|url\([^)]*\)", content):
        assert match.startswith("url(#")


def test_only_the_pages_own_script_is_admitted(tmp_path: Path) -> None:
    content = to_html(_run(tmp_path, ROWS))
    policy = next(a["content"] for t, a in Page(content).elements if t == "meta" and "http-equiv" in a)
    script = content[content.rindex("<script>") + 8 : content.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"


def test_every_shown_experiment_has_a_section_with_its_command_tables_and_figures(tmp_path: Path) -> None:
    content = to_html(_run(tmp_path, ROWS, ("main", "locality"), planned=3))
    page = Page(content)
    assert [a["id"] for t, a in page.elements if t == "section"] == ["main", "locality", "outputs"]
    assert "python -m eval locality --out '<x>'" in page.text
    assert "4 of 7 items finished; the figures are of those." in page.text
    assert "ROUGE-L recall after the update, %" in page.text
    assert "Locality: mean ROUGE-L recall over kept questions" in page.text  # a note
    labels = [a["aria-label"] for t, a in page.elements if t == "svg"]
    assert labels == ["Recall after the update", "Locality"]


def test_ids_are_unique_though_figures_are_inlined(tmp_path: Path) -> None:
    content = to_html(_run(tmp_path, ROWS, ("main", "locality", "ablation")))
    ids = [a["id"] for _, a in Page(content).elements if "id" in a]
    assert len(ids) == len(set(ids))
    wanted = set(re.findall(r'(?:url\(|href=")#([^)"]+)', content))
    assert wanted <= set(ids)


def test_the_same_rows_give_the_same_page(tmp_path: Path) -> None:
    run = _run(tmp_path, ROWS)
    assert to_html(run) == to_html(run)


def test_stale_outputs_cut_offs_and_references_are_marked(tmp_path: Path) -> None:
    content = to_html(_run(tmp_path, ROWS))
    assert content.count(" data-stale") == 1
    assert content.count("· cut off") == 4
    assert content.count("<dt>before</dt><dd>Bern</dd>") == 2
    assert "judge" not in Page(content).text.replace("LLM as a judge", "").replace("recall / judge", "")


def test_verdicts_and_their_reasons_stand_by_the_outputs(tmp_path: Path) -> None:
    run = _run(tmp_path, ROWS)
    with VerdictFile(run, "some-judge", "p") as file:
        for criterion in ("equivalence", "agreement"):
            file.append(ROWS[0].answers[0], criterion, yes=False, rationale=f"No: {ATTACK}")  # type: ignore[arg-type]
    page = Page(to_html(run))
    assert "judge failed" in page.text
    assert f"agreement: no. No: {ATTACK}" in page.text
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert "some-judge" in page.text


def test_one_method_run_in_two_ways_is_told_apart_and_forced_references_are_no_outputs(tmp_path: Path) -> None:
    rows = [
        *ROWS,
        _row("base", "r1", "In Zug, slowly.", key="fresh", batch=1, fresh=True),
        _row("base", "r1", "FORCED", key="ranks", probe="ranks"),
    ]
    text = Page(to_html(_run(tmp_path, rows))).text
    assert "base (batch 1, fresh)" in text
    assert "base (batch 8)" in text
    assert "FORCED" not in text


def test_a_run_that_shows_nothing_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--show-only"):
        to_html(_run(tmp_path, ROWS, experiments=()))
    with pytest.raises(InvalidInput, match="is not a run folder"):
        to_html(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["", "[]", '{"keys": []}', '{"command": "x", "keys": ["k"]}'])
def test_a_damaged_list_of_keys_is_named(tmp_path: Path, content: str) -> None:
    run = _run(tmp_path, ROWS)
    (run / "main" / KEYS).write_text(content)
    with pytest.raises(InvalidInput, match=r"keys\.json cannot be read"):
        to_html(run)

"""What is no words is found and left out, however long; what may be words never is."""

import base64
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.memory import ParametricMemory
from plume_memory.records import Transition
from plume_memory.segmentation.unreadable import readable_spans, unreadable_spans
from plume_memory.segmentation.windows import Segmenter, WindowRule
from plume_memory.testing import tiny_engine

BYTES = random.Random(0).randbytes(6000)
ENCODED = base64.b64encode(BYTES).decode()
WRAPPED = base64.encodebytes(BYTES).decode()
DUMP = "".join(
    f"{at:08x}  {BYTES[at : at + 8].hex(' ')}  {BYTES[at + 8 : at + 16].hex(' ')}  |................|\n"
    for at in range(0, 480, 16)
)
MINIFIED = 'function a(b,c){var d=b.length;for(e=0;e<d;e++){if(b[e]==="x"){c.push({f:e,g:b[e]})}}return c};' * 8
NOISE = {"base64": ENCODED, "wrapped": WRAPPED, "hex dump": DUMP, "minified": MINIFIED, "hex": BYTES.hex()}
WORDS = {
    "prose": "Alice lives in Bern. She has a cat that is called Mistral, and two dogs.\n" * 30,
    "Chinese": "田中住在伯尔尼的老磨坊上面他有一只猫叫密史脱拉和两条狗" * 30,
    "one serial number": "The serial number is\n" + "A7F3" * 12 + "\nand it is on the lid.\n",
    "numbers": "\n".join(" ".join(str(n * m) for m in range(9)) for n in range(60)),
    "code": "def f(x):\n    return {key: value for key, value in x.items() if value}\n" * 20,
    "a long address": "The wiki is at https://wiki.example/" + "space/" * 30 + "ops .\n",
    "a table": "| name | price | stock |\n|---|---|---|\n" + "| bolt M8 | 0.12 | 4,000 |\n" * 40,
    "a table of years": "\n".join(f"{year} 3215 3365 3115 3515" for year in range(2010, 2025)),
    "accounts": "\n".join(f"DE8{n} 3704 0044 0532 0130 0{n} savings of child {n}" for n in range(8)),
    "telephones": "\n".join(f"0049 30 12 34 56 7{n} Ada's office {n}" for n in range(8)),
    "paths": "\n".join(f"/srv/projects/customers/ada-lovelace/report-2{n:02}" for n in range(8)),
    "compact JSON": "[" + ",".join(f'{{"name":"Ada {n}","city":"Bern","age":{n}}}' for n in range(20)) + "]",
    "JSON without a space": "[" + ",".join(f'{{"name":"Ada{n}","city":"Bern"}}' for n in range(20)) + "]",
    "a log": "2026-03-01 12:00:01,123 INFO api[17]: GET /v1/items/42 200 (12 ms)\n" * 20,
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_what_is_no_words_is_left_out_and_the_words_around_it_stay(noise: str) -> None:
    before, behind = "Alice lives in Bern.\n", "\nBob has a boat."
    text = before + noise + behind
    kept = "".join(text[start:end] for start, end in readable_spans(text))
    assert kept.startswith(before)
    assert kept.endswith(behind.lstrip())
    assert len(kept) < len(before + behind) + 100


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_what_may_be_words_is_read(words: str) -> None:
    assert unreadable_spans(words) == []


@given(st.lists(st.sampled_from([*NOISE.values(), *(words[:300] for words in WORDS.values()), "\n", " "]), max_size=6))
def test_the_parts_join_to_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    spans = sorted([*unreadable_spans(text), *readable_spans(text)])
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)


@pytest.mark.parametrize(
    "rule", [WindowRule("units"), WindowRule("pieces", 64), WindowRule("whole"), WindowRule("packed", 64)]
)
def test_nothing_is_made_of_it(rule: WindowRule) -> None:
    segmenter = Segmenter(lambda text: len(text.split()), unit_tokens=32, single_sentences=True, windows=rule)
    history = [Transition(1, f"Alice lives in Bern.\n{WRAPPED}\nBob has a boat."), Transition(2, ENCODED)]
    units = segmenter.units(history)
    assert [unit.text.strip() for unit in units] == ["Alice lives in Bern.", "Bob has a boat."]
    assert [history[0].text[unit.start : unit.end].strip() for unit in units] == [unit.text.strip() for unit in units]
    made = " ".join(segmenter.windows(history))
    assert "Bern" in made
    assert "boat" in made
    assert ENCODED[:40] not in made


def test_a_version_says_what_of_it_is_not_read_and_the_log_keeps_it(tmp_path: Path) -> None:
    text = f"Alice lives in Bern.\n{ENCODED}"
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=tiny_engine()) as memory:
        version = memory.update(text, metadata={"from": "mail"})
        assert version.metadata == {"from": "mail", "plume": {"unread": [[21, len(text)]]}}
        assert memory.entry(1).text == text
        assert memory.update(ENCODED).number == 2, "nothing else is in it"
        assert [one.unit.text.strip() for one in memory.route("Where does Alice live?", k=5)] == [
            "Alice lives in Bern."
        ]
        assert memory.ask("Where does Alice live?").evidence is not None
        assert "plume" not in memory.update("Bob has a boat.").metadata

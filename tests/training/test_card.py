"""The model card says what the issue asks of it."""

import re
from pathlib import Path
from types import ModuleType

from plume_memory.training.card import CardFacts, card_text, machine_class, write_card


def facts(tiny: ModuleType) -> CardFacts:
    return CardFacts(
        task=tiny.CardedTask().card(),
        settings={"run": {"steps": 100, "seed": 3}},
        parameters=12345,
        steps=40,
        planned_steps=100,
        samples=640,
        text_tokens=98765,
        student_tokens=4321,
        seconds=725,
        machine="2 CPU cores, bfloat16",
        resume_command="plume train tiny.json --out runs/tiny --resume",
    )


def test_it_says_everything(tiny: ModuleType) -> None:
    text = card_text(facts(tiny), [])

    assert text.startswith('---\nlicense: "apache-2.0"\nbase_model: "tiny/base"\n')
    for part in (
        "# tiny-hypernetwork",
        "fingerprint `ffffffffffff`",
        "| numbers | CC0-1.0 | drawn \\| at random |",
        "40 of 100 planned",
        "98,765",
        "12m05s",
        "2 CPU cores, bfloat16",
        "| unseen | 0.5123 |",
        "python -m eval tiny",
        "- Knows nothing.",
        "```sh\nplume train tiny.json --out runs/tiny --resume\n```",
        '"seed": 3',
    ):
        assert part in text, part


def test_its_curves_are_sampled_with_both_ends(tiny: ModuleType) -> None:
    rows = [{"kind": "evaluation", "step": 0, "figures": {"exact": 0.0}}]
    rows += [{"kind": "train", "step": s, "loss": 1 / s, "seconds": s} for s in range(1, 101)]
    rows += [{"kind": "skip", "step": 100, "reason": "loss nan"}]
    rows += [{"kind": "evaluation", "step": 100, "figures": {"exact": 0.75, "later": None}}]

    text = card_text(facts(tiny), rows)

    loss = text.split("## Training loss\n")[1].split("\n\n")[0].splitlines()[2:]
    assert len(loss) == 12
    assert loss[0].startswith("| 1 | 1s | 1 |")
    assert loss[-1].startswith("| 100 | 1m40s | 0.01 |")
    judged = text.split("## Evaluation during training\n")[1].split("\n\n")[0]
    assert judged.splitlines()[0] == "| step | exact | later |"
    assert judged.splitlines()[-1] == "| 100 | 0.75 |  |"
    assert "1 update was left out" in text


def test_a_run_puts_it_beside_the_network(tmp_path: Path, tiny: ModuleType) -> None:
    tiny.run_tiny(tmp_path, task=tiny.CardedTask(), steps=6, eval_every=3)

    text = (tmp_path / "hypernetwork" / "README.md").read_text()
    assert re.search(r"\| 6 \| \d+s \| \d", text), "the loss of step 6"
    assert '"name": "sine"' in text
    assert sorted(p.name for p in (tmp_path / "hypernetwork").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]


def test_it_is_written_without_metrics_too(tmp_path: Path, tiny: ModuleType) -> None:
    assert "## Training loss" not in write_card(tmp_path, facts(tiny)).read_text()


def test_a_machine_is_named_by_class() -> None:
    assert re.fullmatch(r"\d+ CPU cores?, bfloat16", machine_class("cpu", "bfloat16"))
    assert machine_class("cpu", "float32", 2).endswith("float32, 2 processes")

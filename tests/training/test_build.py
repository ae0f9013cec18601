"""Settings to parts."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from plume_memory.errors import TrainingError
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.parameterizer import OtherModelWarning
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.model.base import BaseModel
from plume_memory.policy import Calibration
from plume_memory.testing import tiny_base
from plume_memory.training.build import build
from plume_memory.training.facts import FactSource
from plume_memory.training.overrides import read_settings
from plume_memory.training.samples import Sample
from plume_memory.training.settings import TrainSettings
from plume_memory.training.writing import D2LWriter, FastWeightWriter

Small = Callable[..., TrainSettings]
D2L = {"kind": "d2l", "rank": 2, "latent_size": 16, "blocks": 2, "heads": 2, "kv_heads": 1, "head_size": 8}
TEXT = {"kind": "text", "name": "plain", "folder": "texts"}
JSONL = {"kind": "jsonl", "name": "qa", "paths": ["qa.jsonl"], "licence": "CC0-1.0"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Eight plain words that say nothing at all here.")
    for name, years in (("qa", (1999, 2003)), ("held", (1987, 1991))):
        passages = [
            {"context": f"Ann lives in Bern since {y}.", "qas": [{"question": "Since when?", "answers": [str(y)]}]}
            for y in years
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(passage) + "\n" for passage in passages))
    return tmp_path


def test_the_settings_we_train_with_are_valid() -> None:
    for path in (Path(__file__).parents[2] / "bench" / "training").glob("*.json"):
        assert read_settings(TrainSettings, path, []).model == "smollm2-135m"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"curriculum": {"largest": []}}, "at least 1"),
        ({"curriculum": {"largest": [[10, 2], [10, 3]]}}, "ascending steps"),
        ({"curriculum": {"largest": [[0, 0]]}}, "at least one fact"),
        ({"network": {"kind": "fast-weight", "mixer_width": 12}}, "multiple of 8"),
        ({"network": {**D2L, "heads": 3, "kv_heads": 2}}, "cannot share"),
        ({"objectives": {"anwser": 1}}, "Extra inputs"),
        ({"update": {"alpha": -1}}, "greater than or equal to 0"),
        ({"update": {"beta": float("nan")}}, "finite number"),
        ({"run": {"learning_rate": float("inf")}}, "finite number"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TrainSettings.model_validate(wrong)


def test_every_kind_of_source_is_mixed_in(small: Small, root: Path, tiny_llama: BaseModel) -> None:
    import random

    data = [{"kind": "facts"}, JSONL, TEXT]
    built = build(tiny_llama, small(data=data, data_root=str(root), update={"share": 0.1}))
    drawn = [built.data.source.draw(random.Random(i), largest=2, update=False) for i in range(40)]
    updated = [built.data.updates.draw(random.Random(i), largest=2, update=True) for i in range(20)]

    assert {sample.source for sample in drawn} == {"facts", "qa", "plain"}
    assert {sample.source for sample in updated} == {"facts", "qa"}, "plain text has no updates"
    assert [s.name for s in built.card().sources] == ["invented facts", "qa", "plain"]
    assert built.card().sources[1].licence == "CC0-1.0"


def test_plain_text_that_nothing_would_be_learned_from_is_refused(
    small: Small, root: Path, tiny_llama: BaseModel
) -> None:
    chosen = small(data=[TEXT], data_root=str(root), objectives={"reconstruction": 0, "completion": 0})
    with pytest.raises(TrainingError, match="'plain' is plain text"):
        build(tiny_llama, chosen)
    with pytest.raises(TrainingError, match="no source can make an update: plain text has no answers"):
        build(tiny_llama, small(data=[TEXT], data_root=str(root), update={"share": 0.1}))


def test_a_missing_file_is_a_training_error(small: Small, root: Path, tiny_llama: BaseModel) -> None:
    with pytest.raises(TrainingError, match="missing"):
        build(tiny_llama, small(data=[{**JSONL, "paths": ["missing.jsonl"]}], data_root=str(root)))


def test_prose_is_held_out_with_a_seed_of_its_own(small: Small, root: Path, tiny_llama: BaseModel) -> None:
    evaluation = {"prose": [{**JSONL, "paths": ["held.jsonl"]}]}
    one = build(tiny_llama, small(data_root=str(root), evaluation=evaluation))
    other = build(tiny_llama, small(data_root=str(root), evaluation=evaluation, run={"seed": 9}))

    assert one.data.evaluation == other.data.evaluation
    assert all(isinstance(s, Sample) and s.asks for s in one.data.evaluation["qa"])


def test_the_same_settings_make_the_same_network(small: Small, tiny_llama: BaseModel) -> None:
    one, same, other = (build(tiny_llama, small(run={"seed": s})).writer.network.state_dict() for s in (0, 0, 1))

    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_shares_of_the_depth_become_layers(small: Small) -> None:
    base = tiny_base("llama", layers=4)
    network = {"lowest_layer": 0.5, "mixer_layer": 0.3}
    writer = build(base, small(network=network)).writer
    reference = build(base, small(network=D2L)).writer

    assert isinstance(writer, FastWeightWriter)
    assert (writer.layers, writer.network.config.mixer_layer) == ((2, 3), 1)
    assert isinstance(reference, D2LWriter)
    assert reference.layers == (0, 1, 2, 3)


def test_a_run_goes_on_from_a_network_of_the_same_sizes(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    built = build(tiny_llama, small())
    built.save(tmp_path)
    manifest = checkpoint.read_manifest(tmp_path)

    started = build(tiny_llama, small(start=str(tmp_path), run={"seed": 5})).writer.network
    assert all(p.requires_grad for p in started.parameters())
    assert started.training
    for name, tensor in started.state_dict().items():
        assert torch.equal(tensor, built.writer.network.state_dict()[name].bfloat16().float())
    assert (manifest.base_model, manifest.max_tokens) == ("tiny-llama", 64)
    with pytest.raises(TrainingError, match="rank = 16, the settings ask for 8"):
        build(tiny_llama, small(start=str(tmp_path), network={"rank": 8}))
    with pytest.raises(TrainingError, match="a D2L network starts afresh"):
        build(tiny_llama, small(start=str(tmp_path), network=D2L))


def test_a_run_may_add_mixer_blocks_and_file_first_tokens(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    """The network it goes on from writes the same texts into the same factors until it is trained."""
    before = build(tiny_llama, small(network={"mixer_blocks": 1, "first_token": False}))
    before.save(tmp_path)
    more = {"mixer_blocks": 3, "first_token": False}
    after = build(tiny_llama, small(start=str(tmp_path), network=more, run={"seed": 5}))
    filed = build(tiny_llama, small(start=str(tmp_path), network={**more, "first_token": True}))

    texts = [(40, 41, 42, 43), (50, 51)]
    written = [built.writer.write(texts).B for built in (before, after, filed)]
    torch.testing.assert_close(written[1], written[0], atol=2e-2, rtol=2e-2)  # the start was stored in bfloat16
    assert (written[2] - written[1]).abs().max() > 1e-4
    assert after.writer.network.config.mixer_blocks == 3
    with pytest.raises(TrainingError, match="mixer_blocks = 1, the settings ask for 0"):
        build(tiny_llama, small(start=str(tmp_path), network={"mixer_blocks": 0}))


def test_the_policy_that_was_trained_for_is_saved(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    stage = {"alpha": 0.7, "beta": 0.4, "lambda_max": 3.0, "tau": 0.1}
    build(tiny_llama, small(update=stage)).save(tmp_path)

    policy = checkpoint.read_manifest(tmp_path).policy
    assert (policy.alpha, policy.beta, policy.lambda_max, policy.tau) == (0.7, 0.4, 3.0, 0.1)


def test_an_answer_ends_as_the_models_own_answers_do(small: Small) -> None:
    """Where the user's turn ends in "[/INST]", an answer does not: the end of text ends it."""
    plain = tiny_base("llama")
    tokenizer = plain.tokenizer
    ended = build(plain, small()).item_writer.end_id
    tokenizer.chat_template = "{% for m in messages %}[INST]{{ m['content'] }}[/INST]{% endfor %}"
    mistral = BaseModel.wrap(plain.model, tokenizer, name="instructed", fingerprint="x")

    assert ended in plain.stop_ids
    assert mistral.chat.suffix == "[/INST]"
    assert build(mistral, small()).item_writer.end_id == tokenizer.eos_token_id


def test_a_teacher_is_there_when_it_is_asked_for(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    assert build(tiny_llama, small()).teacher is None
    assert build(tiny_llama, small(objectives={"distillation": 1.0}), cache=tmp_path).teacher is not None
    assert (tmp_path / "teacher.db").is_file()


def test_evaluation_facts_are_exactly_so_many(small: Small, tiny_llama: BaseModel) -> None:
    import random

    source = build(tiny_llama, small()).data.facts(5, False)
    assert isinstance(source, FactSource)
    assert {source.draw(random.Random(i), largest=5, update=False).facts for i in range(9)} == {5}


def test_held_out_families_are_evaluated_apart(small: Small, tiny_llama: BaseModel) -> None:
    import random

    data = [{"kind": "facts", "exclude_families": ["codes"]}]
    built = build(tiny_llama, small(data=data, evaluation={"families": ["codes"]}))
    held, trained = built.data.facts(1, True), built.data.facts(1, False)
    asked = [
        {held_out.draw(random.Random(i), largest=1, update=False).source for i in range(5)}
        for held_out in (held, trained)
    ]

    assert asked == [{"held-out"}, {"facts"}]


def test_a_network_says_which_model_it_was_trained_on(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    """Another model of the same sizes: its states mean nothing to the network, and who loads it there is told."""
    build(tiny_llama, small()).save(tmp_path)
    other = BaseModel.wrap(tiny_llama.model, tiny_llama.tokenizer, name="other", fingerprint="another model's")

    assert checkpoint.read_manifest(tmp_path).base_fingerprint == tiny_llama.fingerprint
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_hypernetwork(tiny_llama, tmp_path)
        build(tiny_llama, small(start=str(tmp_path)))
    with pytest.warns(OtherModelWarning, match="was trained on 'tiny-llama' .* this is 'other'"):
        load_hypernetwork(other, tmp_path)
    with pytest.warns(OtherModelWarning):
        build(other, small(start=str(tmp_path)))


def test_a_model_known_by_name_is_itself_however_it_was_written_down(
    small: Small, tmp_path: Path, tiny_llama: BaseModel
) -> None:
    """Another release of transformers writes the same model into other bytes."""
    then, now, other = (
        BaseModel.wrap(tiny_llama.model, tiny_llama.tokenizer, name=name, fingerprint=fingerprint)
        for name, fingerprint in (("smollm2-135m", "then"), ("smollm2-135m", "now"), ("mine", "now"))
    )
    build(then, small()).save(tmp_path)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_hypernetwork(now, tmp_path)
    with pytest.warns(OtherModelWarning):
        load_hypernetwork(other, tmp_path)


def test_a_run_that_goes_on_keeps_how_its_start_was_asked(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    """Also the composition, whatever it trains with: only the calibration was fitted to other weights."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    build(tiny_llama, small(update={"alpha": 0.75})).save(tmp_path / "first")
    assert checkpoint.read_manifest(tmp_path / "first").policy.alpha == 0.75
    config = json.loads((tmp_path / "first" / "config.json").read_text())
    chosen = {"retrieval": "reader", "evidence_units": 3, "min_gain": 5.0, "alpha": 0.25, "lambda_max": 10.0}
    config["policy"] |= chosen
    config["calibration"] = {"slope": 2.0, "offset": 1.0, "per_nat": 1.5}
    (tmp_path / "first" / "config.json").write_text(json.dumps(config))
    for name, share in (("second", 0.5), ("third", 0.0)):
        (tmp_path / name).mkdir(exist_ok=True)
        stage = {"alpha": 0.5, "share": share}
        build(tiny_llama, small(start=str(tmp_path / "first"), update=stage)).save(tmp_path / name)
        manifest = checkpoint.read_manifest(tmp_path / name)
        assert {key: getattr(manifest.policy, key) for key in chosen} == chosen
        assert manifest.calibration == Calibration()


def test_a_network_is_saved_when_its_start_is_gone(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    """A run takes hours; the folder it began from may be tidied away meanwhile."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    build(tiny_llama, small()).save(tmp_path / "first")
    built = build(tiny_llama, small(start=str(tmp_path / "first")))
    shutil.rmtree(tmp_path / "first")

    built.save(tmp_path / "second")
    assert checkpoint.load(tmp_path / "second").config == built.writer.network.config  # type: ignore[union-attr]


def test_the_card_states_the_licence_and_the_start_that_it_was_given(
    small: Small, tmp_path: Path, tiny_llama: BaseModel
) -> None:
    (tmp_path / "first").mkdir()
    build(tiny_llama, small()).save(tmp_path / "first")
    card = build(tiny_llama, small(start=str(tmp_path / "first"), licence="MIT", language="Danish")).card()

    assert build(tiny_llama, small()).card().licence == "not stated"
    assert card.licence == "MIT"
    assert card.limits[-1] == "Language of the data: Danish."
    assert card.sources[-1].name == str(tmp_path / "first")

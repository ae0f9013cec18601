"""The judge's task as the loop sees it, and the judge that comes of it: what is trained is what judges."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from plume_memory.errors import CheckpointError, TrainingError
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.judge import FILE, OUTPUTS
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.model.base import BaseModel
from plume_memory.retrieval.judge import Judge
from plume_memory.testing import tiny_base
from plume_memory.training.ahead import DrawnAhead
from plume_memory.training.build import build
from plume_memory.training.cases import ClaimSet, PairSet, Verdict, garbled
from plume_memory.training.data import read_data
from plume_memory.training.facts import FAMILIES, FactSource
from plume_memory.training.facts.cases import FactCases
from plume_memory.training.facts.twins import near_name, twins
from plume_memory.training.judgements import claims_of, pairs_of
from plume_memory.training.judging import ALLOWED, JudgingTask, barred, pair_loss
from plume_memory.training.progress import RunProgress
from plume_memory.training.requirements import require_use
from plume_memory.training.reranking import RerankingTask, load_start
from plume_memory.training.run import run
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.settings import TrainSettings
from plume_memory.training.sources.matching import holds
from plume_memory.training.task import build_task
from plume_memory.training.written import WrittenCases

Small = Callable[..., TrainSettings]
JUDGE = {"kind": "judge", "rank": 4, "lowest_layer": 0.0, "facts": 1.0}
RELATIONS = [one for own in FAMILIES.values() for one in own]


@pytest.fixture
def network(tmp_path: Path) -> Path:
    folder = tmp_path / "start"
    folder.mkdir()
    sizes = FastWeightConfig(hidden_size=32, intermediate_size=64, layers=(2,), rank=4, value_width=4, mixer_layer=1)
    checkpoint.save(FastWeightNetwork(sizes), folder, base_model="tiny", max_tokens=40)
    return folder


def made(base: BaseModel, settings: TrainSettings) -> JudgingTask:
    require_use(settings, vocabulary=base.model.config.vocab_size)
    return JudgingTask(base, settings, load_start(base, settings), read_data(settings))


# --- cases ----------------------------------------------------------------------------------------


def test_pairs_of_facts_are_of_every_kind_and_contrast() -> None:
    chance, source = random.Random(1), FactCases(RELATIONS, most=5)
    drawn = [source.pairs(chance) for _ in range(1000)]
    verdicts = [verdict for one in drawn for _, verdict in one.earlier]
    shares = {verdict: verdicts.count(verdict) / len(verdicts) for verdict in ALLOWED}
    assert all(share > 0.15 for verdict, share in shares.items() if verdict != "not replaces")
    assert all(2 <= len(one.earlier) <= 5 for one in drawn)
    assert all("{" not in one.later + "".join(text for text, _ in one.earlier) for one in drawn)
    for one in drawn:
        assert not [text for text, verdict in one.earlier if verdict == "replaces" and text == one.later]
    telling = [one for one in drawn if len({verdict for _, verdict in one.earlier}) > 1]
    assert len(telling) > 0.95 * len(drawn)
    assert [source.pairs(random.Random(7)) for _ in range(3)] == [source.pairs(random.Random(7)) for _ in range(3)]


def test_what_a_later_text_says_is_also_told_of_others() -> None:
    """Word for word, but for the name: neither takes the other's place."""
    chance, source = random.Random(4), FactCases(RELATIONS, most=5)
    drawn = [source.pairs(chance) for _ in range(1000)]
    others = [(one.later, text) for one in drawn for text, verdict in one.earlier if verdict == "unrelated"]
    assert sum(_but_for_a_name(text, later) for later, text in others) > 0.2 * len(drawn)
    assert not [
        one.later
        for one in drawn
        for text, verdict in one.earlier
        if text == one.later and verdict in ("replaces", "unrelated")
    ]


def _but_for_a_name(one: str, other: str) -> bool:
    first, second = one.split(), other.split()
    same = set(first) & set(second)
    return one != other and len(same) >= 3 and len(set(first) ^ set(second)) <= 4


def test_more_cases_than_there_are_to_draw_are_all_there_is() -> None:
    cases, chance = FactCases(RELATIONS, most=40), random.Random(5)
    assert max(len(cases.pairs(chance).earlier) for _ in range(300)) > 5
    assert max(len(cases.claims(chance).claims) for _ in range(300)) > 5


def test_claims_of_facts_are_of_both_kinds_and_a_supported_answer_is_in_the_text() -> None:
    chance, source = random.Random(2), FactCases(RELATIONS, most=5)
    drawn = [source.claims(chance) for _ in range(1000)]
    claims = [(one.text, *claim) for one in drawn for claim in one.claims]
    assert 0.3 < sum(supported for *_, supported in claims) / len(claims) < 0.6
    assert 0.2 < sum(not answer for _, _, answer, _ in claims) / len(claims) < 0.5
    for text, _, answer, supported in claims:
        if supported and answer:
            assert any(word in text.lower() for word in answer.lower().strip(".").split())


@pytest.mark.parametrize("seed", range(40))
def test_near_names_differ_by_little(seed: int) -> None:
    chance = random.Random(seed)
    for name, fresh in (
        ("Anna Berg", "Tom Holm"),
        ("Project Alpha", "Project Beta"),
        ("unit-12", "unit-40"),
        ("Xyz", "Q"),
    ):
        changed = near_name(chance, name, fresh)
        assert changed != name
        assert abs(len(changed) - len(name)) <= 4
    one, other = twins(chance)
    assert one != other


def test_a_garbled_value_is_another() -> None:
    chance = random.Random(3)
    for value in ("CH93 0076", "12", "a", "99.982"):
        assert all(garbled(chance, value) != value for _ in range(50))


TOLD = Sample(
    "Al lives in Bern. Bo eats figs.",
    (Ask("Where does Al live?", "Rome", affected=True, stale="Bern"), Ask("What does Bo eat?", "figs")),
    "notes",
    update="Al has moved to Rome. Bo eats figs.",
)


def test_of_a_corrected_text_what_gives_the_new_value_replaces_what_gave_the_old() -> None:
    chance = random.Random(4)
    drawn = {one for _ in range(200) if (one := pairs_of(TOLD, chance, most=5)) is not None}
    judged = {(one.later, *pair) for one in drawn for pair in one.earlier}
    assert judged == {
        ("Al has moved to Rome.", "Al lives in Bern.", "replaces"),
        ("Al has moved to Rome.", "Bo eats figs.", "not replaces"),
        ("Bo eats figs.", "Bo eats figs.", "adds"),
    }, "of what is outdated and not replaced by this sentence nothing is said"
    assert pairs_of(Sample("Al sings.", (Ask("Who sings?", "Al"),), "x"), chance, most=5) is None


def test_of_a_text_a_claim_is_supported_where_its_sentence_is_there_and_says_it() -> None:
    chance = random.Random(5)
    drawn = [one for _ in range(100) if (one := claims_of(TOLD, chance, most=5)) is not None]
    of = {"Where does Al live?": "Bern", "What does Bo eat?": "figs"}
    claims = [(one.text, *claim) for one in drawn for claim in one.claims]
    for text, question, answer, supported in claims:
        said = answer == "" or holds(answer, of[question])
        assert supported == (holds(text, of[question]) and said)
    assert {supported for *_, supported in claims} == {True, False}
    assert claims_of(Sample("Al sings.", (Ask("Who?", "Bo"),), "x"), chance, most=5) is None


PAIRS = '{"later": "Al moved.", "earlier": [["Al lives in Bern.", "replaces"], ["Bo eats.", "unrelated"]]}'
CLAIMS = '{"text": "Al lives in Bern.", "claims": [["Where is Al?", "Bern", true], ["Where is Bo?", "", false]]}'


def test_what_people_wrote_is_drawn_and_a_line_of_another_shape_is_named(tmp_path: Path) -> None:
    pairs, claims = tmp_path / "pairs.jsonl", tmp_path / "claims.jsonl"
    pairs.write_text(f"{PAIRS}\n")
    claims.write_text(f"{CLAIMS}\n")
    written = WrittenCases([pairs], [claims], most=1)
    drawn = {written.pairs(random.Random(seed)).earlier for seed in range(20)}
    assert drawn == {(("Al lives in Bern.", "replaces"),)}, "what is replaced first"
    both = WrittenCases([pairs], [claims], most=2)
    drawn = {written.pairs(random.Random(seed)).earlier for seed in range(20) for written in (both,)}
    assert {frozenset(one) for one in drawn} == {
        frozenset({("Al lives in Bern.", "replaces"), ("Bo eats.", "unrelated")})
    }
    assert {len(written.claims(random.Random(seed)).claims) for seed in range(5)} == {1}

    pairs.write_text(f"{PAIRS}\n{PAIRS.replace('unrelated', 'other')}\n")
    with pytest.raises(TrainingError, match=r"pairs\.jsonl, line 2: earlier\.1\.1: Input should be"):
        WrittenCases([pairs], [claims], most=1)
    for line, said in (
        ('{"texts": ["a"], "replaces": [], "adds": []}', "texts: Tuple should have at least 2"),
        ('{"texts": ["a", "b"], "replaces": [[0, 1]], "adds": []}', r"\[0, 1\] are no places"),
        ("[]", "the whole: Input should be an object"),
    ):
        pairs.write_text(line)
        with pytest.raises(TrainingError, match=rf"pairs\.jsonl, line 1: .*{said}"):
            WrittenCases([pairs], [claims], most=1)
    pairs.write_text("")
    with pytest.raises(TrainingError, match="holds no line"):
        WrittenCases([pairs], [claims], most=1)
    with pytest.raises(TrainingError, match="Cannot read"):
        WrittenCases([tmp_path / "absent"], [claims], most=1)


def test_a_history_is_a_set_for_each_later_text(tmp_path: Path) -> None:
    told = ["Al lives in Bern.", "Bo has a boat.", *(f"Carol paints {n}." for n in range(8)), "Al moved to Zug."]
    told += ["Carol paints 9."]
    history = {"texts": told, "replaces": [[10, 0]], "adds": [[11, 2]]}
    (tmp_path / "h.jsonl").write_text(json.dumps(history))
    written = WrittenCases([tmp_path / "h.jsonl"], [], most=3)
    drawn = [written.pairs(random.Random(seed)) for seed in range(60)]
    moved = [one for one in drawn if one.later == "Al moved to Zug."]
    assert moved
    assert all(("Al lives in Bern.", "replaces") in one.earlier for one in moved)
    assert {verdict for one in moved for _, verdict in one.earlier} == {"replaces", "not replaces"}
    painted = [one for one in drawn if one.later == "Carol paints 9."]
    assert {verdict for one in painted for _, verdict in one.earlier} == {"adds", "not replaces"}
    assert all(len(one.earlier) == 3 for one in drawn)
    assert not any(one.later == "Bo has a boat." for one in drawn), "too little was told before it"


def test_other_processes_draw_what_the_trainer_draws(small: Small, network: Path) -> None:
    task = made(tiny_base("llama"), small(network=JUDGE, start=str(network)))
    ahead = DrawnAhead(task._micro_batch, device=torch.device("cuda"), stride=1, end=5)
    assert [ahead(number) for number in range(5)] == [task._micro_batch(number) for number in range(5)]


# --- the task -------------------------------------------------------------------------------------


def judge_of(base: BaseModel, task: JudgingTask) -> Judge:
    return Judge(base, task.network.weights())


def shaken(task: JudgingTask) -> None:
    """Numbers that say something; stored in bfloat16 as they are."""
    with torch.no_grad():
        for p in task.network.parameters():
            noise = 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
            p.copy_((p + noise).to(torch.bfloat16))


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_what_is_trained_is_what_judges(small: Small, network: Path, name: str) -> None:
    """Alone or in a batch, padded or not, behind a text that others stand behind too, beside a far longer one."""
    base = tiny_base(name)
    task = made(base, small(network=JUDGE, start=str(network)))
    shaken(task)
    long = "Cy reads. " * 12
    pairs = [("Al lives in Bern.", "Al moved."), (long, "Cy eats."), ("Bo eats.", "The moon is made of green cheese.")]
    claims = [("Al lives in Bern.", "Where does Al live?", "Bern"), (long, "What?", ""), ("Bo eats.", "Who?", "")]
    judge = judge_of(base, task)
    sets = [PairSet(later, ((earlier, "adds"), ("Nothing.", "adds"))) for earlier, later in pairs]
    said = [ClaimSet(text, ((question, answer, True), ("Why?", "", True))) for text, question, answer in claims]
    with torch.no_grad():
        read = (task._pairs_read(sets), task._claims_read(said))
        of_pairs, of_claims = (task._scores(one)[0][::2] for one in read)
    wanted = torch.softmax(of_pairs[:, :3], 1)
    torch.testing.assert_close(torch.tensor(judge.verdicts(pairs)), wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(torch.tensor(judge.support(claims)), of_claims[:, 3], atol=1e-4, rtol=1e-4)
    assert judge.verdicts([pairs[2]])[0] == pytest.approx(judge.verdicts(pairs)[2], abs=1e-5)
    assert judge.verdicts([]) == judge.support([]) == []


def test_more_rank_and_layers_say_at_first_what_it_goes_on_from(small: Small, network: Path, tmp_path: Path) -> None:
    base = tiny_base("llama")
    settings = small(network=JUDGE | {"lowest_layer": 0.5}, start=str(network))
    task = made(base, settings)
    shaken(task)
    task.save(tmp_path)
    grown = made(base, small(network=JUDGE | {"rank": 6, "lowest_layer": 0.0}, start=str(tmp_path)))
    pairs = [("Al lives in Bern.", "Al moved."), ("Bo eats.", "The moon is made of green cheese.")]
    was, now = judge_of(base, task).verdicts(pairs), judge_of(base, grown).verdicts(pairs)
    torch.testing.assert_close(torch.tensor(now), torch.tensor(was), atol=1e-5, rtol=1e-5)
    assert grown.network.adapter.factors().rank == 6


def test_the_loss_is_the_mean_surprise_of_the_verdicts_that_are_allowed() -> None:
    scores = torch.randn(4, OUTPUTS, generator=torch.Generator().manual_seed(3))
    verdicts: list[Verdict] = ["replaces", "adds", "unrelated", "not replaces"]
    sets = [PairSet("b", ((str(n), verdict),)) for n, verdict in enumerate(verdicts)]
    p = torch.softmax(scores[:, :3], dim=1)
    allowed = torch.stack([p[0, 2], p[1, 1], p[2, 0], p[3, 0] + p[3, 1]])
    torch.testing.assert_close(pair_loss(scores, barred(sets)), -allowed.log().mean())


def test_it_learns(small: Small, network: Path) -> None:
    base = tiny_base("llama")
    task = made(base, small(network=JUDGE, start=str(network)))
    optimizer = torch.optim.Adam(task.network.parameters(), lr=0.01)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        report = task.step(0, 0, 0)
        report.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(report.loss.item())
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    assert all(p.grad is None for p in base.model.parameters())


def test_a_step_is_a_function_of_its_number(small: Small, network: Path) -> None:
    base = tiny_base("llama")
    tasks = [made(base, small(network=JUDGE, start=str(network))) for _ in range(2)]
    tasks[1].step(0, 0, 0)  # what was asked before does not matter
    one, other = (task.step(5, 0, 0) for task in tasks)
    assert torch.equal(one.loss, other.loss)
    assert one.parts == other.parts
    assert tasks[0].evaluate(0) == tasks[1].evaluate(3)


def test_a_run_ends_in_a_network_with_a_judge_that_goes_on_with_it(small: Small, network: Path, tmp_path: Path) -> None:
    base = tiny_base("llama")
    settings = small(network=JUDGE, start=str(network), evaluation={"texts": 4})
    task = made(base, settings)
    result = run(task, settings.run, tmp_path / "run", resume=False, progress=RunProgress(quiet=True))
    loaded = load_hypernetwork(base, result.hypernetwork)
    assert loaded.judge is not None
    assert torch.equal(loaded.judge.weight, task.network.weight.detach())
    for name, pair in loaded.judge.adapter.modules.items():
        assert torch.equal(pair.B, task.network.adapter.factors().modules[name].B.to(torch.bfloat16))
    assert load_hypernetwork(base, network).judge is None, "the start stays as it is"
    onward = made(base, small(network=JUDGE, start=str(result.hypernetwork)))
    assert torch.equal(onward.network.weight, loaded.judge.weight), "another run goes on from it"
    assert "judge" in (result.hypernetwork / "README.md").read_text()

    sizes = {"kind": "fast-weight", "rank": 4, "value_width": 4, "lowest_layer": 0.7, "mixer_layer": 0.4}
    again = tmp_path / "again"
    again.mkdir()
    build(base, small(network=sizes, start=str(result.hypernetwork))).save(again)
    kept = load_hypernetwork(base, again).judge
    assert kept is not None
    assert kept.sha256 == loaded.judge.sha256


def test_a_reranker_and_a_judge_keep_each_other(small: Small, network: Path, tmp_path: Path) -> None:
    base = tiny_base("llama")
    rerank = small(network={"kind": "reranker", "rank": 4, "lowest_layer": 0.0}, start=str(network))
    folders = [tmp_path / name for name in ("reranked", "judged", "both")]
    for folder in folders:
        folder.mkdir()
    RerankingTask(base, rerank, load_start(base, rerank), read_data(rerank)).save(folders[0])
    made(base, small(network=JUDGE, start=str(folders[0]))).save(folders[1])
    again = small(network={"kind": "reranker", "rank": 4, "lowest_layer": 0.0}, start=str(folders[1]))
    RerankingTask(base, again, load_start(base, again), read_data(again)).save(folders[2])
    for folder in folders[1:]:
        loaded = load_hypernetwork(base, folder)
        assert loaded.reranker is not None
        assert loaded.judge is not None


def test_a_judge_that_is_missing_damaged_or_another_ones_is_refused(
    small: Small, network: Path, tmp_path: Path
) -> None:
    base = tiny_base("llama")
    folder = tmp_path / "saved"
    folder.mkdir()
    made(base, small(network=JUDGE, start=str(network))).save(folder)
    whole, config = (folder / FILE).read_bytes(), json.loads((folder / "config.json").read_text())

    (folder / FILE).write_bytes(whole[:-3])
    with pytest.raises(CheckpointError, match="another one's"):
        load_hypernetwork(base, folder)
    (folder / FILE).write_bytes(b"no judge")
    sha256 = "0e8b0b0e4d2d3a2f4c1a8d4c4cf38a3c0a0c3f3d26b2a4d9ef2a1b5ab0b0c0d0"
    (folder / "config.json").write_text(json.dumps(config | {"judge_sha256": sha256}))
    with pytest.raises(CheckpointError, match="another one's"):
        load_hypernetwork(base, folder)
    (folder / FILE).unlink()
    with pytest.raises(CheckpointError, match=r"has a judge, and judge\.safetensors cannot be read"):
        load_hypernetwork(base, folder)


def test_numbers_that_are_not_finite_are_not_saved(small: Small, network: Path, tmp_path: Path) -> None:
    task = made(tiny_base("llama"), small(network=JUDGE, start=str(network)))
    with torch.no_grad():
        task.network.weight[0, 0] = torch.nan
    with pytest.raises(CheckpointError, match="not finite"):
        task.save(tmp_path)
    assert not (tmp_path / "config.json").exists()


def test_the_settings_say_which_task_is_built(small: Small, network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseModel, "load", lambda name, device: tiny_base("llama"))
    assert isinstance(build_task(small(network=JUDGE, start=str(network)), "cpu"), JudgingTask)
    with pytest.raises(TrainingError, match="belongs to a hypernetwork"):
        build_task(small(network=JUDGE), "cpu")


def test_the_start_is_read_once(small: Small, network: Path, tmp_path: Path) -> None:
    base = tiny_base("llama")
    task = made(base, small(network=JUDGE, start=str(network)))
    shutil.rmtree(network)
    task.save(tmp_path)
    assert load_hypernetwork(base, tmp_path).judge is not None


def test_samples_of_facts_give_pairs_and_claims() -> None:
    source, chance = FactSource("facts"), random.Random(6)
    pairs = [pairs_of(source.draw(chance, largest=6, update=True), chance, most=5) for _ in range(100)]
    claims = [claims_of(source.draw(chance, largest=6, update=False), chance, most=5) for _ in range(100)]
    assert sum(one is not None for one in pairs) > 80
    assert sum(one is not None for one in claims) > 60
    verdicts = {verdict for one in pairs if one is not None for _, verdict in one.earlier}
    assert verdicts >= {"replaces", "not replaces"}

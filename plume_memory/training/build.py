"""Settings to parts: the data sources, the network and what saves it."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from plume_memory.errors import TrainingError
from plume_memory.hypernet.d2l.checkpoint import save_trained
from plume_memory.hypernet.d2l.config import D2LConfig, ModuleShape
from plume_memory.hypernet.d2l.network import D2LNetwork
from plume_memory.hypernet.fastweight import checkpoint as fastweight
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.parameterizer import warn_of_another_model
from plume_memory.model.base import BaseModel
from plume_memory.model.hub import default_cache
from plume_memory.training.calibrate import calibrate
from plume_memory.training.card import DataSource, TaskCard
from plume_memory.training.facts import FactSource
from plume_memory.training.items import ItemWriter
from plume_memory.training.requirements import require_use
from plume_memory.training.samples import Sample, Source
from plume_memory.training.settings import (
    D2LSettings,
    FactsData,
    FastWeightSettings,
    JsonlData,
    TextData,
    TrainSettings,
)
from plume_memory.training.sources import JsonlSource, MixedSource, TextSource
from plume_memory.training.teacher import Teacher
from plume_memory.training.writing import D2LWriter, FastWeightWriter, TextWriter

_PROSE_SAMPLES = 48


@dataclass(frozen=True, slots=True)
class Built:
    """The parts of a task."""

    source: Source
    updates: Source
    """Of samples with an update: the sources that can make one."""
    facts: Callable[[int, bool], Source]
    """Invented facts for the evaluation: so many per text, of the held-out families or of the trained ones."""
    item_writer: ItemWriter
    writer: TextWriter
    teacher: Teacher | None
    evaluation: Mapping[str, list[Sample]]
    """Prose that is never trained on."""
    sources: list[str]
    """One line for each source: what of it is used, and what is left out."""
    processes: int
    save: Callable[[Path], None]
    card: Callable[[], TaskCard]


def build(base: BaseModel, settings: TrainSettings, *, processes: int = 1, cache: Path | None = None) -> Built:
    """Build the parts of a run.

    Args:
        base: the frozen model.
        settings: the run's.
        processes: that share the run's micro-batches.
        cache: folder for the teacher's cache.

    Raises:
        TrainingError: a data source or the network to start from cannot be read, or the data does not fit the
            objectives.
    """
    require_use(settings, vocabulary=base.model.config.vocab_size)
    root = Path(settings.data_root).expanduser()
    sources = [(one.weight, _source(one, root)) for one in settings.data]
    source = MixedSource("mixed", sources)
    editable, told = _updatable(sources, settings)
    writer = _writer(base, settings, source)
    answers = _answers(settings)  # now: its start may be gone when the network is saved
    teacher = None
    if settings.objectives.distillation > 0:
        teacher = Teacher(base, settings.objectives.top_k, (cache or default_cache() / "training") / "teacher.db")
    return Built(
        source=source,
        updates=MixedSource("updates", editable) if editable else source,
        facts=lambda count, held_out: _facts(settings, count, held_out),
        item_writer=ItemWriter(
            base.chat, _end_id(base), settings.objectives.span_tokens, statements=settings.objectives.statements
        ),
        writer=writer,
        teacher=teacher,
        evaluation={one.name: _held_out(one, settings) for one in settings.evaluation.prose},
        sources=[one.summary for _, one in sources if isinstance(one, JsonlSource | TextSource)] + told,
        processes=processes,
        save=lambda folder: _save(writer, folder, base, settings, answers),
        card=lambda: _card(base, settings),
    )


def _updatable(
    sources: list[tuple[float, Source]], settings: TrainSettings
) -> tuple[list[tuple[float, Source]], list[str]]:
    """The sources that updates can be made of, and a line for each that has questions and cannot.

    Raises:
        TrainingError: updates are asked for and there is none.
    """
    if settings.update.share == 0:
        return [], []
    able = [one for one in sources if _can_update(one[1])]
    if not able:
        raise TrainingError(
            "update.share is above 0, and no source can make an update: plain text has no answers, and no answer of "
            "the others can be edited (a number, a date, or a name that stands in the text). Add a source, or set it 0."
        )
    unable = [one.name for _, one in sources if isinstance(one, JsonlSource) and not one.can_update]
    return able, [f"{name}: none of its answers can be edited, so no update is made of it" for name in unable]


def _can_update(source: Source) -> bool:
    return isinstance(source, FactSource) or (isinstance(source, JsonlSource) and source.can_update)


def _end_id(base: BaseModel) -> int:
    """What ends an answer: what ends the user's turn, or the end of text where a turn ends otherwise ([/INST])."""
    (end,) = base.chat.encode(base.chat.suffix)[:1]
    return end if end in base.stop_ids else int(base.tokenizer.eos_token_id)


def _source(data: Any, root: Path) -> Source:
    if isinstance(data, FactsData):
        return FactSource("facts", exclude_families=data.exclude_families)
    if isinstance(data, JsonlData):
        paths = [root / path for path in data.paths]
        return JsonlSource(data.name, paths, largest_words=data.largest_words, extractive=data.extractive)
    return TextSource(data.name, root / data.folder, largest_words=data.largest_words)


def _facts(settings: TrainSettings, count: int, held_out: bool) -> Source:
    held = settings.evaluation.families
    if held_out:
        return FactSource("held-out", smallest=count, only_families=held)
    excluded = [set(one.exclude_families) for one in settings.data if isinstance(one, FactsData)]
    never_trained = set.intersection(*excluded) if excluded else set()
    return FactSource("facts", smallest=count, exclude_families=never_trained.union(held))


def _held_out(data: JsonlData, settings: TrainSettings) -> list[Sample]:
    source = _source(data, Path(settings.data_root).expanduser())
    chance = random.Random(f"{settings.evaluation.seed}:{data.name}")
    drawn = [source.draw(chance, largest=1, update=False) for _ in range(4 * _PROSE_SAMPLES)]
    distinct = {sample.text: sample for sample in drawn}  # a text beside itself would not be a control
    if len(distinct) < 2:
        raise TrainingError(
            f"evaluation.prose {data.name!r} has one passage, and each is asked with another's adapter too; give two."
        )
    return list(distinct.values())[:_PROSE_SAMPLES]


# --- networks -------------------------------------------------------------------------------------


def _writer(base: BaseModel, settings: TrainSettings, source: Source) -> TextWriter:
    own = settings.network
    torch.manual_seed(settings.run.seed)
    if isinstance(own, D2LSettings):
        if settings.start is not None:
            raise TrainingError("`start` goes on from a fast-weight network; a D2L network starts afresh.")
        network = D2LNetwork(_d2l_config(base, own)).to(base.device)
        return D2LWriter(network, base)
    if settings.start is not None:
        folder = Path(settings.start).expanduser()
        warn_of_another_model(fastweight.read_manifest(folder), base, folder)
        started = _started(folder, _fast_weight_config(base, own))
        return FastWeightWriter(started.to(base.device), base)
    fresh = FastWeightNetwork(_fast_weight_config(base, own))
    chance = random.Random(f"{settings.run.seed}:calibration")
    samples = [source.draw(chance, largest=4, update=False) for _ in range(128)]
    texts = [base.chat.encode(sample.text)[: settings.largest_tokens] for sample in samples]
    texts += [base.chat.encode(ask.question + base.chat.suffix) for sample in samples for ask in sample.asks]
    calibrate(fresh, base, texts, seed=settings.run.seed)
    return FastWeightWriter(fresh.to(base.device), base)


def _fast_weight_config(base: BaseModel, own: FastWeightSettings) -> FastWeightConfig:
    config = base.model.config
    count = config.num_hidden_layers
    return FastWeightConfig(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        layers=tuple(range(int(own.lowest_layer * count), count)),
        rank=own.rank,
        value_width=own.value_width,
        taps=own.taps,
        mixer_blocks=own.mixer_blocks,
        mixer_width=own.mixer_width,
        mixer_layer=int(own.mixer_layer * count),
        first_token=own.first_token,
    )


def _d2l_config(base: BaseModel, own: D2LSettings) -> D2LConfig:
    config = base.model.config
    d = own.latent_size
    down = ModuleShape(name="down_proj", path="mlp.down_proj", d_in=config.intermediate_size, d_out=config.hidden_size)
    return D2LConfig(
        hidden_size=config.hidden_size,
        latent_size=d,
        rank=own.rank,
        lora_alpha=1.0,
        layers=tuple(range(config.num_hidden_layers)),
        modules=(down,),
        latent_queries=own.rank,
        heads=own.heads,
        kv_heads=own.kv_heads,
        head_size=own.head_size,
        projection_size=4 * config.hidden_size,
        mlp_size=4 * d,
        encoder_layers=("cross",) * own.blocks,
        encoder_order=tuple(range(own.blocks)),
        decoder_layers=("cross",),
        decoder_order=(0,),
        pre_head_blocks=1,
        pre_head_size=4 * d,
        per_layer_pre_head=True,
        use_bias=False,
    )


def _started(folder: Path, asked: FastWeightConfig) -> FastWeightNetwork:
    """A trained network to go on from; more mixer blocks may be asked for, which start as the identity."""
    trained = fastweight.load(folder)
    _require_same(trained.config, asked, str(folder))
    network = FastWeightNetwork(asked)
    network.load_state_dict(trained.state_dict(), strict=False)
    return network.train()


def _require_same(found: FastWeightConfig, asked: FastWeightConfig, where: str) -> None:
    """All that the weights were made for; what can be learnt later may differ."""
    names = type(asked).model_fields.keys() - {"first_token"}
    if 0 < found.mixer_blocks < asked.mixer_blocks:
        names -= {"mixer_blocks"}
    wrong = sorted(name for name in names if getattr(found, name) != getattr(asked, name))
    if wrong:
        raise TrainingError(
            f"The network in {where} has {wrong[0]} = {getattr(found, wrong[0])}, the settings ask for "
            f"{getattr(asked, wrong[0])}; give the settings it was trained with."
        )


def _save(
    writer: TextWriter, folder: Path, base: BaseModel, settings: TrainSettings, answers: fastweight.AnswerSettings
) -> None:
    network = writer.network
    if isinstance(network, FastWeightNetwork):
        fastweight.save(
            network,
            folder,
            base_model=base.name,
            base_fingerprint=base.fingerprint,
            max_tokens=settings.largest_tokens,
            answers=answers,
        )
        return
    assert isinstance(network, D2LNetwork)
    save_trained(network, folder, base_model=base.name)


def _answers(settings: TrainSettings) -> fastweight.AnswerSettings:
    """How the network is to be asked: with the composition it trains with, all else as the network it goes on from.

    Not how sure it was: that is fitted to its weights.
    """
    stage = settings.update
    composition = {"alpha": stage.alpha, "beta": stage.beta, "lambda_max": stage.lambda_max, "tau": stage.tau}
    fresh = fastweight.AnswerSettings()
    if settings.start is None:
        return fresh.model_copy(update=composition)
    before = fastweight.read_manifest(Path(settings.start).expanduser()).answers
    kept = before.model_copy(update={"confidence": fresh.confidence})
    return kept.model_copy(update=composition) if stage.share > 0 else kept  # else nothing is composed


# --- the card -------------------------------------------------------------------------------------


def _card(base: BaseModel, settings: TrainSettings) -> TaskCard:
    kinds = {"fast-weight": "fast-weight network", "d2l": "Doc-to-LoRA network"}
    sources = []
    for one in settings.data:
        if isinstance(one, FactsData):
            sources.append(DataSource("invented facts", "Apache-2.0", "generated by plume_memory.training.facts"))
        else:
            files = one.folder if isinstance(one, TextData) else ", ".join(Path(path).name for path in one.paths)
            sources.append(DataSource(one.name, one.licence, f"weight {one.weight:g}: {files}"))
    if settings.start is not None:
        sources.append(DataSource(settings.start, "see its card", "the trained network that this one went on from"))
    return TaskCard(
        name=f"{base.name} {kinds[settings.network.kind]}",
        summary=(
            f"A {kinds[settings.network.kind]} that turns a text into LoRA factors on `mlp.down_proj` of {base.name}: "
            "the model then answers questions about the text without it in the prompt."
        ),
        base_model=base.name,
        base_fingerprint=base.fingerprint,
        dtype=str(base.dtype).removeprefix("torch."),
        licence=settings.licence,
        sources=tuple(sources),
        limits=(
            "Trained for this base model only; another one's states mean nothing to it.",
            f"Language of the data: {settings.language}.",
        ),
    )

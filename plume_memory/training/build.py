"""Settings to parts: the network, what it learns by, and what saves it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from plume_memory.errors import TrainingError
from plume_memory.hypernet.d2l.checkpoint import save_trained
from plume_memory.hypernet.d2l.config import D2LConfig, ModuleShape
from plume_memory.hypernet.d2l.network import D2LNetwork
from plume_memory.hypernet.embedding import EmbeddingWeights, load_embedding, save_embedding
from plume_memory.hypernet.fastweight import checkpoint as fastweight
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.parameterizer import warn_of_another_model
from plume_memory.hypernet.judge import JudgeWeights, load_judge, save_judge
from plume_memory.hypernet.reranker import load_reranker, save_reranker
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.model.hub import default_cache
from plume_memory.policy import AnswerPolicy
from plume_memory.training.calibrate import calibrate
from plume_memory.training.card import DataSource, TaskCard
from plume_memory.training.data import Data, read_data
from plume_memory.training.items import ItemWriter
from plume_memory.training.requirements import require_use
from plume_memory.training.samples import Source
from plume_memory.training.settings import (
    D2LSettings,
    FactsData,
    FastWeightSettings,
    JudgeSettings,
    RerankerSettings,
    TextData,
    TrainSettings,
)
from plume_memory.training.teacher import Teacher
from plume_memory.training.writing import D2LWriter, FastWeightWriter, TextWriter

WRITTEN_MODULES = ("mlp.down_proj",)
"""What every network that is trained here writes factors for."""


@dataclass(frozen=True, slots=True)
class Built:
    """The parts of a task."""

    data: Data
    item_writer: ItemWriter
    writer: TextWriter
    teacher: Teacher | None
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
    data = read_data(settings)
    writer = _writer(base, settings, data.source)
    policy = _policy(settings)  # now: its start may be gone when the network is saved
    reranker, judge, embedding = _reranker(settings), _judge(settings), _embedding(settings)
    teacher = None
    if settings.objectives.distillation > 0:
        teacher = Teacher(base, settings.objectives.top_k, (cache or default_cache() / "training") / "teacher.db")
    return Built(
        data=data,
        item_writer=ItemWriter(
            base.chat, _end_id(base), settings.objectives.span_tokens, statements=settings.objectives.statements
        ),
        writer=writer,
        teacher=teacher,
        processes=processes,
        save=lambda folder: _save(writer, folder, base, settings, policy, reranker, judge, embedding),
        card=lambda: card_of(base, settings),
    )


def _end_id(base: BaseModel) -> int:
    """What ends an answer: what ends the user's turn, or the end of text where a turn ends otherwise ([/INST])."""
    (end,) = base.chat.suffix_ids()[:1]
    return end if end in base.stop_ids else int(base.tokenizer.eos_token_id)


# --- networks -------------------------------------------------------------------------------------


def _writer(base: BaseModel, settings: TrainSettings, source: Source) -> TextWriter:
    own = settings.network
    assert not isinstance(own, RerankerSettings | JudgeSettings), "a task of its own (reranking.py, judging.py)"
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
    texts += [base.chat.ids(base.chat.asked(ask.question)) for sample in samples for ask in sample.asks]
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
    writer: TextWriter,
    folder: Path,
    base: BaseModel,
    settings: TrainSettings,
    policy: AnswerPolicy,
    reranker: LoraFactors | None,
    judge: JudgeWeights | None,
    embedding: EmbeddingWeights | None,
) -> None:
    network = writer.network
    if isinstance(network, FastWeightNetwork):
        fastweight.save(
            network,
            folder,
            base_model=base.name,
            base_fingerprint=base.fingerprint,
            max_tokens=settings.largest_tokens,
            policy=policy,
            reranker_sha256=None if reranker is None else save_reranker(reranker, folder),
            judge_sha256=None if judge is None else save_judge(judge, folder),
            embedding_sha256=None if embedding is None else save_embedding(embedding, folder),
        )
        return
    assert isinstance(network, D2LNetwork)
    save_trained(network, folder, base_model=base.name)


def _policy(settings: TrainSettings) -> AnswerPolicy:
    """How the network is to be asked: as the one it goes on from, or else with the composition it trains with."""
    if settings.start is not None:
        return fastweight.read_manifest(Path(settings.start).expanduser()).policy
    stage = settings.update
    return AnswerPolicy(
        alpha=stage.alpha, beta=stage.beta, lambda_max=stage.lambda_max, tau=stage.tau, delta=0.4, unit_tokens=192
    )


def _reranker(settings: TrainSettings) -> LoraFactors | None:
    """The one beside the network it goes on from: it reads sentences, and knows nothing of the network's weights."""
    if settings.start is None:
        return None
    folder = Path(settings.start).expanduser()
    sha256 = fastweight.read_manifest(folder).reranker_sha256
    return None if sha256 is None else load_reranker(folder, sha256)


def _judge(settings: TrainSettings) -> JudgeWeights | None:
    """The one beside the network it goes on from, as `_reranker`."""
    if settings.start is None:
        return None
    folder = Path(settings.start).expanduser()
    sha256 = fastweight.read_manifest(folder).judge_sha256
    return None if sha256 is None else load_judge(folder, sha256)


def _embedding(settings: TrainSettings) -> EmbeddingWeights | None:
    """The one beside the network it goes on from, as `_reranker`, whose states it maps."""
    if settings.start is None:
        return None
    folder = Path(settings.start).expanduser()
    sha256 = fastweight.read_manifest(folder).embedding_sha256
    return None if sha256 is None else load_embedding(folder, sha256)


# --- the card -------------------------------------------------------------------------------------


_WRITES = (
    "that turns a text into LoRA factors on `mlp.down_proj` of its base model: the model then answers questions about "
    "the text without it in the prompt."
)
_KINDS = {
    "fast-weight": ("fast-weight network", _WRITES),
    "d2l": ("Doc-to-LoRA network", _WRITES),
    "reranker": (
        "hypernetwork with a reranker",
        "that was trained before, and an adapter with which its base model finds the sentences that answer a question.",
    ),
    "judge": (
        "hypernetwork with a judge",
        "that was trained before, and an adapter with heads with which its base model judges what a text replaces and "
        "whether an answer is supported.",
    ),
}


def card_of(base: BaseModel, settings: TrainSettings) -> TaskCard:
    """What the model card of a run says."""
    sources = []
    for one in settings.data:
        if isinstance(one, FactsData):
            sources.append(DataSource("invented facts", "Apache-2.0", "generated by plume_memory.training.facts"))
        else:
            files = one.folder if isinstance(one, TextData) else ", ".join(Path(path).name for path in one.paths)
            sources.append(DataSource(one.name, one.licence, f"weight {one.weight:g}: {files}"))
    if settings.start is not None:
        sources.append(DataSource(settings.start, "see its card", "the trained network that this one went on from"))
    name, does = _KINDS[settings.network.kind]
    return TaskCard(
        name=f"{base.name} {name}",
        summary=f"A {name} {does}",
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

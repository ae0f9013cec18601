"""From a folder or a published checkpoint to a parameterizer: one way in for every kind of hypernetwork."""

from pathlib import Path
from typing import NamedTuple

from plume_memory.hypernet.d2l.loading import load_d2l_parameterizer
from plume_memory.hypernet.embedding import EmbeddingWeights, load_embedding
from plume_memory.hypernet.fastweight.checkpoint import is_fast_weight, read_manifest
from plume_memory.hypernet.fastweight.parameterizer import load_fast_weight_parameterizer
from plume_memory.hypernet.judge import JudgeWeights, load_judge
from plume_memory.hypernet.parameterizer import Parameterizer
from plume_memory.hypernet.reranker import load_reranker
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.model.huggingface import HubCheckpoint
from plume_memory.policy import AnswerPolicy, Calibration


class LoadedHypernetwork(NamedTuple):
    """A parameterizer with the policy it was measured with and its calibration, and what else is beside it."""

    parameterizer: Parameterizer
    policy: AnswerPolicy
    calibration: Calibration
    reranker: LoraFactors | None = None
    judge: JudgeWeights | None = None
    embedding: EmbeddingWeights | None = None


def load_hypernetwork(
    base: BaseModel,
    source: Path | HubCheckpoint,
    policy: AnswerPolicy | None = None,
    *,
    cache: Path | None = None,
) -> LoadedHypernetwork:
    """Load a hypernetwork for a base model.

    Args:
        base: the model it was trained for.
        source: a folder written by `plume train` or `plume models convert`, or a published checkpoint.
        policy: of the answers; what is set in it overrides what the network was measured with.
        cache: where converted checkpoints are kept.

    Raises:
        CheckpointError: the folder cannot be read.
        ParameterizerError: the network was made for a model of other sizes.
        HubUnreachable: the published checkpoint is not on this machine and the hub is out of reach.
    """
    if isinstance(source, Path) and is_fast_weight(source):
        manifest = read_manifest(source)
        parameterizer = load_fast_weight_parameterizer(base, source)
        reranker = load_reranker(source, manifest.reranker_sha256) if manifest.reranker_sha256 else None
        chosen = policy.over(manifest.policy) if policy else manifest.policy
        judge = load_judge(source, manifest.judge_sha256) if manifest.judge_sha256 else None
        embedding = load_embedding(source, manifest.embedding_sha256) if manifest.embedding_sha256 else None
        return LoadedHypernetwork(parameterizer, chosen, manifest.calibration, reranker, judge, embedding)
    chosen = policy or AnswerPolicy()
    return LoadedHypernetwork(load_d2l_parameterizer(base, source, chosen, cache=cache), chosen, Calibration())

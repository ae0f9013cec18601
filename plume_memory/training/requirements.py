"""What the parts of a configuration must have to do with one another, checked before anything is loaded or trained."""

from collections import Counter

from plume_memory.errors import TrainingError
from plume_memory.training.facts.relations import FAMILIES
from plume_memory.training.settings import (
    FactsData,
    JsonlData,
    JudgeSettings,
    RerankerSettings,
    TextData,
    TrainSettings,
)


def require_use(settings: TrainSettings, *, vocabulary: int) -> None:
    """Refuse what would train nothing, or judge what was trained on.

    Args:
        settings: the run's.
        vocabulary: size of the base model's.

    Raises:
        TrainingError: an objective without data or the other way round; states without answers; evaluation data that is
            training data; a reranker without a hypernetwork, with states, or with data that does not say which sentence
            answers.
    """
    if isinstance(settings.network, RerankerSettings | JudgeSettings):
        _require_choices(settings)
    else:
        _require_objectives(settings, vocabulary)
    _require_families(settings)
    _require_prose(settings)


def _require_objectives(settings: TrainSettings, vocabulary: int) -> None:
    wanted = settings.objectives
    if wanted.answer == wanted.distillation == wanted.reconstruction == wanted.completion == 0:
        raise TrainingError(
            "answer, distillation, reconstruction and completion all have weight 0 in `objectives`: nothing would be "
            "learnt. Raise one."
        )
    plain = [one.name for one in settings.data if isinstance(one, TextData)]
    if plain and wanted.reconstruction == wanted.completion == 0:
        raise TrainingError(
            f"Source {plain[0]!r} is plain text, which serves reconstruction and completion alone, and both have "
            "weight 0; raise one in `objectives`, or leave the source out."
        )
    if wanted.distillation > 0 and wanted.top_k > vocabulary:
        raise TrainingError(f"objectives.top_k is {wanted.top_k}; the base model has {vocabulary} tokens. Lower it.")
    share = settings.curriculum.states_share
    if share > 0 and wanted.answer == 0:
        raise TrainingError(
            f"curriculum.states_share is {share:g}, and objectives.answer 0: rows with states have answers alone, "
            "which then teach nothing. Raise the one, or set the other to 0."
        )
    if share > 0 and len(plain) == len(settings.data):
        raise TrainingError(
            f"curriculum.states_share is {share:g}, and no source has questions, which alone are asked beside states; "
            "add one that has, or set it to 0."
        )


def _require_choices(settings: TrainSettings) -> None:
    if settings.start is None:
        raise TrainingError(
            "A reranker or judge belongs to a hypernetwork: name the folder of a trained one in `start`."
        )
    if settings.curriculum.states_share > 0:
        raise TrainingError(
            f"curriculum.states_share is {settings.curriculum.states_share:g}, and a reranker or judge reads "
            "sentences, without states beside it; set it to 0."
        )
    for one in settings.data:
        if isinstance(one, TextData):
            raise TrainingError(
                f"Source {one.name!r} is plain text, and a reranker or judge learns from questions; leave it out."
            )
    for one in (*settings.data, *settings.evaluation.prose):
        if isinstance(one, JsonlData) and not one.extractive:
            raise TrainingError(
                f"Source {one.name!r} has `extractive` off, and a reranker or judge learns from sentences that hold "
                "the answer; leave it on."
            )


def _require_families(settings: TrainSettings) -> None:
    """Held-out families are those, and only those, that no source of facts draws from."""
    held = set(settings.evaluation.families)
    unknown = sorted(held - set(FAMILIES))
    if unknown:
        raise TrainingError(
            f"evaluation.families names {', '.join(unknown)}, which is none of {', '.join(FAMILIES)}. Correct it."
        )
    for one in settings.data:
        if isinstance(one, FactsData) and held - set(one.exclude_families):
            trained = ", ".join(sorted(held - set(one.exclude_families)))
            raise TrainingError(
                f"evaluation.families holds out {trained}, and a source of facts is trained on it; name the same "
                "families in its `exclude_families`."
            )


def _require_prose(settings: TrainSettings) -> None:
    trained = {path for one in settings.data if isinstance(one, JsonlData) for path in one.paths}
    for one in settings.evaluation.prose:
        both = sorted(trained & set(one.paths))
        if both:
            raise TrainingError(f"{both[0]} is training data and evaluation.prose too; hold out a file of its own.")
    names = Counter(one.name for one in settings.evaluation.prose)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise TrainingError(f"evaluation.prose has the name {twice[0]!r} twice; its figures need names of their own.")

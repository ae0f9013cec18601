"""AnyEdit behind the method protocol: a history becomes an edit, a question is asked bare with the edit attached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.methods.anyedit.nullspace import NullSpace, Progress, measure, python_reference
from eval.methods.anyedit.request import QUESTION, EditRequest
from eval.methods.anyedit.settings import AnyEditSettings
from eval.methods.anyedit.spread import spread
from eval.methods.anyedit.targets import find_targets
from eval.methods.decoding import Answerer, replies
from eval.methods.protocol import Reply
from eval.records import MuseQuestion, MuseTransition
from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import Query
from plume_memory.model.streams import Row


class AnyEdit:
    """AlphaEdit-ARE: C(t) as one edit, starting from the unedited model at every transition."""

    def __init__(
        self,
        base: BaseModel,
        answerer: Answerer,
        null_space: NullSpace,
        settings: AnyEditSettings | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Put the method together; `build` measures the null space too.

        Args:
            base: the model to edit; its weights stay as they are.
            answerer: decodes the answers.
            null_space: of this model, for the settings' layers and threshold.
            settings: the paper's by default.
            progress: called after every window.

        Raises:
            InvalidInput: a layer that the model does not have, or a null space of other settings.
            UnknownArchitecture: a model whose MLP output is normalised (Gemma-2).
        """
        self._edit = settings or AnyEditSettings()
        self._edit.require_fit(base)
        found = (tuple(null_space.layers), null_space.threshold, null_space.tokens)
        wanted = (self._edit.layers, self._edit.null_threshold, self._edit.background_tokens)
        if found != wanted:
            raise InvalidInput(
                f"The null space was measured with (layers, threshold, tokens) {found}, the settings say {wanted}; "
                "measure it anew with these settings."
            )
        self._base = base
        self._answerer = answerer
        self._null_space = null_space
        self._progress = progress

    @classmethod
    def build(
        cls,
        base: BaseModel,
        answerer: Answerer,
        settings: AnyEditSettings | None = None,
        *,
        background: Sequence[str] | None = None,
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> "AnyEdit":
        """Measure the null space (once per model; no part of a transition's latency) and put the method together.

        Args:
            base: the model to edit.
            answerer: decodes the answers.
            settings: the paper's by default.
            background: texts the null space is measured on; Python's language reference by default.
            cache: folder where null spaces are kept.
            progress: called during the measurement and after every window.

        Raises:
            InvalidInput: see `nullspace.measure`, and a layer that the model does not have.
            UnknownArchitecture: a model whose MLP output is normalised (Gemma-2).
        """
        chosen = settings or AnyEditSettings()
        texts = python_reference() if background is None else background
        null_space = measure(base, chosen, texts, cache=cache, progress=progress)
        return cls(base, answerer, null_space, chosen, progress=progress)

    @property
    def null_space(self) -> NullSpace:
        """What the edits are kept within: of the model and the settings alone."""
        return self._null_space

    @property
    def settings(self) -> Mapping[str, Any]:
        """The edit's settings, the request, the background text's hash, and how answers are decoded."""
        return {
            **self._edit.model_dump(mode="json"),
            "question": QUESTION,
            "background_sha256": self._null_space.text_sha256,
            "null_dims": [layer.null_dims for layer in self._null_space.layers.values()],
            **self._answerer.described,
        }

    def prepare(self, transition: MuseTransition) -> "EditedHistory":
        """Edit C(t) in, as factors.

        Raises:
            PromptTooLong: C(t) and the request do not fit the model's context window.
        """
        request = EditRequest.recalling(self._base, transition.full)
        targets = find_targets(self._base, request, self._edit, progress=self._progress)
        factors = spread(self._base, request, targets, self._null_space, self._edit)
        count = len(targets.windows)
        detail = {
            "windows": count,
            "window_nll_before": sum(targets.nll_before) / count,
            "window_nll_target": sum(targets.nll_after) / count,
        }
        return EditedHistory(self._base, self._answerer, factors, detail)


@dataclass(frozen=True, slots=True, eq=False)
class EditedHistory:
    """A history as an edit."""

    base: BaseModel
    answerer: Answerer
    factors: LoraFactors
    """Rank m on `mlp.down_proj` of the edited layers."""
    detail: Mapping[str, Any]
    """Number of windows; mean window NLL before and under the target values."""

    def answer(self, questions: Sequence[MuseQuestion]) -> list[Reply]:
        """Ask each question bare, with the edit attached."""
        prompts = [tuple(self.base.chat.prompt_ids(question.question)) for question in questions]
        decoded = self.answerer.answer([Query(Row(prompt, self.factors)) for prompt in prompts])
        return replies(decoded, self.detail)

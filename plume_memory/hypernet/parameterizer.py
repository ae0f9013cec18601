"""Text in, LoRA factors out: the interface the engine uses, and its Doc-to-LoRA form.

H(text) depends on the text, the network and the base model alone; results can be cached by content.
Legend: B chunks of a batch, S tokens, L layers, M target modules, r rank, d latent size.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

import torch
from torch import Tensor

from plume_memory.errors import InvalidInput, ParameterizerError
from plume_memory.hypernet.chunking import fixed_windows, near_equal
from plume_memory.hypernet.d2l.network import D2LNetwork
from plume_memory.hypernet.encoder import stream_features
from plume_memory.lora.algebra import concat
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.key_values import Passes

TRAINED_CHUNKS = 8
"""Most chunks of one context that Doc-to-LoRA checkpoints saw in training."""


class ManyChunksWarning(UserWarning):
    """A context has more chunks than the network was trained on; the sum of their adapters may be garbled."""


class Parameterizer(Protocol):
    """Turns texts into LoRA factors. Frozen: the same text always gives the same factors."""

    additive: bool
    """Whether texts are written one evidence unit at a time and their factors simply added up."""

    @property
    def fingerprint(self) -> str:
        """Identifies everything but the base model that the factors depend on."""

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens without any template, that becomes one adapter of one chunk."""

    @property
    def bias(self) -> LoraFactors | None:
        """The learned block that every context adapter carries once; None without one."""

    @property
    def shared_a(self) -> Mapping[str, Tensor] | None:
        """Module path → the A [L, r, d_in] that all texts share, on the CPU; None where each has its own.

        Only B is then stored per text, and factors add up without growing in rank.
        """

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        """Return the factors of each text: its chunks concatenated along the rank, without the bias.

        Raises:
            ParameterizerError: a text cannot be turned into factors.
        """


class D2LParameterizer:
    """H(text) by a Doc-to-LoRA network over a frozen base model.

    The model's layers are read while it runs (hypernet/encoder.py) and nothing is left on it.
    """

    additive = False

    def __init__(
        self,
        network: D2LNetwork,
        passes: Passes,
        tokenize: Callable[[str], list[int]],
        prefix_ids: Sequence[int],
        suffix_ids: Sequence[int],
        *,
        chunking: Literal["near_equal", "append_only"],
        chunk_tokens: int,
        fingerprint: str,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            network: on the device it is to run on.
            passes: of the base model.
            tokenize: a context's ids *with* its chat template and generation prompt.
            prefix_ids: ids the template puts before a context.
            suffix_ids: ids it puts after one.
            chunking: `near_equal` slices the templated ids as the reference does; `append_only` cuts the
                context's own ids into windows that stay where they are when the text grows.
            chunk_tokens: longest chunk, template included (`near_equal` may exceed it by the affixes).
            fingerprint: of checkpoint and template; the chunking is added here.
            lock: held while the model runs, where others run it too.

        Raises:
            ParameterizerError: the network was made for a model of other sizes.
            InvalidInput: the template alone fills `chunk_tokens`.
        """
        _require_fit(network, passes)
        self._network, self._passes, self._tokenize = network, passes, tokenize
        self._prefix, self._suffix = list(prefix_ids), list(suffix_ids)
        self._chunking, self._chunk_tokens = chunking, chunk_tokens
        self._lock: AbstractContextManager[object] = lock or nullcontext()
        self._fingerprint = f"{fingerprint}:{chunking}:{chunk_tokens}"
        if self.max_tokens < 1:
            raise InvalidInput(f"chunk_tokens={chunk_tokens} leaves no room beside the template's own tokens.")

    @property
    def fingerprint(self) -> str:
        """Identifies checkpoint, template and chunking."""
        return self._fingerprint

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens without its template, that stays one chunk."""
        return self._chunk_tokens - len(self._prefix) - len(self._suffix)

    @property
    def bias(self) -> LoraFactors | None:
        """The checkpoint's learned bias block; None if it has none."""
        bias = self._network.bias()
        return None if bias is None else bias.to(device="cpu")  # where cached factors are read to

    @property
    def shared_a(self) -> None:
        """Every text has an A of its own."""
        return None

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        """Return each text's factors, float32 on the network's device, rank = chunks · r.

        Raises:
            ParameterizerError: a text is empty or white space.
        """
        chunked = [self.chunks(text) for text in texts]
        flat = [chunk for chunks in chunked for chunk in chunks]
        parts: list[LoraFactors | None] = [None] * len(flat)
        for rows in self._batches([len(chunk) for chunk in flat]):
            made = self._encode([flat[row] for row in rows])
            for row, factors in zip(rows, made, strict=True):
                parts[row] = factors
        ordered = iter([part for part in parts if part is not None])
        return [concat([next(ordered) for _ in chunks]) for chunks in chunked]

    def chunks(self, text: str) -> list[list[int]]:
        """Return the ids of each chunk of a text, template included.

        Warns:
            ManyChunksWarning: there are more than `TRAINED_CHUNKS`.

        Raises:
            ParameterizerError: the text is empty or white space.
        """
        if not text.strip():
            raise ParameterizerError("An empty text has no factors; pass at least one character.")
        ids = self._tokenize(text)
        if len(ids) <= self._chunk_tokens:  # where both ways of cutting agree
            return [ids]
        if self._chunking == "near_equal":
            chunks = near_equal(ids, self._chunk_tokens, self._prefix, self._suffix)
        else:
            chunks = fixed_windows(self._untemplated(ids), self._chunk_tokens, self._prefix, self._suffix)
        if len(chunks) > TRAINED_CHUNKS:
            message = (
                f"A text of {len(ids)} tokens becomes {len(chunks)} chunks; Doc-to-LoRA checkpoints were "
                f"trained on at most {TRAINED_CHUNKS}, and answers may be garbled. Raise chunk_tokens."
            )
            warnings.warn(message, ManyChunksWarning, stacklevel=3)
        return chunks

    def _untemplated(self, ids: list[int]) -> list[int]:
        """Cut the template off. Where the tokenizer merged it with the text, it stays part of the text."""
        start = len(self._prefix) if ids[: len(self._prefix)] == self._prefix else 0
        end = len(ids) - len(self._suffix)
        return ids[start : end if ids[end:] == self._suffix else len(ids)]

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Group chunks of like length so that a padded batch holds about one chunk's worth of tokens."""
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
            # longest first: the first row of a batch is its width
            if batch and lengths[batch[0]] * (len(batch) + 1) > self._chunk_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _encode(self, chunks: Sequence[list[int]]) -> list[LoraFactors]:
        """Run one batch through model and network; the factors of each chunk."""
        device = self._passes.device
        width = max(map(len, chunks))
        ids = torch.tensor([chunk + [0] * (width - len(chunk)) for chunk in chunks], device=device)
        mask = torch.tensor([[1] * len(c) + [0] * (width - len(c)) for c in chunks], device=device)
        padded = any(len(chunk) < width for chunk in chunks)
        seen = mask.to(self._network.device) if padded else None  # no mask lets the fastest attention run
        latents: list[Tensor] = []

        def visit(layer: int, features: Tensor) -> None:
            latents.append(self._network.encode_layer(features.to(self._network.device), seen))  # [B, M, r, d]

        config = self._network.config
        with self._lock:
            stream_features(self._passes, ids, mask, visit, layers=len(config.layers))
        with torch.no_grad():
            pairs = self._network.generate(torch.stack(latents, dim=1))
        return [
            LoraFactors(
                {path: Pair(A[row], B[row]) for path, (A, B) in pairs.items()},
                config.layers,
                config.lora_alpha,
            )
            for row in range(len(chunks))
        ]


def _require_fit(network: D2LNetwork, passes: Passes) -> None:
    """Refuse a network whose sizes are those of another base model."""
    config = network.config
    blocks, width = len(passes.windows), passes.widths((0, "mlp.up_proj"))[0]
    if config.hidden_size != width or config.layers != tuple(range(blocks)):
        raise ParameterizerError(
            f"The hypernetwork was made for a model of {len(config.layers)} layers and hidden size "
            f"{config.hidden_size}; this one has {blocks} and {width}. Load its own model."
        )

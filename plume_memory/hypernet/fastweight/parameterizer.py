"""A trained fast-weight network behind the parameterizer's interface: text in, LoRA factors out, in one pass.

Legend: L layers, B texts, r rank, D residual width.
"""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from plume_memory.errors import ParameterizerError
from plume_memory.hypernet.fastweight.checkpoint import FastWeightManifest, load, read_manifest
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.reading import read_head, read_texts
from plume_memory.lora.algebra import concat
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.base import BaseModel
from plume_memory.model.hub import named_source
from plume_memory.model.states import States

MODULE = "mlp.down_proj"
_BATCH_TOKENS = 1024


class OtherModelWarning(UserWarning):
    """A network is used with a base model that is not, byte for byte, the one it was trained on."""


class FastWeightParameterizer:
    """H(text) by a fast-weight network over the frozen base model.

    A is the network's read keys for every text, so deltas of several texts add up in B.
    """

    additive = True

    def __init__(self, network: FastWeightNetwork, base: BaseModel, manifest: FastWeightManifest) -> None:
        """Put the parts together.

        Raises:
            ParameterizerError: the network was made for a model of other sizes.
        """
        _require_fit(network, base)
        self._network, self._base, self._manifest = network, base, manifest
        self._head = base.chat.prefix_ids()
        self._A = network.read_keys.detach().to(device="cpu", dtype=base.dtype)

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and how a text is read."""
        return f"fast-weight-{self._manifest.format}-{self._manifest.weights_sha256}"

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens, that is written at once; a longer one is written in pieces."""
        return self._manifest.max_tokens

    @property
    def bias(self) -> None:
        """There is no learned bias block: a memory of nothing changes nothing."""
        return None

    @property
    def shared_a(self) -> dict[str, Tensor]:
        """The read keys [L, r, F] in the model's dtype."""
        return {MODULE: self._A}

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        """Return each text's factors in the model's dtype on the CPU, of rank r.

        Raises:
            ParameterizerError: a text is empty or white space.
        """
        pieces: list[list[int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            if not text.strip():
                raise ParameterizerError("An empty text has no factors; pass at least one character.")
            ids = self._base.chat.encode(text.strip())
            if not ids:
                raise ParameterizerError(f"The tokenizer of {self._base.name!r} makes nothing of the text {text!r}.")
            cut = [ids[at : at + self.max_tokens] for at in range(0, len(ids), self.max_tokens)]
            pieces += cut
            owners += [owner] * len(cut)
        made: list[LoraFactors] = []
        for batch in _batches(pieces):
            made += self._write(batch)
        return [concat([f for f, owner in zip(made, owners, strict=True) if owner == i]) for i in range(len(texts))]

    @cached_property
    def _head_states(self) -> States | None:
        return read_head(self._base, first_token=self._network.config.first_token)

    @torch.no_grad()
    def _write(self, pieces: Sequence[Sequence[int]]) -> list[LoraFactors]:
        config = self._network.config
        with self._base.lock:
            reading = read_texts(
                self._base.passes,
                pieces,
                self._head,
                config.layers,
                config.mixer_layer,
                first_token=config.first_token,
                head_states=self._head_states,
            )
        B = self._network(reading).to(device="cpu", dtype=self._A.dtype)  # [L, B, r, D]
        return [LoraFactors({MODULE: Pair(self._A, B[:, i].contiguous())}, config.layers) for i in range(len(pieces))]


def load_fast_weight_parameterizer(base: BaseModel, folder: Path) -> FastWeightParameterizer:
    """Load a trained network for a base model.

    Warns:
        OtherModelWarning: the model is not the one it was trained on. The same model written anew is another one too,
            byte for byte, so this is no error.

    Raises:
        CheckpointError: the folder cannot be read.
        ParameterizerError: the network was made for a model of other sizes.
    """
    manifest = read_manifest(folder)
    warn_of_another_model(manifest, base, folder)
    return FastWeightParameterizer(load(folder).to(base.device), base, manifest)


def warn_of_another_model(manifest: FastWeightManifest, base: BaseModel, folder: Path) -> None:
    """Warn where a network's base model is not the one at hand; see `OtherModelWarning`.

    Of a model that this package knows by name the name is enough: what is fetched by it is always the same, and another
    release of transformers writes it down in other bytes.
    """
    by_name = manifest.base_model == base.name and named_source(base.name) is not None
    if not by_name and manifest.base_fingerprint not in (None, base.fingerprint):
        message = (
            f"The hypernetwork in {folder} was trained on {manifest.base_model!r} (fingerprint "
            f"{manifest.base_fingerprint}), this is {base.name!r} (fingerprint {base.fingerprint}): unless the two are "
            "the same model written twice, its factors mean nothing to it. Load the model it was trained on."
        )
        warnings.warn(message, OtherModelWarning, stacklevel=3)


def _batches(pieces: Sequence[list[int]]) -> Iterator[list[list[int]]]:
    """Group pieces in order, so that a padded batch holds at most `_BATCH_TOKENS`, or is one piece."""
    batch: list[list[int]] = []
    for piece in pieces:
        if batch and (len(batch) + 1) * max(map(len, [*batch, piece])) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def _require_fit(network: FastWeightNetwork, base: BaseModel) -> None:
    config, own = network.config, base.config
    found = (own.hidden_size, own.intermediate_size)
    blocks = own.num_hidden_layers
    deepest = max(config.layers[-1], config.mixer_layer)
    if (config.hidden_size, config.intermediate_size) != found or deepest >= blocks:
        raise ParameterizerError(
            f"The hypernetwork was trained for a model of hidden size {config.hidden_size}, MLP width "
            f"{config.intermediate_size} and at least {deepest + 1} layers; {base.name!r} has {found[0]}, "
            f"{found[1]} and {blocks}. Load the model it was trained for, or train one for yours."
        )

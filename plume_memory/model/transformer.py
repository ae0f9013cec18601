"""The forward pass of the supported families in plain torch: adapters and cache are arguments, weights are fused.

Hugging Face's modules (model/modules.py) are the reference it is tested against, and the path of models that are not
made of plain linear layers. Exact in float32 but for the order of sums.

Legend: R rows, T tokens, W columns of the cache, E hidden width, F MLP width, H query heads, K key/value heads,
G = H / K, D width of a head, r rank.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from plume_memory.model.adapters import AdapterRows, Place, no_such_module
from plume_memory.model.key_values import KeyValues, Watch, visible
from plume_memory.model.linear import Linear, WeightFormat
from plume_memory.model.weights import Taken, head_width, turns, window_of


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Weights of one decoder layer."""

    before_attention: Tensor
    after_attention: Tensor | None
    """Gemma-2 alone normalises what attention and MLP put out."""
    before_mlp: Tensor
    after_mlp: Tensor | None
    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear
    query_norm: Tensor | None
    """Qwen-3 alone normalises queries and keys by head, [D]."""
    key_norm: Tensor | None
    window: int | None
    """Tokens that it sees, the own one included; None: all."""


@dataclass(frozen=True, slots=True, eq=False)
class Transformer:
    """A decoder and its head, without a state of its own."""

    embedding: Tensor
    """[V, E]."""
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Linear
    frequencies: Tensor
    """Of the rotary positions, float32 [D / 2]."""
    rotary_scale: float
    heads: int
    key_heads: int
    head_width: int
    scale: float
    """What queries · keys is multiplied by."""
    eps: float
    activation: Callable[[Tensor], Tensor]
    embedding_scale: float | None
    wide_norms: bool
    """Norms multiply in float32 (Gemma-2), not in the model's dtype."""
    score_cap: float | None
    logit_cap: float | None

    @classmethod
    def of(
        cls,
        config: Any,
        weights: Mapping[str, Tensor],
        *,
        dtype: torch.dtype,
        device: torch.device,
        weight_format: WeightFormat = "full",
    ) -> "Transformer":
        """Fuse the weights of a supported family.

        Args:
            config: of Hugging Face; its rotary frequencies do not depend on the length of a text (`has_fixed_turns`).
            weights: by their names in a `*ForCausalLM`; those of the head are the embedding's where it has none.
            dtype: in which they are kept.
            device: where.
            weight_format: how its linear layers keep theirs.

        Raises:
            ModelError: a tensor is missing or of another shape than the config says.
        """
        taken = Taken(weights, dtype, device, weight_format)
        is_gemma = config.model_type == "gemma2"
        E, D = config.hidden_size, head_width(config)
        frequencies, rotary_scale = turns(config, device)
        embedding = taken("model.embed_tokens.weight", (config.vocab_size, E))
        is_tied = bool(config.tie_word_embeddings)
        made = cls(
            embedding=embedding,
            layers=tuple(_layer(taken, config, at) for at in range(config.num_hidden_layers)),
            norm=_norm(taken, "model.norm", E, is_gemma),
            head=Linear.of(embedding, None, weight_format)
            if is_tied
            else taken.linear(["lm_head"], [config.vocab_size], E),
            frequencies=frequencies,
            rotary_scale=rotary_scale,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_width=D,
            scale=float(config.query_pre_attn_scalar if is_gemma else D) ** -0.5,
            eps=config.rms_norm_eps,
            activation=_activation(config),
            embedding_scale=E**0.5 if is_gemma else None,
            wide_norms=is_gemma,
            score_cap=getattr(config, "attn_logit_softcapping", None),
            logit_cap=getattr(config, "final_logit_softcapping", None),
        )
        taken.check()
        return made

    @property
    def windows(self) -> tuple[int | None, ...]:
        """See `Passes`."""
        return tuple(layer.window for layer in self.layers)

    @property
    def device(self) -> torch.device:
        """See `Passes`."""
        return self.embedding.device

    def embedded(self, ids: Tensor) -> Tensor:
        """See `Passes`."""
        x = F.embedding(ids, self.embedding)
        return x if self.embedding_scale is None else x * torch.tensor(self.embedding_scale, dtype=x.dtype)

    def widths(self, place: Place) -> tuple[int, int]:
        """See `Passes`."""
        at, name = place
        E, H, K = self.embedding.shape[1], self.heads * self.head_width, self.key_heads * self.head_width
        width = self.layers[0].down.inputs
        known = {
            "self_attn.q_proj": (E, H),
            "self_attn.k_proj": (E, K),
            "self_attn.v_proj": (E, K),
            "self_attn.o_proj": (H, E),
            "mlp.gate_proj": (E, width),
            "mlp.up_proj": (E, width),
            "mlp.down_proj": (width, E),
        }
        if at >= len(self.layers) or name not in known:
            raise no_such_module(place, len(self.layers))
        return known[name]

    def room(self, rows: int, width: int) -> KeyValues:
        """See `Passes`."""
        shape = (rows, 2, self.key_heads, width, self.head_width)
        like = self.embedding
        return KeyValues(tuple(torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in self.layers))

    def run(
        self,
        ids: Tensor,
        positions: Tensor,
        cache: KeyValues | None = None,
        *,
        mask: Tensor | None = None,
        adapters: AdapterRows | None = None,
        watch: Watch | None = None,
    ) -> Tensor:
        """See `Passes`."""
        x = self.embedded(ids)
        turn = self._turn(positions, x.dtype)
        masks = self._masks(positions, cache, mask)
        where = None if cache is None else (torch.arange(len(ids), device=ids.device)[:, None], positions)
        beside = {} if adapters is None else adapters.modules
        gate = None if adapters is None else adapters.gate
        for at, layer in enumerate(self.layers):
            if watch and (see := watch.get((at, ""))):
                see(x)
            adapted = _Adapted(at, beside, gate)
            held = None if cache is None or where is None else (cache.layers[at], where)
            seen = self._attended(
                layer, self._normed(x, layer.before_attention), turn, held, masks[layer.window], adapted
            )
            x = x + (seen if layer.after_attention is None else self._normed(seen, layer.after_attention))
            h = self._normed(x, layer.before_mlp)
            gate_up = layer.gate_up(h)
            half = gate_up.shape[-1] // 2
            adapted.add("mlp.gate_proj", h, gate_up[..., :half])
            adapted.add("mlp.up_proj", h, gate_up[..., half:])
            h = self.activation(gate_up[..., :half]) * gate_up[..., half:]
            if watch and (see := watch.get((at, "mlp.down_proj"))):
                see(h)
            y = layer.down(h)
            adapted.add("mlp.down_proj", h, y)
            x = x + (y if layer.after_mlp is None else self._normed(y, layer.after_mlp))
        return self.normed(x)

    def normed(self, hidden: Tensor) -> Tensor:
        """See `Passes`."""
        return self._normed(hidden, self.norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """See `Passes`."""
        logits = self.head(hidden)
        return logits if self.logit_cap is None else self.logit_cap * torch.tanh(logits / self.logit_cap)

    def _attended(
        self,
        layer: Layer,
        h: Tensor,
        turn: tuple[Tensor, Tensor],
        held: tuple[Tensor, tuple[Tensor, Tensor]] | None,
        mask: Tensor | None,
        adapted: "_Adapted",
    ) -> Tensor:
        R, T, _ = h.shape
        H, K, D = self.heads, self.key_heads, self.head_width
        qkv = layer.qkv(h)
        adapted.add("self_attn.q_proj", h, qkv[..., : H * D])
        adapted.add("self_attn.k_proj", h, qkv[..., H * D : (H + K) * D])
        adapted.add("self_attn.v_proj", h, qkv[..., (H + K) * D :])
        split = qkv.view(R, T, H + 2 * K, D)
        turned = split[:, :, : H + K]
        if layer.query_norm is not None and layer.key_norm is not None:
            turned = torch.cat(
                [self._normed(turned[:, :, :H], layer.query_norm), self._normed(turned[:, :, H:], layer.key_norm)],
                dim=2,
            )
        cos, sin = turn
        turned = turned * cos + torch.cat([turned[..., D // 2 :], turned[..., : D // 2]], dim=-1) * sin
        keys_values = torch.stack([turned[:, :, H:], split[:, :, H + K :]], dim=2)  # [R, T, 2, K, D]
        if held is None:
            kept = keys_values.permute(0, 2, 3, 1, 4)
        else:
            kept, (rows, columns) = held
            kept[rows, :, :, columns] = keys_values
        seen = self._weighed(turned[:, :, :H], kept[:, 0], kept[:, 1], mask).reshape(R, T, H * D)
        out = layer.out(seen)
        adapted.add("self_attn.o_proj", seen, out)
        return out

    def _weighed(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Values [R, T, H, D] that queries [R, T, H, D] find under keys; the mask [R, 1, T, W], or none: causal."""
        R, T, H, D = queries.shape
        if self.score_cap is None and T > 1:
            seen = F.scaled_dot_product_attention(
                queries.transpose(1, 2),
                keys,
                values,
                attn_mask=mask,
                is_causal=mask is None,
                scale=self.scale,
                enable_gqa=self.key_heads < H,
            )
            return seen.transpose(1, 2)
        # The G queries of a key head are G · T queries to it: no key is copied.
        G = H // self.key_heads
        queries = queries.view(R, T, self.key_heads, G, D).permute(0, 2, 3, 1, 4).reshape(R, self.key_heads, -1, D)
        seen = self._found(queries, keys, values, mask if mask is None or T == 1 else mask.repeat(1, 1, G, 1))
        return seen.view(R, self.key_heads, G, T, D).permute(0, 3, 1, 2, 4).reshape(R, T, H, D)

    def _found(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        if self.score_cap is None:
            return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=self.scale)
        assert mask is not None, "only layers without a cap do without"
        # PyTorch's fused attention cannot cap scores.
        scores = self.score_cap * torch.tanh(queries @ keys.transpose(2, 3) * self.scale / self.score_cap)
        weights = (scores + mask).softmax(-1, dtype=torch.float32)
        return weights.to(values.dtype) @ values

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        if self.wide_norms:
            return F.rms_norm(x.float(), weight.shape, weight, self.eps).to(x.dtype)
        return F.rms_norm(x, weight.shape, weight, self.eps)

    def _turn(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines, and sines with the sign of the half that they turn: [R, T, 1, D]."""
        angles = positions[..., None].float() * self.frequencies
        cos, sin = angles.cos() * self.rotary_scale, angles.sin() * self.rotary_scale
        return (
            torch.cat([cos, cos], dim=-1)[:, :, None].to(dtype),
            torch.cat([-sin, sin], dim=-1)[:, :, None].to(dtype),
        )

    def _masks(
        self, positions: Tensor, cache: KeyValues | None, mask: Tensor | None
    ) -> dict[int | None, Tensor | None]:
        """By window, what is added to scores: 0 where a token sees a column, else the dtype's least; [R, 1, T, W].

        Not −∞: padding that sees nothing would become NaN. None where each token sees all that is not behind it.
        """
        found: dict[int | None, Tensor | None] = {}
        is_causal = cache is None and mask is None and self.score_cap is None and positions.shape[1] > 1
        for window in set(self.windows):
            if is_causal and (window is None or positions.shape[1] <= window):
                found[window] = None
                continue
            seen = visible(positions, None if cache is None else cache.width, window, mask)
            added = torch.zeros(seen.shape, dtype=self.embedding.dtype, device=seen.device)
            found[window] = added.masked_fill_(~seen, torch.finfo(added.dtype).min)
        return found


class _Adapted:
    """The adapters of one layer."""

    __slots__ = ("_beside", "_gate", "_layer")

    def __init__(self, layer: int, beside: Mapping[Place, tuple[Tensor, Tensor]], gate: Tensor | None) -> None:
        self._layer, self._beside, self._gate = layer, beside, gate

    def add(self, name: str, x: Tensor, output: Tensor) -> None:
        """Add a module's delta to its output, in place."""
        pair = self._beside.get((self._layer, name))
        if pair is None:
            return
        inner = torch.matmul(x.to(pair[0].dtype), pair[0])
        output += torch.matmul(inner if self._gate is None else inner * self._gate, pair[1]).to(output.dtype)


def _layer(taken: "Taken", config: Any, at: int) -> Layer:
    is_gemma = config.model_type == "gemma2"
    here, E, F_ = f"model.layers.{at}", config.hidden_size, config.intermediate_size
    D = head_width(config)
    H, K = config.num_attention_heads * D, config.num_key_value_heads * D
    attention, mlp = f"{here}.self_attn", f"{here}.mlp"
    before_mlp = "pre_feedforward_layernorm" if is_gemma else "post_attention_layernorm"
    by_head = config.model_type == "qwen3"
    return Layer(
        before_attention=_norm(taken, f"{here}.input_layernorm", E, is_gemma),
        after_attention=_norm(taken, f"{here}.post_attention_layernorm", E, True) if is_gemma else None,
        before_mlp=_norm(taken, f"{here}.{before_mlp}", E, is_gemma),
        after_mlp=_norm(taken, f"{here}.post_feedforward_layernorm", E, True) if is_gemma else None,
        qkv=taken.linear([f"{attention}.{name}_proj" for name in "qkv"], [H, K, K], E),
        out=taken.linear([f"{attention}.o_proj"], [E], H),
        gate_up=taken.linear([f"{mlp}.gate_proj", f"{mlp}.up_proj"], [F_, F_], E),
        down=taken.linear([f"{mlp}.down_proj"], [E], F_),
        query_norm=_norm(taken, f"{attention}.q_norm", D, False) if by_head else None,
        key_norm=_norm(taken, f"{attention}.k_norm", D, False) if by_head else None,
        window=window_of(config, at),
    )


def _norm(taken: "Taken", name: str, width: int, is_gemma: bool) -> Tensor:
    weight = taken(f"{name}.weight", (width,))
    return 1.0 + weight.float() if is_gemma else weight


def _activation(config: Any) -> Callable[[Tensor], Tensor]:
    name = getattr(config, "hidden_activation", None) or config.hidden_act
    if name in _ACTIVATIONS:
        return _ACTIVATIONS[name]
    from transformers.activations import ACT2FN  # noqa: PLC0415 — two seconds, and none of our families needs it

    other: Callable[[Tensor], Tensor] = ACT2FN[name]
    return other


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
}

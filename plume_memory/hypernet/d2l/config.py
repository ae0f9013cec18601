"""What a Doc-to-LoRA network looks like: every size and switch its tensors need, and nothing else."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

LayerKind = Literal["cross", "self"]
"""A resampler layer that attends to its context, or one that attends to its own latents."""


class ModuleShape(BaseModel):
    """One kind of linear module that gets factors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="Name in the checkpoint, e.g. `down_proj`.")
    path: str = Field(description="Path inside a decoder layer, e.g. `mlp.down_proj`.")
    d_in: PositiveInt
    d_out: PositiveInt


class D2LConfig(BaseModel):
    """Architecture of a Doc-to-LoRA hypernetwork (D2L: architecture). Derived from a checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden_size: PositiveInt = Field(description="D, width of the base model's hidden states.")
    latent_size: PositiveInt = Field(description="d, width of the latents.")
    rank: PositiveInt = Field(description="r, rank of the factors of one chunk.")
    lora_alpha: float = Field(description="Scale of the delta, used as it is: never divided by the rank.")
    layers: tuple[int, ...] = Field(min_length=1, description="Adapted decoder layers; their number is L.")
    modules: tuple[ModuleShape, ...] = Field(min_length=1, description="In the order of the head's outputs.")
    latent_queries: PositiveInt = Field(description="Learned latents of the encoder resampler.")
    heads: PositiveInt = 16
    kv_heads: PositiveInt = 4
    head_size: PositiveInt = 128
    projection_size: PositiveInt = Field(description="Inner width of the modality projection (4 D).")
    mlp_size: PositiveInt = Field(description="Inner width of the resamplers' MLPs (4 d).")
    encoder_layers: tuple[LayerKind, ...] = Field(min_length=1, description="Distinct layers, as stored.")
    encoder_order: tuple[int, ...] = Field(min_length=1, description="Which distinct layer runs when.")
    decoder_layers: tuple[LayerKind, ...] = Field(min_length=1, description="As encoder_layers.")
    decoder_order: tuple[int, ...] = Field(min_length=1, description="As encoder_order.")
    pre_head_blocks: int = Field(ge=0, description="Residual blocks before the head.")
    pre_head_size: PositiveInt = Field(description="Their inner width (4 d).")
    per_layer_pre_head: bool = Field(description="Whether those blocks have weights of their own per layer.")
    use_bias: bool = Field(description="Whether a context adapter carries the learned bias block.")

    @model_validator(mode="after")
    def _check_orders(self) -> Self:
        for kinds, order in (
            (self.encoder_layers, self.encoder_order),
            (self.decoder_layers, self.decoder_order),
        ):
            if set(order) != set(range(len(kinds))):
                raise ValueError(f"an order {order} must use each of the {len(kinds)} layers")
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key/value heads")
        return self

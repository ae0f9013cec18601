"""What a fast-weight network looks like: every size and switch its tensors need, and nothing else."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator


class FastWeightConfig(BaseModel):
    """Sizes of a `FastWeightNetwork`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden_size: PositiveInt = Field(description="D, width of the base model's residual stream.")
    intermediate_size: PositiveInt = Field(description="F, width of its MLP activations: the input of `down_proj`.")
    layers: tuple[NonNegativeInt, ...] = Field(min_length=1, description="Adapted decoder layers, ascending.")
    rank: PositiveInt = Field(default=128, description="r, read keys per layer; the rank of the adapter.")
    value_width: PositiveInt = Field(default=160, description="V, width of what is stored under a key.")
    taps: PositiveInt = Field(default=4, description="Tokens up to the current one that shape its key.")
    mixer_blocks: NonNegativeInt = Field(default=1, description="Transformer blocks over the text before keys, values.")
    mixer_width: PositiveInt = Field(default=192, description="X, their width.")
    mixer_heads: PositiveInt = 4
    mixer_layer: NonNegativeInt = Field(default=12, description="Base layer whose input they read.")
    first_token: bool = Field(
        default=False, description="Whether the place before a text files its first token; without it no place does."
    )

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        if any(b <= a for a, b in zip(self.layers, self.layers[1:], strict=False)):
            raise ValueError(f"layers must be ascending, got {self.layers}")
        if self.mixer_width % (2 * self.mixer_heads):
            raise ValueError(f"mixer_width {self.mixer_width} must be an even multiple of {self.mixer_heads} heads")
        return self

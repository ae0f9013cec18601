"""The fast-weight network: a text's states in, the B factors of a rank-r adapter out.

Legend: L adapted layers, B texts, T tokens, D residual width, F MLP width, r rank, V value width,
X mixer width.

In every adapted layer each token files what follows it under what the model thinks at it:

    k_t = unit(conv(W_a a_t + W_h n_t + W_x x_t))       a: MLP activations, n: normed residual, x: mixer
    v_t = E e_{t+1} + W_v n_{t+1} + W_w x_{t+1}          e: embedding of the next token
    g_t = sigmoid(w_g · n_t + b)                         write strength
    M   = (Kᵀ G K + λ)⁻¹ Kᵀ G V                         [r, V]; see write.py
    A   = P, fixed        B = M U                        ΔW = Bᵀ P on `mlp.down_proj`

P, the read keys, does not depend on the text: only B is stored, and adapters of several texts add
up. W_a starts as P, so a state met again reads what was filed under it before anything is learned.
With `first_token` the place before a text files its first token; the state there is the same for every
text, so its key is the mixer's part alone. What follows a text's last token is the model's state at one
place of padding, with no embedding: it depends on the text alone and marks its end.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.mixer import MixerBlock
from plume_memory.hypernet.fastweight.reading import Reading
from plume_memory.hypernet.fastweight.write import write


class FastWeightNetwork(nn.Module):
    """Keys, values and the memory they make. Knows nothing of tokens, texts or the base model."""

    def __init__(self, config: FastWeightConfig) -> None:
        super().__init__()
        self.config = config
        # In place: on the meta device, where a network is made to be loaded, PyTorch does other products by importing
        # its compiler, for a second.
        L, r, V = len(config.layers), config.rank, config.value_width
        D, width, X = config.hidden_size, config.intermediate_size, config.mixer_width
        self.read_keys = nn.Parameter(torch.randn(L, r, width).div_(width**0.5))
        self.key_activations = nn.Parameter(torch.randn(L, width, r).div_(width**0.5))
        self.key_hidden = nn.Parameter(torch.zeros(L, D, r))
        taps = torch.zeros(config.taps, L, r)
        taps[0] = 1.0
        self.key_taps = nn.Parameter(taps)
        self.value_embedding = nn.Parameter(_orthonormal(D, V))
        self.value_hidden = nn.Parameter(torch.zeros(L, D, V))
        self.strength_hidden = nn.Parameter(torch.zeros(L, D, 1))
        self.strength_bias = nn.Parameter(torch.zeros(L, 1, 1))
        self.log_ridge = nn.Parameter(torch.zeros(L))
        self.out = nn.Parameter(self.value_embedding.detach().T.expand(L, V, D).clone().mul_(0.01))
        if config.mixer_blocks:
            self.mixer_in = nn.Linear(D, X, bias=False)
            self.mixer = nn.ModuleList(MixerBlock(X, config.mixer_heads) for _ in range(config.mixer_blocks))
            self.mixer_norm = nn.RMSNorm(X)
            self.key_mixer = nn.Parameter(torch.randn(L, X, r).mul_(0.1).div_(X**0.5))
            self.value_mixer = nn.Parameter(torch.randn(L, X, V).mul_(0.1).div_(X**0.5))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.read_keys.device

    def forward(self, reading: Reading) -> Tensor:
        """Write each text into factors.

        Args:
            reading: a batch of texts; any floating dtype.

        Returns:
            B [L, B, r, D] float32. A is `read_keys` [L, r, F] for every text.
        """
        L, B, T, D = reading.hidden.shape
        dtype = reading.hidden.dtype
        hidden = F.rms_norm(reading.hidden.float(), (D,)).to(dtype).view(L, B * T, D)
        keys = torch.bmm(reading.activations.reshape(L, B * T, -1), self.key_activations.to(dtype))
        keys = keys + torch.bmm(hidden, self.key_hidden.to(dtype))
        if reading.is_led:  # the state before a text is the same for all: its key is the mixer's alone
            later = torch.arange(T, device=keys.device) > 0
            keys = keys * later.to(dtype).repeat(B)[:, None]
        embedded = F.rms_norm(reading.following.float(), (D,)).to(dtype) @ self.value_embedding.to(dtype)
        values = torch.bmm(hidden, self.value_hidden.to(dtype))
        if self.config.mixer_blocks:
            mixed = self._mixed(reading).view(1, B * T, -1).expand(L, -1, -1)
            keys = keys + torch.bmm(mixed, self.key_mixer.to(dtype))
            values = values + torch.bmm(mixed, self.value_mixer.to(dtype))
        values = _shifted(values.view(L, B, T, -1)) + embedded
        strength = torch.bmm(hidden, self.strength_hidden.to(dtype)).float() + self.strength_bias
        strength = torch.sigmoid(strength).view(L, B, T) * reading.mask
        keys = F.normalize(self._convolved(keys.view(L, B, T, -1).float()), dim=-1)
        places, stored = write(
            keys.flatten(0, 1),
            values.float().flatten(0, 1),
            strength.flatten(0, 1),
            F.softplus(self.log_ridge).repeat_interleave(B),
        )
        factors = torch.bmm(stored.reshape(L, -1, stored.shape[-1]), self.out).view(L * B, -1, D)
        if places is not None:
            factors = torch.bmm(places, factors)
        return factors.view(L, B, self.config.rank, D)

    def _mixed(self, reading: Reading) -> Tensor:
        D = reading.shared.shape[-1]
        dtype = reading.shared.dtype
        with torch.autocast(reading.shared.device.type, dtype=dtype, enabled=dtype != torch.float32):
            x: Tensor = self.mixer_in(F.rms_norm(reading.shared.float(), (D,)))
            for block in self.mixer:
                x = block(x, reading.mask)
            normed: Tensor = self.mixer_norm(x.float())
            return normed.to(dtype)

    def _convolved(self, keys: Tensor) -> Tensor:
        """Causal convolution over the positions of [L, B, T, r], each feature on its own."""
        taps = self.key_taps
        out: Tensor = keys * taps[0][:, None, None]
        for back in range(1, min(self.config.taps, keys.shape[2])):
            out = out + F.pad(keys[:, :, :-back], (0, 0, back, 0)) * taps[back][:, None, None]
        return out


def _shifted(values: Tensor) -> Tensor:
    """What token t stores is the state at t + 1; zero after the last place, which is always padding."""
    return F.pad(values[:, :, 1:], (0, 0, 0, 1))


def _orthonormal(rows: int, columns: int) -> Tensor:
    wide: Tensor = torch.linalg.qr(torch.randn(max(rows, columns), min(rows, columns))).Q
    return wide if rows >= columns else wide.T.contiguous()

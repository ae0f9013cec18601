"""The network against a slow second implementation, written from D2L.md over the reference's own tensors."""

import pytest
import torch
import torch.nn.functional as F

from plume_memory.hypernet.d2l.checkpoint import convert, load

HEAD = 128


def rms(x, weight):
    return weight * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def gated(t, stem, x):
    gate, up, down = (t[f"{stem}.{leaf}_proj.weight"] for leaf in ("gate", "up", "down"))
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def attend(t, stem, latents, context, tokens):
    """One chunk, head by head, over its real tokens only."""
    q, k, v = (x @ t[f"{stem}.{p}_proj.weight"].T for p, x in (("q", latents), ("k", context), ("v", context)))
    k, v = k[:tokens], v[:tokens]
    heads, kv_heads = q.shape[1] // HEAD, k.shape[1] // HEAD
    outs = []
    for h in range(heads):
        g = h // (heads // kv_heads)
        of_q, of_kv = slice(h * HEAD, (h + 1) * HEAD), slice(g * HEAD, (g + 1) * HEAD)
        outs.append(torch.softmax(q[:, of_q] @ k[:, of_kv].T / HEAD**0.5, dim=-1) @ v[:, of_kv])
    return torch.cat(outs, dim=1) @ t[f"{stem}.o_proj.weight"].T


def resample(t, side, context, tokens):
    root = f"aggregator.perceiver.{side}"
    x = t[f"{root}.latents_q"]
    number = 0
    while f"{root}.layers.{number}.input_latents_layernorm.weight" in t:
        stem = f"{root}.layers.{number}"
        normed = rms(x, t[f"{stem}.input_latents_layernorm.weight"])
        cross = t.get(f"{stem}.input_context_layernorm.weight")
        seen, length = (normed, len(normed)) if cross is None else (rms(context, cross), tokens)
        out = attend(t, f"{stem}.self_attn", normed, seen, length)
        x = x + rms(out, t[f"{stem}.post_attention_layernorm.weight"])
        inner = gated(t, f"{stem}.mlp", rms(x, t[f"{stem}.pre_ff_layernorm.weight"]))
        x = x + rms(inner, t[f"{stem}.post_ff_layernorm.weight"])
        number += 1
    return rms(x, t[f"{root}.layernorm.weight"])


def block(t, number, layer, x, per_layer):
    if per_layer:
        stem = f"layers.{number}.layers"
        W1, W2 = t[f"{stem}.1.weight"][layer], t[f"{stem}.3.weight"][layer]
        b1, b2 = t[f"{stem}.1.bias"][0, layer, 0, 0], t[f"{stem}.3.bias"][0, layer, 0, 0]
        first, last = 0, 4
    else:
        stem = f"layers.{number}.mlp"
        W1, W2 = t[f"{stem}.2.weight"].T, t[f"{stem}.5.weight"].T
        b1, b2 = t[f"{stem}.2.bias"], t[f"{stem}.5.bias"]
        first, last = 0, 6

    def norm(x, i):
        return F.layer_norm(x, x.shape[-1:], t[f"{stem}.{i}.weight"], t[f"{stem}.{i}.bias"])

    return x + norm(F.silu(norm(x, first) @ W1 + b1) @ W2 + b2, last)


def slow_factors(ref, features, tokens, layer):
    """Factors of one chunk's features [S, D] in one layer: module → (A, B)."""
    t, recipe = ref.tensors, ref.recipe
    names = sorted(recipe.modules)
    projected = gated(t, "aggregator.perceiver.modality_projection", features)
    x = resample(t, "decoder", resample(t, "encoder", projected, tokens), recipe.queries)
    for number in range(recipe.pre_head):
        x = block(t, number, layer, x, recipe.per_layer)
    x = x / x.norm(dim=-1, keepdim=True)
    made = {}
    for m, name in enumerate(names):
        head = t["head.weight"][layer] if len(names) == 1 else t["head.weight"][layer, m]
        out = x[m * recipe.rank : (m + 1) * recipe.rank] @ head
        d_in, d_out = (sizes[name] for sizes in ref.hypernet["feature_sizes"])
        A, B = out[:, :d_in], out[:, d_in : d_in + d_out]
        made[name] = (A * t[f"scaler_A.{name}"][0, layer], B * t[f"scaler_B.{name}"][0, layer])
    return made


VARIANTS = {
    "plain": {},
    "self attention": {"self_layers": 2, "blocks": 3},
    "shared weights": {"self_layers": 1, "blocks": 4, "shared": True},
    "shared, cross only": {"blocks": 4, "shared": True},
    "pre-head shared by the layers": {"per_layer": False, "pre_head": 2},
    "no pre-head": {"pre_head": 0},
    "several modules": {"modules": ("q_proj", "down_proj", "gate_proj")},
    "several modules, shared pre-head": {"modules": ("q_proj", "down_proj"), "per_layer": False},
    "other sizes": {"latent": 12, "rank": 5, "queries": 9, "layers": 3, "q_width": 512, "k_width": 256},
    "as many key heads": {"q_width": 256, "k_width": 256},
    "one layer": {"layers": 1},
}


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_network_equals_the_slow_implementation(reference, recipe, tmp_path, variant):
    ref = reference(recipe(**VARIANTS[variant]))
    network = load(convert(ref.save(tmp_path / "m.bin"), tmp_path / "out"))
    L, D = ref.recipe.layers, ref.recipe.hidden
    features = torch.randn(2, L, 6, D, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    pairs = network(features, mask)
    assert [path.rpartition(".")[2] for path in pairs] == sorted(ref.recipe.modules)
    for path, (A, B) in pairs.items():
        for chunk, tokens in enumerate((6, 4)):
            for layer in range(L):
                wanted = slow_factors(ref, features[chunk, layer], tokens, layer)[path.rpartition(".")[2]]
                torch.testing.assert_close(A[chunk, layer], wanted[0], rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(B[chunk, layer], wanted[1], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_layer_by_layer_equals_all_at_once(reference, tmp_path):
    network = load(convert(reference().save(tmp_path / "m.bin"), tmp_path / "out"))
    features = torch.randn(3, 2, 5, 16, generator=torch.Generator().manual_seed(1))
    latents = torch.stack([network.encode_layer(features[:, layer]) for layer in range(2)], dim=1)
    once, apart = network(features)["mlp.down_proj"], network.generate(latents)["mlp.down_proj"]
    torch.testing.assert_close(apart.A, once.A)
    torch.testing.assert_close(apart.B, once.B)


@torch.no_grad()
def test_a_bfloat16_perceiver_gives_float32_factors(reference, tmp_path):
    network = load(convert(reference().save(tmp_path / "m.bin"), tmp_path / "out"))
    features = torch.randn(1, 2, 5, 16, generator=torch.Generator().manual_seed(1))
    wide = network(features)["mlp.down_proj"]
    network.perceiver.to(torch.bfloat16)
    narrow = network(features)["mlp.down_proj"]
    assert narrow.A.dtype == torch.float32
    assert float((narrow.A - wide.A).norm() / wide.A.norm()) < 0.1


def test_shared_layers_are_stored_once(reference, recipe, tmp_path):
    ref = reference(recipe(blocks=4, self_layers=1, shared=True))
    network = load(convert(ref.save(tmp_path / "m.bin"), tmp_path / "out"))
    assert network.config.encoder_order == (0, 1, 2, 1, 2, 1, 2, 1)
    assert len(network.perceiver.encoder.layers) == 3

"""The full variants, compared with torch and with continual-inference, with the same weights and stream."""

import continual as co
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from nystream import testing, variants

TOLERANCE = testing.TOLERANCE[torch.float64]
FORMS = [(v, s) for v in ("full", "co-full-single", "co-full-retro") for s in variants.get(v).forms]
PEERS = {"co-full-single": co.SingleOutputMultiheadAttention, "co-full-retro": co.RetroactiveMultiheadAttention}


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected):
    assert testing.relative_error(actual, expected) <= TOLERANCE


def windows(attn, x, key, value):
    """torch's attention over the window of every token, its newest row or all of its rows [B, 1 or n, E]."""
    cfg = attn.config
    q, k, v = (
        layer(y).unflatten(-1, (cfg.num_heads, cfg.head_dim)).transpose(1, 2)
        for layer, y in ((attn.q_proj, x), (attn.k_proj, key), (attn.v_proj, value))
    )
    for t in range(1, x.shape[1] + 1):
        q_w, k_w, v_w = (y[:, :, max(t - cfg.window, 0) : t] for y in (q, k, v))
        out = attn.out_proj(scaled_dot_product_attention(q_w, k_w, v_w).transpose(1, 2).flatten(2))
        yield out[:, -1:] if cfg.single else out


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize(("variant", "sums"), FORMS)
def test_every_window_of_a_stream_is_torchs_attention(build, variant, sums, cross):
    attn = build(variant, window=5, landmarks=None, sums=sums).requires_grad_(False)
    x = randn(3, 17, 8)
    key, value = (randn(3, 17, 8), randn(3, 17, 8)) if cross else (x, x)
    state, wants = attn.init_state(3), []
    for t, want in enumerate(windows(attn, x, key, value)):
        y, state = attn.step(x[:, t : t + 1], state, key[:, t : t + 1], value[:, t : t + 1])
        held = want.shape[1]
        close(y[:, -held:], want)
        assert not bool(y[:, :-held].any())
        last = slice(max(t - 4, 0), t + 1)
        close(attn(x[:, last], key[:, last], value[:, last])[:, -held:], want)
        wants.append(want)
    out, _ = attn.steps(x, attn.init_state(3), key, value)
    close(out, torch.cat(wants, 1) if attn.config.single else wants[-1])


def peer_of(attn):
    """continual-inference's module with the same weights, for [B, T, E]."""
    cfg = attn.config
    peer = PEERS[cfg.variant](cfg.embed_dim, cfg.num_heads, sequence_len=cfg.window, batch_first=True).double().eval()
    with torch.no_grad():
        projections = (attn.q_proj, attn.k_proj, attn.v_proj)
        peer.in_proj_weight.copy_(torch.cat([layer.weight for layer in projections]))
        peer.in_proj_bias.copy_(torch.cat([layer.bias for layer in projections]))
        peer.out_proj.weight.copy_(attn.out_proj.weight)
        peer.out_proj.bias.copy_(attn.out_proj.bias)
    return peer.requires_grad_(False)


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize(("variant", "sums"), [form for form in FORMS if form[0] in PEERS])
def test_continual_inference_agrees_step_by_step(build, variant, sums, cross):
    attn = build(variant, window=5, landmarks=None, sums=sums).requires_grad_(False)
    peer, x = peer_of(attn), randn(3, 17, 8)
    key, value = (randn(3, 17, 8), randn(3, 17, 8)) if cross else (x, x)
    state = attn.init_state(3)
    for t in range(17):
        token = (x[:, t], key[:, t], value[:, t])
        y, state = attn.step(token[0], state, *token[1:])
        theirs = peer.forward_step(*token)
        if t < 4:
            assert theirs is None  # it waits for a full window, where we give what there is
        else:
            close(y, theirs)


@pytest.mark.parametrize("variant", PEERS)
def test_continual_inference_agrees_on_pieces_and_windows(build, variant):
    attn = build(variant, window=5, landmarks=None).requires_grad_(False)
    peer, x = peer_of(attn), randn(3, 17, 8)
    close(attn(x[:, :5]), peer.forward(x[:, :5])[0])
    ours, _ = attn.steps(x, attn.init_state(3))
    theirs = peer.forward_steps(x)  # [B, T − 4, E], or [B, T − 4, n, E]: every full window
    close(ours[:, 4:] if attn.config.single else ours, theirs if attn.config.single else theirs[:, -1])

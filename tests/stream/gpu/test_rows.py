"""The kernels around the attention, alone: against torch in float64."""

import pytest
import torch
from torch import nn

import nystream as ns
from nystream.layers.positional import CircularPositions
from nystream.layers.scaler import Scaler
from nystream.stream.gpu import rows
from nystream.stream.gpu.landmarks import FixedAttention
from nystream.stream.gpu.launch import Call


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("count", "r", "width"), [(1, 1, 1), (5, 2, 3), (40, 1, 100), (3, 3, 1000)])
def test_inputs_are_scaled(count, r, width):
    scaler = Scaler(width)
    scaler.set(normal(width), normal(width).abs() + 0.5)
    x, slots = normal(count, r, width), torch.arange(count)
    y, refused = rows.entered(x, slots, scaler)
    assert torch.equal(y, scaler(x))
    assert int(refused) == 0
    assert torch.equal(rows.entered(x, slots, None)[0], x)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_inputs_that_are_not_finite(bad):
    x, slots = normal(30, 1, 100), torch.arange(30)
    x[17, 0, 99] = bad
    y, refused = rows.entered(x, slots, None)
    assert int(refused) == 1
    assert bool(y.isfinite().all())
    slots[17] = -1
    y, refused = rows.entered(x, slots, None)
    assert int(refused) == 0
    assert not y[17].any()


@pytest.mark.parametrize(("count", "r", "width"), [(1, 1, 1), (7, 2, 12), (3, 1, 300), (2, 1, 3000)])
def test_sums_and_norms(count, r, width):
    norm = nn.LayerNorm(width)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x, y = normal(2, count, r, width) * 3 + 5
    total, normed = rows.add_norm(x, y, norm)
    assert torch.equal(total, x + y)
    expected = norm.double()((x + y).double())
    norm.float()
    torch.testing.assert_close(normed.double(), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rows.normed_sum(x, y, norm), normed)
    torch.testing.assert_close(rows.normed_sum(x + y, None, norm), normed)
    assert rows.normed_sum(x, None, nn.Identity()) is x


def test_positions():
    positions, norm = CircularPositions(7, 12), nn.LayerNorm(12)
    time, slots = torch.tensor([5, 0, 10**12, 6]), torch.tensor([3, -1, 2, 0])
    x, call = normal(4, 3, 12), Call(slots, time, torch.tensor(0, dtype=torch.int32))
    total, normed = rows.embedded(x, positions, call, norm)
    expected = positions(x, time[slots.clamp(min=0)])
    assert torch.equal(total, expected)
    torch.testing.assert_close(normed, norm(expected))


@pytest.mark.parametrize(("d", "heads", "m"), [(12, 4, 4), (10, 5, 3), (6, 2, 7), (64, 3, 16), (20, 2, 33), (4, 1, 1)])
def test_products_with_landmarks(d, heads, m):
    """Logits of keys, and the weights softmax(q k̃ᵀ) Γ†, as float64 has them."""
    torch.manual_seed(0)
    attention = ns.MultiheadAttention(ns.AttentionConfig("co-fixed-single", d * heads, heads, 40, m, pinv="ridge"))
    attention.set_landmarks(*torch.randn(2, heads, m, d))
    attention.eval().requires_grad_(False)
    x = normal(70, 1, d * heads)
    made = FixedAttention(attention, torch.float32)
    found = [made.tile.logit.blocked(1).plain(y.unflatten(-1, shape(made)), 1)[:, 0, 0] for y in made._weights(x)]
    double = attention.double()
    q, k = (layer(x.double()).unflatten(-1, (heads, d))[:, 0] for layer in (double.q_proj, double.k_proj))
    scale = double.config.scale
    logit = torch.einsum("bhd,hid->bhi", k, double.q_tilde) * scale
    weight = torch.einsum("bhd,hid->bhi", q, double.k_tilde).mul(scale).softmax(-1)
    weight = torch.einsum("bhi,hij->bhj", weight, double.gamma_pinv)
    for ours, expected in zip(found, (logit, weight), strict=True):
        error = (ours.double() - expected).abs().max() / expected.abs().max()
        assert error < 1e-5


def shape(made):
    layout, heads = made.tile.logit, made.config.num_heads
    return (1, layout.strips, heads, layout.columns) if layout.block == 0 else (1, heads, 1, layout.width)

"""Tokens at given places: the values and gradients of plain indexing, in the same bits at every call."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.layers.positional import CircularPositions
from nystream.ops import gather

sizes = st.integers(1, 5)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def gradients(function, *inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = function(*inputs)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    return out, *torch.autograd.grad(out, inputs, weights)


def assert_same(ours, plain):
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@given(sizes, sizes, sizes, sizes)
def test_indexing(batch, tokens, runs, length):
    x, rows = torch.randn(batch, tokens, 2, 3, dtype=torch.float64), torch.arange(batch)
    places = torch.randint(tokens, (runs, length))
    assert_same(gradients(lambda x: gather.at(x, places), x), gradients(lambda x: x[:, places], x))
    places = torch.randint(tokens, (batch, runs, length))
    assert_same(
        gradients(lambda x: gather.by_row(x, places), x), gradients(lambda x: x[rows[:, None, None], places], x)
    )
    places, new = torch.randint(tokens, (batch, length)), torch.randn(batch, length, 2, 3, dtype=torch.float64)
    assert_same(
        gradients(lambda x, new: gather.add(x, places, new), x, new),
        gradients(lambda x, new: x.index_put((rows[:, None], places), new, accumulate=True), x, new),
    )


@pytest.mark.usefixtures("two_threads")
def test_gradients_of_positions_do_not_depend_on_the_timing_of_threads():
    positions, x, gradient = CircularPositions(48, 32), torch.randn(32, 192, 32), torch.randn(32, 192, 32)
    starts = torch.randint(48, (32,))
    first, *others = (torch.autograd.grad(positions(x, starts), positions.table, gradient)[0] for _ in range(20))
    assert all(torch.equal(other, first) for other in others)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("variant", ["co-full-single", "co-fixed-single", "co-cont-single", "co-cont-retro"])
def test_gradients_of_attention_do_not_depend_on_the_timing_of_threads(variant):
    landmarks = None if variant == "co-full-single" else 20
    config = ns.AttentionConfig(variant, embed_dim=32, num_heads=4, window=100, landmarks=landmarks)
    attention, x = ns.MultiheadAttention(config), torch.randn(3, 300, 32, requires_grad=True)
    if config.fixed:
        attention.set_landmarks(torch.randn(4, 20, 8), torch.randn(4, 20, 8))
    outputs = (attention.steps(x, attention.init_state(3))[0] for _ in range(8))
    first, *others = (torch.autograd.grad(output.square().sum(), x)[0] for output in outputs)
    assert all(torch.equal(other, first) for other in others)

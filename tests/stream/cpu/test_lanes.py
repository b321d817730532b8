"""The order of the numbers of all heads in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from nystream.stream.cpu import lanes, plan
from nystream.stream.cpu.memory import block_at, pointer_to, wide_block_at


@njit
def _spread(x, y):
    lanes.spread(pointer_to(x), pointer_to(y), x.shape[0], x.shape[1], y.shape[1])


@njit
def _dots(block, wide, a, x, out):
    if wide:
        lanes.dots(wide_block_at(block), pointer_to(a), a.shape[0], a.shape[1], pointer_to(x), pointer_to(out))
    else:
        lanes.dots(block_at(block), pointer_to(a), a.shape[0], a.shape[1], pointer_to(x), pointer_to(out))


@njit
def _softmax(block, wide, z):
    if wide:
        lanes.softmax(wide_block_at(block), pointer_to(z), z.shape[0])
    else:
        lanes.softmax(block_at(block), pointer_to(z), z.shape[0])


def _block(**sizes):
    return np.array([plan.BlockPlan(**sizes)], plan.BLOCK)


HEADS, DIMS = st.integers(1, 20), st.integers(1, 40)


@given(heads=HEADS, dim=DIMS)
def test_every_number_has_a_place_in_a_lane_of_its_head(heads, dim):
    places = plan.places(heads, dim)
    tile = plan.tile_size(heads)
    assert tile % 8 == 0
    assert tile % heads == 0
    assert len(np.unique(places)) == heads * dim
    assert places.max() < plan.width(heads, dim)
    assert (places % tile % heads == np.arange(heads)[:, None]).all()


@pytest.mark.parametrize(("heads", "dim"), [(16, 12), (8, 64), (4, 64), (12, 64), (2, 12), (1, 8), (3, 16)])
def test_usual_sizes_waste_nothing(heads, dim):
    assert plan.width(heads, dim) == heads * dim


@given(heads=HEADS, dim=DIMS)
def test_there_and_back(heads, dim):
    x = np.random.default_rng(0).normal(size=(3, heads, dim)).astype(np.float32)
    there = plan.to_lanes(x)
    assert there.shape == (3, plan.width(heads, dim))
    np.testing.assert_array_equal(plan.from_lanes(there, heads, dim), x)
    assert np.count_nonzero(there) == x.size


@given(heads=HEADS, count=st.integers(1, 5))
def test_spread_is_the_same_compiled(heads, count):
    x, tile = np.random.default_rng(0).normal(size=(count, heads)).astype(np.float32), plan.tile_size(heads)
    y = np.empty((count, tile), np.float32)
    _spread(x, y)
    np.testing.assert_array_equal(y, plan.spread(x))


@given(heads=HEADS, dim=DIMS, count=st.integers(1, 5))
def test_dots_of_every_head(heads, dim, count):
    generator = np.random.default_rng(0)
    a, x = (generator.normal(size=size).astype(np.float32) for size in ((count, heads, dim), (heads, dim)))
    tile, width = plan.tile_size(heads), plan.width(heads, dim)
    block = _block(heads=heads, tile=tile, width=width, scale=0.5)
    exact = 0.5 * np.einsum("chd,hd->ch", a.astype(np.float64), x)
    for wide in (False, True) if tile % 16 == 0 else (False,):
        out = np.empty((count, tile), np.float32)
        _dots(block.ctypes.data, wide, plan.to_lanes(a), plan.to_lanes(x), out)
        np.testing.assert_allclose(out, plan.spread(exact), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wide", [False, True])
def test_softmax_of_large_logits(wide):
    z = np.random.default_rng(0).normal(size=(5, 16)).astype(np.float32) * 1000
    exact = np.exp(z.astype(np.float64) - z.max(0))
    block = _block(tile=16)
    _softmax(block.ctypes.data, wide, z)
    np.testing.assert_allclose(z, exact / exact.sum(0), rtol=1e-6, atol=1e-30)

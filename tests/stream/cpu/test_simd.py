"""Vectors in compiled code, compared with NumPy."""

import numpy as np
import pytest
import torch
from numba import njit

from nystream.stream.cpu import rows, simd
from nystream.stream.cpu.memory import pointer_to


@njit
def _exponentials(x, y):
    for i in range(0, x.shape[0], 8):
        simd.store(pointer_to(y) + i, simd.exp(simd.load8(pointer_to(x) + i)))


@njit
def _larger(x, y, out):
    simd.store(pointer_to(out), simd.larger(simd.load8(pointer_to(x)), simd.load8(pointer_to(y))))


@njit
def _total(x):
    return simd.total(simd.load16(pointer_to(x)))


@njit
def _finite(x, start, end):
    return rows.finite(pointer_to(x) + start, end - start)


@njit
def _gelu(x):
    rows.gelu(pointer_to(x), x.shape[0])


@njit
def _relu(x):
    rows.relu(pointer_to(x), x.shape[0])


@njit
def _layer_norm(w, x, y, eps):
    rows.layer_norm(pointer_to(w), x.shape[0], eps, pointer_to(x), pointer_to(y))


def test_exp_is_right_to_the_last_places():
    x = np.concatenate([-np.logspace(-8, np.log10(87.2), 4000), np.zeros(8)]).astype(np.float32)
    y = np.empty_like(x)
    _exponentials(x, y)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(y / exact - 1).max() < 2.4e-7  # two units in the last place


def test_exp_at_the_ends():
    x = np.array([-np.inf, -1e30, -88.0, -87.31, 0.0, -0.0, np.nan, -1.0], np.float32)
    y = np.empty_like(x)
    _exponentials(x, y)
    np.testing.assert_array_less(y[:4], 1.3e-38)  # the smallest normal number instead of zero
    np.testing.assert_array_equal(y[4:6], [1, 1])
    assert np.isnan(y[6])
    assert y[7] == pytest.approx(np.exp(-1))


def test_larger_keeps_a_nan_that_comes_second():
    x, y, out = np.arange(8, dtype=np.float32), np.full(8, 3, np.float32), np.empty(8, np.float32)
    y[1] = np.nan
    _larger(x, y, out)
    np.testing.assert_array_equal(out, [3, np.nan, 3, 3, 4, 5, 6, 7])


def test_total():
    x = np.arange(16, dtype=np.float32)
    assert _total(x) == x.sum()


@pytest.mark.parametrize("size", [1, 15, 16, 33, 128])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_finite_finds_what_is_not(size, bad):
    x = np.full(size + 2, 1e38, np.float32)
    x[0] = x[-1] = bad  # outside the range that is checked
    assert _finite(x, 1, size + 1)
    for place in {1, size // 2 + 1, size}:
        spoiled = x.copy()
        spoiled[place] = bad
        assert not _finite(spoiled, 1, size + 1)


def test_gelu_is_the_exact_one():
    x = np.concatenate([np.linspace(-30, 30, 4008), [0.0, -0.0, 1e30, -1e30, 1e-30, 3, -3, 5]]).astype(np.float32)
    exact = torch.nn.functional.gelu(torch.from_numpy(x).double()).numpy()
    y = x.copy()
    _gelu(y)
    # The error of erfc, 1.5e-7, is multiplied by x / 2; torch's own float32 is off by 2.9e-7 |x|.
    assert (np.abs(y - exact) <= 2.9e-7 * np.abs(x) + 1e-38).all()


def test_activations_keep_a_nan():
    x = np.array([np.nan, -1, 0, 2, -3, 4, -5, 6, *range(-4, 4)], np.float32)
    for activation in (_relu, _gelu):
        y = x.copy()
        activation(y)
        assert np.isnan(y[0])
        assert np.isfinite(y[1:]).all()
    y = x.copy()
    _relu(y)
    np.testing.assert_array_equal(y[1:], np.maximum(x[1:], 0))


@pytest.mark.parametrize("width", [1, 7, 16, 24, 192, 193])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_layer_norm(width, offset):
    generator = np.random.default_rng(0)
    x = (generator.normal(size=width) + offset).astype(np.float32)
    w = generator.normal(size=2 * width).astype(np.float32)
    y = np.empty_like(x)
    _layer_norm(w, x, y, 1e-5)
    exact = torch.nn.functional.layer_norm(
        *(torch.from_numpy(a).double() if a is not None else a for a in (x,)), (width,),
        torch.from_numpy(w[:width]).double(), torch.from_numpy(w[width:]).double(), 1e-5,
    ).numpy()  # fmt: skip
    # A float32 mean of numbers near `offset` is off by some units in its last place.
    tolerance = 2e-6 if offset == 0 else 2e-3
    np.testing.assert_allclose(y, exact, rtol=tolerance, atol=tolerance)


@njit
def _converted(x, y):
    simd.store(pointer_to(y), simd.load8(pointer_to(x)))


def test_bfloat16_is_rounded_as_torch_does():
    x = np.array([1.0, 1.00390625, 1.01171875, -3.1415926, 1e38, np.inf, np.nan, 1e-40], np.float32)
    stored, again = np.empty(8, np.uint16), np.empty(8, np.float32)
    _converted(x, stored)
    _converted(stored, again)
    np.testing.assert_array_equal(again, torch.from_numpy(x).bfloat16().float().numpy())

"""Vectors of words in compiled code, compared with NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from nystream.stream.cpu import integers, narrow, simd
from nystream.stream.cpu.memory import pointer_to


@njit
def _both(sums, x, w, fast, anywhere):
    s, u, v = (
        integers.load_words(pointer_to(sums)),
        integers.load_words(pointer_to(x)),
        integers.load_words(pointer_to(w)),
    )
    simd.store(pointer_to(fast), integers.to_floats(integers.add_products(s, u, v)))
    simd.store(pointer_to(anywhere), integers.to_floats(integers.add_products_anywhere(s, u, v)))


@njit
def _halves(x, low, high):
    simd.store(pointer_to(low), integers.low_halves(integers.load_words(pointer_to(x))))
    simd.store(pointer_to(high), integers.high_halves(integers.load_words(pointer_to(x))))


@njit
def _first(x, count, y):
    simd.store(pointer_to(y), integers.load_first(pointer_to(x), count))


@njit
def _largest(x):
    return integers.largest(simd.load16(pointer_to(x)))


EXTREMES = [(0, 0), (255, -128), (255, 127), (0, -128), (1, -1), (128, 64)]


@given(st.lists(st.one_of(st.sampled_from(EXTREMES), st.tuples(st.integers(0, 255), st.integers(-128, 127))),
                min_size=64, max_size=64))  # fmt: skip
def test_products_of_bytes_are_exact_with_and_without_the_instruction(pairs):
    x, w = np.array(pairs, np.int16).T
    x, w, sums = x.astype(np.uint8), w.astype(np.int8), np.arange(-8000, 8000, 1000, dtype=np.int32)
    fast, anywhere = np.empty(16, np.float32), np.empty(16, np.float32)
    _both(sums, x, w, fast, anywhere)
    exact = sums + (x.astype(np.int64) * w.astype(np.int64)).reshape(16, 4).sum(1)
    np.testing.assert_array_equal(fast, exact)
    np.testing.assert_array_equal(anywhere, exact)


def test_bfloat16_is_that_of_torch():
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint64).astype(np.uint32)
    ties = np.arange(0x3F800000, 0x3F900000, 0x8000, np.uint32)
    x = np.concatenate([bits, ties, ties + 1, ties - 1]).view(np.float32)
    x = x[np.abs(x) < 1e38]
    expected = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(narrow.bfloat16(x), expected)


def test_halves_become_floats():
    x = np.random.default_rng(0).normal(size=(16, 2)).astype(np.float32)
    bits = narrow.bfloat16(x)
    low, high = np.empty(16, np.float32), np.empty(16, np.float32)
    _halves(bits, low, high)
    np.testing.assert_array_equal(np.stack([low, high], 1), (bits.astype(np.uint32) << 16).view(np.float32))


@pytest.mark.parametrize("count", [1, 7, 15, 16, 40])
def test_what_comes_after_a_row_is_not_read(count):
    x, y = np.full(48, np.nan, np.float32), np.empty(16, np.float32)
    x[:count] = np.arange(1, count + 1)
    _first(x, count, y)
    np.testing.assert_array_equal(y, [k + 1 if k < count else 0 for k in range(16)])


def test_largest():
    for place in range(16):
        x = -np.arange(16, dtype=np.float32)
        x[place] = 3
        assert _largest(x) == 3

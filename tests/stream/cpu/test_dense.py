"""Packed matrix products are correct, and a row gives the same bits alone and in a batch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from nystream.stream.cpu.dense import PANEL, dense, pack, panels
from nystream.stream.cpu.memory import Rows, pointer_to
from nystream.stream.cpu.plan import LAYER


@njit
def _dense(w, layer, x, y):
    dense(pointer_to(w), layer, Rows(pointer_to(x), x.shape[1]), Rows(pointer_to(y), y.shape[1]), x.shape[0])


def product(weight, bias, x):
    count = panels(len(weight))
    y = np.full((len(x), count * PANEL), np.nan, np.float32)
    _dense(pack(weight, bias), np.array([(0, weight.shape[1], count, 0)], LAYER)[0], x, y)
    return y


@given(outputs=st.integers(1, 130), inputs=st.integers(1, 70), rows=st.integers(1, 11), seed=st.integers(0, 99))
def test_products(outputs, inputs, rows, seed):
    generator = np.random.default_rng(seed)
    weight, bias, x = (
        generator.normal(size=size).astype(np.float32) for size in ((outputs, inputs), (outputs,), (rows, inputs))
    )
    y = product(weight, bias, x)
    exact = x.astype(np.float64) @ weight.T + bias
    # Each of `inputs` additions rounds once, at numbers no larger than the sum of the magnitudes.
    size = np.abs(x).astype(np.float64) @ np.abs(weight).T + np.abs(bias)
    assert (np.abs(y[:, :outputs] - exact) <= 6e-8 * (inputs + 1) * size).all()
    assert not y[:, outputs:].any()


@given(outputs=st.integers(1, 130), inputs=st.integers(1, 70), rows=st.integers(2, 11), seed=st.integers(0, 99))
def test_a_row_alone_has_the_same_bits(outputs, inputs, rows, seed):
    generator = np.random.default_rng(seed)
    weight, bias, x = (
        generator.normal(size=size).astype(np.float32) for size in ((outputs, inputs), (outputs,), (rows, inputs))
    )
    together = product(weight, bias, x)
    for row in range(rows):
        np.testing.assert_array_equal(product(weight, bias, x[row : row + 1])[0], together[row])

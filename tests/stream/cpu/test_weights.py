"""Layers in bfloat16 and int8: integers are exact, results within a bound, a row gives the same bits in a batch."""

import hashlib
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from nystream.stream.cpu import int8
from nystream.stream.cpu.dense import PANEL, panels
from nystream.stream.cpu.memory import Rows, pointer_to
from nystream.stream.cpu.plan import LAYER
from nystream.stream.cpu.weights import BFloat16, Float32, Int8, dense, pack_layer


@njit
def _float32(w, layer, x, y, rows, z):
    rest = Rows(pointer_to(z), z.shape[1])
    dense(Float32(rest), pointer_to(w), layer, Rows(pointer_to(x), x.shape[1]), Rows(pointer_to(y), y.shape[1]), rows)


@njit
def _bfloat16(w, layer, x, y, rows, z):
    rest = Rows(pointer_to(z), z.shape[1])
    dense(BFloat16(rest), pointer_to(w), layer, Rows(pointer_to(x), x.shape[1]), Rows(pointer_to(y), y.shape[1]), rows)


@njit
def _int8(w, layer, x, y, rows, z):
    rest = Rows(pointer_to(z), z.shape[1])
    dense(Int8(rest), pointer_to(w), layer, Rows(pointer_to(x), x.shape[1]), Rows(pointer_to(y), y.shape[1]), rows)


KINDS = {"float32": _float32, "bfloat16": _bfloat16, "int8": _int8}


def product(kind, weight, bias, x, fine=0):
    """y [rows, panels · 32], and the scratch memory."""
    values, count = pack_layer(kind, weight.astype(np.float64), bias.astype(np.float64), fine)
    layer = np.array([(0, weight.shape[1], panels(len(weight)), count)], LAYER)[0]
    y = np.full((len(x), panels(len(weight)) * PANEL), np.nan, np.float32)
    z = np.full((len(x), int8.row_size(x.shape[1])), np.nan, np.float32)
    KINDS[kind](values.astype(np.float32).ravel(), layer, x, y, len(x), z)
    return y, z


def quantized(z, inputs):
    """Scale, zero point and integers of rows, from the scratch memory."""
    integers = z[:, int8.HEADER :].copy().view(np.uint8)[:, :inputs].astype(np.int64)
    return z[:, 0].astype(np.float64), z[:, 1].astype(np.int64), integers


def random(seed, outputs, inputs, rows):
    """Weight, bias and inputs, of magnitudes that differ between outputs and between rows, and not around zero."""
    generator = np.random.default_rng(seed)
    weight, bias, x = (generator.normal(size=size) for size in ((outputs, inputs), (outputs,), (rows, inputs)))
    weight *= 10 ** generator.uniform(-3, 3, (outputs, 1))
    x = (x + generator.normal(size=(rows, 1))) * 10 ** generator.uniform(-3, 3, (rows, 1))
    return weight.astype(np.float32), bias.astype(np.float32), x.astype(np.float32)


SIZES = {"outputs": st.integers(1, 130), "inputs": st.integers(1, 70), "rows": st.integers(1, 11)}


@given(**SIZES, seed=st.integers(0, 99))
def test_bfloat16(outputs, inputs, rows, seed):
    weight, bias, x = random(seed, outputs, inputs, rows)
    y, _ = product("bfloat16", weight, bias, x)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    size = np.abs(x).astype(np.float64) @ np.abs(weight).T + np.abs(bias)
    # A weight of eight bits is off by half a unit in the last, and each of `inputs` additions rounds once.
    assert (np.abs(y[:, :outputs] - exact) <= (2**-8 + 6e-8 * (inputs + 1)) * size).all()
    assert not y[:, outputs:].any()


@given(**SIZES, seed=st.integers(0, 99))
def test_integers_of_int8_are_exact(outputs, inputs, rows, seed):
    weight, _, x = random(seed, outputs, inputs, rows)
    y, z = product("int8", weight, np.zeros(outputs), x)
    scale, zero, u = quantized(z, inputs)
    assert (np.abs(x - scale[:, None] * (u - zero[:, None])) <= 0.501 * scale[:, None]).all()
    scales = np.abs(weight.astype(np.float64)).max(1) / 127
    v = np.rint(weight / scales[:, None]).astype(np.int64)
    # Sums are below 2²², so float32 is off by less than one half of a unit of them.
    np.testing.assert_array_equal(np.rint(y[:, :outputs] / np.outer(scale, scales)), (u - zero[:, None]) @ v.T)
    assert not y[:, outputs:].any()


@given(**SIZES, seed=st.integers(0, 99))
def test_int8(outputs, inputs, rows, seed):
    weight, bias, x = random(seed, outputs, inputs, rows)
    y, z = product("int8", weight, bias, x)
    scale, _, _ = quantized(z, inputs)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    scales = np.abs(weight).max(1) / 127
    # Each input and each weight is off by half a unit, where the other is at most half a unit larger than it was.
    of_inputs = np.outer(scale, np.abs(weight).sum(1) + inputs * scales / 2) / 2
    of_weights = np.outer(np.abs(x).sum(1), scales) / 2
    rounding = 1e-6 * (np.abs(exact) + np.abs(bias))
    assert (np.abs(y[:, :outputs] - exact) <= 1.003 * (of_inputs + of_weights) + rounding).all()


@given(**SIZES, seed=st.integers(0, 99), kind=st.sampled_from(["bfloat16", "int8"]), share=st.floats(0, 1))
def test_a_row_alone_has_the_same_bits(outputs, inputs, rows, seed, kind, share):
    weight, bias, x = random(seed, outputs, inputs, rows)
    fine = round(share * outputs)
    together, _ = product(kind, weight, bias, x, fine)
    assert np.isfinite(together).all()
    for row in range(rows):
        np.testing.assert_array_equal(product(kind, weight, bias, x[row : row + 1], fine)[0][0], together[row])


@given(**SIZES, share=st.floats(0, 1))
def test_fine_outputs_of_int8_are_bfloat16(outputs, inputs, rows, share):
    weight, bias, x = random(0, outputs, inputs, rows)
    fine = round(share * outputs)
    cut = min(panels(fine) * PANEL, outputs)
    y = product("int8", weight, bias, x, fine)[0]
    np.testing.assert_array_equal(y[:, :cut], product("bfloat16", weight, bias, x)[0][:, :cut])
    np.testing.assert_array_equal(y[:, cut:outputs], product("int8", weight, bias, x)[0][:, cut:outputs])


def test_float32_is_selected_too():
    weight, bias, x = random(0, 40, 30, 5)
    np.testing.assert_allclose(
        product("float32", weight, bias, x)[0][:, :40], x @ weight.T + bias, rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_zeros(kind):
    """Rows, and weights of an output, which have no scale; tiny numbers, whose inverse is infinite."""
    weight, bias, x = random(0, 40, 30, 6)
    x[0], x[1], x[2] = 0, 1e-38, -1e-45
    weight[3] = 0
    y, _ = product(kind, weight, bias, x)
    np.testing.assert_allclose(y[:3, :40], np.tile(bias, (3, 1)), rtol=1e-6)
    np.testing.assert_array_equal(y[:, 3], np.full(6, bias[3]))


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_hidden(rows, bad):
    weight, bias, x = random(0, 40, 30, rows)
    x[-1, 20] = bad
    y, _ = product("int8", weight, bias, x)
    assert np.isnan(y[-1, :40]).all()
    assert np.isfinite(y[:-1]).all()


def test_large_numbers():
    weight, bias, x = random(0, 40, 30, 2)
    weight /= np.abs(weight).sum(1, keepdims=True)
    x[0], x[1] = np.where(np.arange(30) % 2, 3e38, -3e38), 3e38
    y, _ = product("int8", weight, bias, x)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(y[:, :40], exact, atol=0.03 * 3e38)


@pytest.mark.parametrize("inputs", [4096, int8.MAX_INPUTS])
def test_sums_fit_into_32_bits(inputs):
    weight = np.ones((2, inputs), np.float32) * [[1], [-1]]
    x = np.ones((3, inputs), np.float32) * [[1], [-1], [0.5]]
    y, _ = product("int8", weight, np.zeros(2), x.astype(np.float32))
    np.testing.assert_allclose(y[:, :2], np.outer([1, -1, 0.5], [inputs, -inputs]), rtol=1e-6)


def test_a_layer_whose_sums_may_not_fit_is_refused():
    weight = np.ones((1, int8.MAX_INPUTS + 1))
    with pytest.raises(ValueError, match=r"weights='int8' .* 66,312 inputs, .* up to 66,311; use weights='bfloat16'"):
        pack_layer("int8", weight, np.zeros(1), 0)
    assert pack_layer("int8", weight, np.zeros(1), 1)[1] == 1  # in bfloat16


def digest():
    """A hash of the outputs of several layers."""
    outputs = [product("int8", *random(seed, 10 + 9 * seed, 60 + 7 * seed, 1 + seed))[0] for seed in range(6)]
    return hashlib.sha256(b"".join(y.tobytes() for y in outputs)).hexdigest()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the instruction is one of x86")
def test_a_machine_without_the_instruction_gives_the_same_bits():
    """Code for one with FMA, as fusing a multiplication and an addition rounds differently."""
    script = f"import runpy; print(runpy.run_path({__file__!r})['digest']())"
    older = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | older, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest()

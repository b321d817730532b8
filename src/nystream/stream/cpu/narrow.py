"""Dense layers with weights in bfloat16, and what they share with those in int8 (`int8`).

As in `dense`, W [N, K] is packed into panels of 32 outputs; here, the constants of its outputs precede each panel. A
row alone takes two panels at a time, and several rows share each load of a panel in groups of four. Of an odd number of
panels, the last is taken twice: there is one function less to compile.

A line of 64 bytes has 32 weights in bfloat16, those of outputs j and j + 16 in one word: one shift or mask makes 16
float32 of them, and the rest is computed in float32 in the order of `dense`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.dense import PANEL, panels
from nystream.stream.cpu.integers import high_halves, load_words, low_halves
from nystream.stream.cpu.memory import Rows, row
from nystream.stream.cpu.simd import apart, compiled, load16, splat16, store

Array = np.ndarray[Any, Any]


def padded(weight: Array, multiple: int = 1) -> Array:
    """[panels, 32, K]: a weight [N, K] with zeros up to whole panels, and up to a multiple of inputs."""
    outputs, inputs = weight.shape
    count, width = panels(outputs), -(-inputs // multiple) * multiple
    whole = np.zeros((count * PANEL, width), weight.dtype)
    whole[:outputs, :inputs] = weight
    return whole.reshape(count, PANEL, width)


def product_of(pair: Any, four: Any) -> Any:
    """The product with a layer, from a kernel for one row and two panels and one for four rows and one panel."""

    @compiled
    def product(panel: Any, size: int, count: int, inputs: int, x: Rows, y: Rows, rows: int) -> None:
        apart()
        last = rows - 1
        if rows > 1:
            for p in range(count):
                out = Rows(y.first + p * PANEL, y.stride)
                for r in range(0, rows, 4):
                    r1, r2, r3 = min(r + 1, last), min(r + 2, last), min(r + 3, last)
                    xs, ys = (row(x, r), row(x, r1), row(x, r2), row(x, r3)), (row(out, r), row(out, r1))
                    four(panel + p * size, inputs, xs, (*ys, row(out, r2), row(out, r3)))
            return
        for p in range(0, count, 2):
            q = min(p + 1, count - 1)
            pair(panel + p * size, panel + q * size, inputs, x.first, y.first + p * PANEL, y.first + q * PANEL)

    return product


def bfloat16(x: Array) -> Array:
    """The bits of x rounded to bfloat16, to the nearest, or of two equally near to the even one."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def pack_bfloat16(weight: Array, bias: Array) -> Array:
    """Per panel: the biases, and [K, 32] weights."""
    weights = padded(weight).transpose(0, 2, 1)  # [panels, K, 32]
    halves = bfloat16(weights).reshape(*weights.shape[:2], 2, PANEL // 2).swapaxes(2, 3)
    lines = np.ascontiguousarray(halves).view(np.float32).reshape(len(weights), -1)
    return np.concatenate([padded(bias[:, None]).astype(np.float32)[..., 0], lines], 1)


@compiled
def _pair(panel: Any, next_panel: Any, inputs: int, x: Any, y: Any, next_y: Any) -> None:
    a, b = load16(panel), load16(panel + 16)
    c, d = load16(next_panel), load16(next_panel + 16)
    for k in range(inputs):
        xk, at = splat16(x[k]), PANEL + k * 16
        u, v = load_words(panel + at), load_words(next_panel + at)
        a = low_halves(u) * xk + a
        b = high_halves(u) * xk + b
        c = low_halves(v) * xk + c
        d = high_halves(v) * xk + d
    store(y, a)
    store(y + 16, b)
    store(next_y, c)
    store(next_y + 16, d)


@compiled
def _four(panel: Any, inputs: int, xs: tuple[Any, ...], ys: tuple[Any, ...]) -> None:
    (x0, x1, x2, x3), (y0, y1, y2, y3) = xs, ys
    a0, b0 = load16(panel), load16(panel + 16)
    a1, b1, a2, b2, a3, b3 = a0, b0, a0, b0, a0, b0
    for k in range(inputs):
        line = load_words(panel + (PANEL + k * 16))
        u, v = low_halves(line), high_halves(line)
        k0, k1, k2, k3 = splat16(x0[k]), splat16(x1[k]), splat16(x2[k]), splat16(x3[k])
        a0 = u * k0 + a0
        b0 = v * k0 + b0
        a1 = u * k1 + a1
        b1 = v * k1 + b1
        a2 = u * k2 + a2
        b2 = v * k2 + b2
        a3 = u * k3 + a3
        b3 = v * k3 + b3
    store(y0, a0)
    store(y0 + 16, b0)
    store(y1, a1)
    store(y1 + 16, b1)
    store(y2, a2)
    store(y2 + 16, b2)
    store(y3, a3)
    store(y3 + 16, b3)


product = product_of(_pair, _four)


@compiled
def panel_size(inputs: int) -> int:
    """Float32 of a panel and its biases."""
    return PANEL + inputs * (PANEL // 2)


@compiled
def dense_bfloat16(w: Any, layer: Any, x: Rows, y: Rows, rows: int) -> None:
    """`dense` for weights in bfloat16."""
    product(w + layer.at, panel_size(layer.inputs), layer.panels, layer.inputs, x, y, rows)

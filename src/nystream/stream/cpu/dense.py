"""y = W x + b, for one row or many: the bulk of a step's work.

W [N, K] is packed once into panels of 32 outputs, [N / 32, K, 32], so that it is read from end to end in one sweep and
two vectors hold the outputs of a panel. One row is bound by that reading; of many rows, four share every load.
Every output is summed over k in order, from b, so a row gives the same bits whatever rows it comes with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.simd import apart, compiled, load16, splat16, store

PANEL = 32


def panels(outputs: int) -> int:
    """How many panels hold so many outputs."""
    return -(-outputs // PANEL)


def pack(weight: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[bias, panels] of a weight [N, K], one after the other; outputs that fill up the last panel are zero."""
    outputs, inputs = weight.shape
    count = panels(outputs)
    padded = np.zeros((count * PANEL, inputs), weight.dtype)
    padded[:outputs] = weight
    held = np.zeros(count * PANEL, weight.dtype)
    held[:outputs] = bias
    return np.concatenate([held, padded.reshape(count, PANEL, inputs).transpose(0, 2, 1).ravel()])


@compiled
def dense(
    w: Any, at: int, inputs: int, count: int, x: Any, xo: int, xs: int, y: Any, yo: int, ys: int, rows: int
) -> None:
    """Row r of y, at yo + r ys, from row r of x, at xo + r xs. `at` is where `pack` put its array in w."""
    apart()
    first, last = at + count * PANEL, rows - 1
    if rows > 1:
        for p in range(count):
            for r in range(0, rows, 4):
                r1, r2, r3 = min(r + 1, last), min(r + 2, last), min(r + 3, last)  # the last one again, to fill up
                _four_rows(
                    w, at + p * PANEL, first + p * inputs * PANEL, inputs,
                    x, xo + r * xs, xo + r1 * xs, xo + r2 * xs, xo + r3 * xs,
                    y, yo + r * ys + p * PANEL, (r1 - r) * ys, (r2 - r) * ys, (r3 - r) * ys,
                )  # fmt: skip
        return
    p = 0
    while p + 2 <= count:
        _two_panels(w, at + p * PANEL, first + p * inputs * PANEL, inputs, x, xo, y, yo + p * PANEL)
        p += 2
    if p < count:
        _one_panel(w, at + p * PANEL, first + p * inputs * PANEL, inputs, x, xo, y, yo + p * PANEL)


@compiled
def _one_panel(w: Any, bias: int, panel: int, inputs: int, x: Any, xo: int, y: Any, yo: int) -> None:
    apart()
    a, b = load16(w, bias), load16(w, bias + 16)
    for k in range(inputs):
        xk, o = splat16(x[xo + k]), panel + k * PANEL
        a = load16(w, o) * xk + a
        b = load16(w, o + 16) * xk + b
    store(y, yo, a)
    store(y, yo + 16, b)


@compiled
def _two_panels(w: Any, bias: int, panel: int, inputs: int, x: Any, xo: int, y: Any, yo: int) -> None:
    """Four chains of additions at once: enough to hide how long one takes."""
    apart()
    other = panel + inputs * PANEL
    a, b = load16(w, bias), load16(w, bias + 16)
    c, d = load16(w, bias + 32), load16(w, bias + 48)
    for k in range(inputs):
        xk, o, q = splat16(x[xo + k]), panel + k * PANEL, other + k * PANEL
        a = load16(w, o) * xk + a
        b = load16(w, o + 16) * xk + b
        c = load16(w, q) * xk + c
        d = load16(w, q + 16) * xk + d
    store(y, yo, a)
    store(y, yo + 16, b)
    store(y, yo + 32, c)
    store(y, yo + 48, d)


@compiled
def _four_rows(
    w: Any, bias: int, panel: int, inputs: int, x: Any, x0: int, x1: int, x2: int, x3: int,
    y: Any, y0: int, to1: int, to2: int, to3: int,
) -> None:  # fmt: skip
    apart()
    y1, y2, y3 = y0 + to1, y0 + to2, y0 + to3
    a0, b0 = load16(w, bias), load16(w, bias + 16)
    a1, b1 = load16(w, bias), load16(w, bias + 16)
    a2, b2 = load16(w, bias), load16(w, bias + 16)
    a3, b3 = load16(w, bias), load16(w, bias + 16)
    for k in range(inputs):
        o = panel + k * PANEL
        u, v = load16(w, o), load16(w, o + 16)
        k0, k1, k2, k3 = splat16(x[x0 + k]), splat16(x[x1 + k]), splat16(x[x2 + k]), splat16(x[x3 + k])
        a0 = u * k0 + a0
        b0 = v * k0 + b0
        a1 = u * k1 + a1
        b1 = v * k1 + b1
        a2 = u * k2 + a2
        b2 = v * k2 + b2
        a3 = u * k3 + a3
        b3 = v * k3 + b3
    store(y, y0, a0)
    store(y, y0 + 16, b0)
    store(y, y1, a1)
    store(y, y1 + 16, b1)
    store(y, y2, a2)
    store(y, y2 + 16, b2)
    store(y, y3, a3)
    store(y, y3 + 16, b3)

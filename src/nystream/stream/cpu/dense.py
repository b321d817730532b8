"""Dense layers, y = W x + b, for one row or many: most of the work of a step.

W [N, K] is packed into panels of 32 outputs, [N / 32, K, 32], so that it is read sequentially, and the outputs of a
panel fit in two vectors. For one row, time goes into reading W; several rows share each load in groups of four.
Every output is summed over k in order, starting from b, so a row gives the same bits alone and in a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.memory import Rows, row
from nystream.stream.cpu.simd import apart, compiled, load16, splat16, store

PANEL = 32


def panels(outputs: int) -> int:
    """Number of panels of a layer with `outputs` outputs."""
    return -(-outputs // PANEL)


def pack(weight: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[bias, panels] of a weight [N, K] as one array; the last panel is padded with zeros."""
    outputs, inputs = weight.shape
    count = panels(outputs)
    padded = np.zeros((count * PANEL, inputs), weight.dtype)
    padded[:outputs] = weight
    padded_bias = np.zeros(count * PANEL, weight.dtype)
    padded_bias[:outputs] = bias
    return np.concatenate([padded_bias, padded.reshape(count, PANEL, inputs).transpose(0, 2, 1).ravel()])


@compiled
def dense(w: Any, layer: Any, x: Rows, y: Rows, rows: int) -> None:
    """The first `rows` rows of y from those of x; w are the weights of the model."""
    apart()
    count, inputs, last = layer.panels, layer.inputs, rows - 1
    bias = w + layer.at
    panel = bias + count * PANEL
    if rows > 1:
        for p in range(count):
            for r in range(0, rows, 4):
                # A group that is not full repeats the last row.
                r1, r2, r3 = min(r + 1, last), min(r + 2, last), min(r + 3, last)
                xs, out = (row(x, r), row(x, r1), row(x, r2), row(x, r3)), Rows(y.first + p * PANEL, y.stride)
                ys = row(out, r), row(out, r1), row(out, r2), row(out, r3)
                _four_rows(bias + p * PANEL, panel + p * inputs * PANEL, inputs, xs, ys)
        return
    p = 0
    while p + 2 <= count:
        _two_panels(bias + p * PANEL, panel + p * inputs * PANEL, inputs, x.first, y.first + p * PANEL)
        p += 2
    if p < count:
        _one_panel(bias + p * PANEL, panel + p * inputs * PANEL, inputs, x.first, y.first + p * PANEL)


@compiled
def _one_panel(bias: Any, panel: Any, inputs: int, x: Any, y: Any) -> None:
    a, b = load16(bias), load16(bias + 16)
    for k in range(inputs):
        xk, wk = splat16(x[k]), panel + k * PANEL
        a = load16(wk) * xk + a
        b = load16(wk + 16) * xk + b
    store(y, a)
    store(y + 16, b)


@compiled
def _two_panels(bias: Any, panel: Any, inputs: int, x: Any, y: Any) -> None:
    """Four chains of additions at a time, enough to hide the latency of one."""
    next_panel = panel + inputs * PANEL
    a, b = load16(bias), load16(bias + 16)
    c, d = load16(bias + 32), load16(bias + 48)
    for k in range(inputs):
        xk, wk, next_wk = splat16(x[k]), panel + k * PANEL, next_panel + k * PANEL
        a = load16(wk) * xk + a
        b = load16(wk + 16) * xk + b
        c = load16(next_wk) * xk + c
        d = load16(next_wk + 16) * xk + d
    store(y, a)
    store(y + 16, b)
    store(y + 32, c)
    store(y + 48, d)


@compiled
def _four_rows(bias: Any, panel: Any, inputs: int, xs: tuple[Any, ...], ys: tuple[Any, ...]) -> None:
    (x0, x1, x2, x3), (y0, y1, y2, y3) = xs, ys
    a0, b0 = load16(bias), load16(bias + 16)
    a1, b1 = load16(bias), load16(bias + 16)
    a2, b2 = load16(bias), load16(bias + 16)
    a3, b3 = load16(bias), load16(bias + 16)
    for k in range(inputs):
        wk = panel + k * PANEL
        u, v = load16(wk), load16(wk + 16)
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

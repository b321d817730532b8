"""Dense layers with weights in int8, whose inputs are rounded to 8 bits, too, each row with its own scale.

The weights of output n are s_n v with integers |v| <= 127, and the inputs of a row are s (u − z) with integers
0 <= u <= 255 and a zero point z. So W x = s_n s (Σ u v − z Σ v), where the sums are of integers, and exact. The sums
Σ v are packed with the weights. A word has the weights of four inputs for one output: many machines have an instruction
that adds their four products.

A zero stays zero, as it is u = z. A row that is not finite gives NaN, as it does in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu import narrow
from nystream.stream.cpu.dense import PANEL
from nystream.stream.cpu.integers import (
    add_products,
    largest,
    load_first,
    load_words,
    negative_product,
    splat_word,
    store_bytes,
    to_floats,
    to_words,
)
from nystream.stream.cpu.memory import Rows, row
from nystream.stream.cpu.narrow import padded
from nystream.stream.cpu.simd import SHIFT, apart, compiled, larger, load16, splat16, store, total

Array = np.ndarray[Any, Any]

LEVELS = 254  # not 255: the zero point is rounded, too, and u must not exceed 255
MAX_WEIGHT = 127
MAX_INPUTS = 2**31 // (255 * MAX_WEIGHT)  # for which no sum can exceed 32 bits
HEADER = 16  # float32 before the bytes of a row: its scale and zero point
CONSTANTS = 3 * PANEL  # float32 before each panel: biases, scales, sums of weights
ZERO, ONE, STEP = np.float32(0), np.float32(1), np.float32(1 / LEVELS)
SMALLEST = np.float32(1e-35)  # scale of a row; smaller numbers are taken as zero, as the inverse would be infinite


def row_size(inputs: int) -> int:
    """Float32 of scratch memory for a row of `inputs` integers, in whole cache lines."""
    return HEADER + -(-inputs // (4 * HEADER)) * HEADER


def pack_int8(weight: Array, bias: Array) -> Array:
    """Per panel: biases, scales, sums of integers, and [K / 4, 32] words."""
    inputs = weight.shape[1]
    if inputs > MAX_INPUTS:
        raise ValueError(
            f"weights='int8' cannot store a layer with {inputs:,} inputs, whose sums may exceed 32 bits; it can up to "
            f"{MAX_INPUTS:,}; use weights='bfloat16'"
        )
    scales = np.abs(weight).max(1, keepdims=True) / MAX_WEIGHT  # [N, 1]
    integers = np.rint(weight / np.where(scales == 0, 1, scales)).astype(np.int8)
    sums = integers.sum(1, dtype=np.int32, keepdims=True).view(np.float32)
    columns = bias[:, None].astype(np.float32), scales.astype(np.float32), sums
    constants = [padded(column)[..., 0] for column in columns]
    groups = padded(integers, 4)
    groups = groups.reshape(len(groups), PANEL, -1, 4).swapaxes(1, 2)  # [panels, K / 4, 32, 4]
    return np.concatenate([*constants, np.ascontiguousarray(groups).view(np.float32).reshape(len(groups), -1)], 1)


@compiled
def quantize(x: Any, width: int, out: Any) -> None:
    """Write the scale, the zero point and the integers u of a row to `out`."""
    zero = splat16(ZERO)
    high, low, zeros = zero, zero, zero  # `low` has the opposites, and `zeros` becomes NaN if x is not finite
    for k in range(0, width, 16):
        v = load_first(x + k, width - k)
        high, low, zeros = larger(v, high), larger(zero - v, low), v * zero + zeros
    depth = largest(low)
    scale = largest(high) * STEP + depth * STEP + total(zeros)
    inverse = ONE / scale if scale > SMALLEST else ZERO
    shift = SHIFT + depth * inverse  # rounds to an integer
    out[0], out[1] = scale, shift - SHIFT
    inverses, shifts, integers = splat16(inverse), splat16(shift), out + HEADER
    for k in range(0, width, 16):
        store_bytes(integers + k // 4, load_first(x + k, width - k), inverses, shifts)


@compiled
def _pair(panel: Any, next_panel: Any, inputs: int, x: Any, y: Any, next_y: Any) -> None:
    scale, zero, u = splat16(x[0]), to_words(splat16(x[1])), x + HEADER
    sums, next_sums, v, next_v = panel + 2 * PANEL, next_panel + 2 * PANEL, panel + CONSTANTS, next_panel + CONSTANTS
    a, b = negative_product(zero, load_words(sums)), negative_product(zero, load_words(sums + 16))
    c, d = negative_product(zero, load_words(next_sums)), negative_product(zero, load_words(next_sums + 16))
    for k in range((inputs + 3) // 4):
        uk, at = splat_word(u + k), k * PANEL
        a = add_products(a, uk, load_words(v + at))
        b = add_products(b, uk, load_words(v + (at + 16)))
        c = add_products(c, uk, load_words(next_v + at))
        d = add_products(d, uk, load_words(next_v + (at + 16)))
    _finish(panel, scale, a, b, y)
    _finish(next_panel, scale, c, d, next_y)


@compiled
def _finish(panel: Any, scale: Any, a: Any, b: Any, y: Any) -> None:
    """y = s s_n · integers + bias."""
    store(y, to_floats(a) * (load16(panel + PANEL) * scale) + load16(panel))
    store(y + 16, to_floats(b) * (load16(panel + (PANEL + 16)) * scale) + load16(panel + 16))


@compiled
def _four(panel: Any, inputs: int, xs: tuple[Any, ...], ys: tuple[Any, ...]) -> None:
    (x0, x1, x2, x3), (y0, y1, y2, y3) = xs, ys
    s, t, v = load_words(panel + 2 * PANEL), load_words(panel + (2 * PANEL + 16)), panel + CONSTANTS
    z0, z1 = to_words(splat16(x0[1])), to_words(splat16(x1[1]))
    z2, z3 = to_words(splat16(x2[1])), to_words(splat16(x3[1]))
    a0, b0 = negative_product(z0, s), negative_product(z0, t)
    a1, b1 = negative_product(z1, s), negative_product(z1, t)
    a2, b2 = negative_product(z2, s), negative_product(z2, t)
    a3, b3 = negative_product(z3, s), negative_product(z3, t)
    for k in range((inputs + 3) // 4):
        at = HEADER + k
        va, vb = load_words(v + k * PANEL), load_words(v + (k * PANEL + 16))
        u0, u1, u2, u3 = splat_word(x0 + at), splat_word(x1 + at), splat_word(x2 + at), splat_word(x3 + at)
        a0 = add_products(a0, u0, va)
        b0 = add_products(b0, u0, vb)
        a1 = add_products(a1, u1, va)
        b1 = add_products(b1, u1, vb)
        a2 = add_products(a2, u2, va)
        b2 = add_products(b2, u2, vb)
        a3 = add_products(a3, u3, va)
        b3 = add_products(b3, u3, vb)
    _finish(panel, splat16(x0[0]), a0, b0, y0)
    _finish(panel, splat16(x1[0]), a1, b1, y1)
    _finish(panel, splat16(x2[0]), a2, b2, y2)
    _finish(panel, splat16(x3[0]), a3, b3, y3)


_product = narrow.product_of(_pair, _four)


@compiled
def dense_int8(w: Any, layer: Any, x: Rows, y: Rows, rows: int, integers: Rows) -> None:
    """`dense` for weights in int8, those of the first panels in bfloat16; `integers` has room for x in 8 bits."""
    apart()
    inputs, fine, panel, size = layer.inputs, layer.fine, w + layer.at, narrow.panel_size(layer.inputs)
    if fine > 0:
        narrow.product(panel, size, fine, inputs, x, y, rows)
    if fine == layer.panels:
        return
    for r in range(rows):
        quantize(row(x, r), inputs, row(integers, r))
    rest, out = panel + fine * size, Rows(y.first + fine * PANEL, y.stride)
    _product(rest, CONSTANTS + (inputs + 3) // 4 * PANEL, layer.panels - fine, inputs, integers, out, rows)

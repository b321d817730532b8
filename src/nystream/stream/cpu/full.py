"""Softmax attention of one query over a ring of keys and values: 2 n d, each read once."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.lanes import dots, softmax
from nystream.stream.cpu.simd import apart, compiled, load8, splat8, store

ZERO = np.float32(0.0)


@compiled
def attend(s: Any, keys: int, values: int, count: int, z: Any, q: int, logit: int, out: int, scale: float,
           heads: int, tile: int, width: int) -> None:  # fmt: skip
    """softmax(scale · q Kᵀ) V over the first `count` tokens of the rings in s; q and what is made of it lie in z.

    The order of a ring's tokens does not matter, and the first `count` are those that it holds. z needs count · T
    numbers at `logit`.
    """
    apart()
    whole = count - count % 4
    dots(s, keys, count, z, q, z, logit, scale, heads, tile, width)
    softmax(z, logit, count, tile)
    for t in range(0, width, 8):
        store(z, out + t, splat8(ZERO))
    for token in range(0, whole, 4):  # four at once share every load of what is summed so far
        v0, at = values + token * width, logit + token * tile
        v1, v2, v3 = v0 + width, v0 + 2 * width, v0 + 3 * width
        for v in range(0, tile, 8):
            a, b = load8(z, at + v), load8(z, at + tile + v)
            c, d = load8(z, at + 2 * tile + v), load8(z, at + 3 * tile + v)
            for t in range(v, width, tile):
                held = load8(s, v0 + t) * a + load8(z, out + t)
                held = load8(s, v1 + t) * b + held
                held = load8(s, v2 + t) * c + held
                store(z, out + t, load8(s, v3 + t) * d + held)
    for token in range(whole, count):
        for v in range(0, tile, 8):
            a = load8(z, logit + token * tile + v)
            for t in range(v, width, tile):
                store(z, out + t, load8(s, values + token * width + t) * a + load8(z, out + t))

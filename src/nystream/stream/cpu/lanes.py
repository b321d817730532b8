"""Between the heads and the lanes that stand for them (see `plan`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.simd import apart, compiled, exp, larger, load8, splat8, store

ZERO, ONE = np.float32(0.0), np.float32(1.0)


@compiled
def spread(x: Any, xo: int, y: Any, yo: int, count: int, heads: int, tile: int) -> None:
    """[count, H] -> [count, T]: a number of each head, in every lane of a tile."""
    apart()
    for i in range(count):
        for lane in range(0, tile, heads):
            for h in range(heads):
                y[yo + i * tile + lane + h] = x[xo + i * heads + h]


@compiled
def fold(z: Any, at: int, heads: int, tile: int) -> None:
    """Sum the lanes of every head over a tile, and put the sum in all of them."""
    for h in range(heads):
        held = ZERO
        for lane in range(h, tile, heads):
            held += z[at + lane]
        for lane in range(h, tile, heads):
            z[at + lane] = held


@compiled
def dots(
    a: Any, at: int, count: int, x: Any, xo: int, z: Any, out: int, scale: float, heads: int, tile: int, width: int
) -> None:
    """scale · aᵢ · x of every head, [count, T], for rows aᵢ of `width` numbers."""
    apart()
    scales, whole = splat8(np.float32(scale)), count - count % 4
    for i in range(0, whole, 4):  # four at once share every load of x, and none waits for another's sum
        r0, o = at + i * width, out + i * tile
        r1, r2, r3 = r0 + width, r0 + 2 * width, r0 + 3 * width
        for v in range(0, tile, 8):
            s0, s1, s2, s3 = splat8(ZERO), splat8(ZERO), splat8(ZERO), splat8(ZERO)
            for t in range(v, width, tile):
                held = load8(x, xo + t)
                s0 = load8(a, r0 + t) * held + s0
                s1 = load8(a, r1 + t) * held + s1
                s2 = load8(a, r2 + t) * held + s2
                s3 = load8(a, r3 + t) * held + s3
            store(z, o + v, s0 * scales)
            store(z, o + tile + v, s1 * scales)
            store(z, o + 2 * tile + v, s2 * scales)
            store(z, o + 3 * tile + v, s3 * scales)
    for i in range(whole, count):
        for v in range(0, tile, 8):
            s0 = splat8(ZERO)
            for t in range(v, width, tile):
                s0 = load8(a, at + i * width + t) * load8(x, xo + t) + s0
            store(z, out + i * tile + v, s0 * scales)
    if tile > heads:
        for i in range(count):
            fold(z, out + i * tile, heads, tile)


@compiled
def softmax(z: Any, at: int, count: int, tile: int) -> None:
    """Over the rows of [count, T], in place, for every lane by itself."""
    apart()
    for v in range(at, at + tile, 8):
        top = load8(z, v)
        for i in range(1, count):
            top = larger(top, load8(z, v + i * tile))
        norm = splat8(ZERO)
        for i in range(count):
            e = exp(load8(z, v + i * tile) - top)
            store(z, v + i * tile, e)
            norm = norm + e
        inverse = splat8(ONE) / norm
        for i in range(count):
            store(z, v + i * tile, load8(z, v + i * tile) * inverse)

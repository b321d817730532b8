"""Dot products and softmax of every head, in lanes (see `plan`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.simd import apart, compiled, exp, lanes, larger, load, splat, store

ZERO, ONE = np.float32(0.0), np.float32(1.0)


@compiled
def spread(x: Any, y: Any, count: int, heads: int, tile: int) -> None:
    """x [count, H] -> y [count, T]: each head's number in every lane of that head."""
    for i in range(count):
        for lane in range(0, tile, heads):
            for h in range(heads):
                y[i * tile + lane + h] = x[i * heads + h]


@compiled
def _fold(tile_sums: Any, heads: int, tile: int) -> None:
    """Replace the lanes of every head by their sum."""
    for h in range(heads):
        total = ZERO
        for lane in range(h, tile, heads):
            total += tile_sums[lane]
        for lane in range(h, tile, heads):
            tile_sums[lane] = total


@compiled
def dots(block: Any, a: Any, count: int, stride: int, x: Any, out: Any) -> None:
    """scale · aᵢ · x of every head, [count, T], for `count` rows aᵢ of `width` numbers that are `stride` apart."""
    apart()
    heads, tile, width = block.heads, block.tile, block.width
    scales, whole = splat(block, block.scale), count - count % 4
    for i in range(0, whole, 4):  # four rows share every load of x, and their sums do not wait for each other
        r0, o = a + i * stride, out + i * tile
        r1, r2, r3 = r0 + stride, r0 + 2 * stride, r0 + 3 * stride
        for v in range(0, tile, lanes(block)):
            s0, s1, s2, s3 = splat(block, ZERO), splat(block, ZERO), splat(block, ZERO), splat(block, ZERO)
            for t in range(v, width, tile):
                xt = load(block, x + t)
                s0 = load(block, r0 + t) * xt + s0
                s1 = load(block, r1 + t) * xt + s1
                s2 = load(block, r2 + t) * xt + s2
                s3 = load(block, r3 + t) * xt + s3
            store(o + v, s0 * scales)
            store(o + (tile + v), s1 * scales)
            store(o + (2 * tile + v), s2 * scales)
            store(o + (3 * tile + v), s3 * scales)
    for i in range(whole, count):
        for v in range(0, tile, lanes(block)):
            s0 = splat(block, ZERO)
            for t in range(v, width, tile):
                s0 = load(block, a + (i * stride + t)) * load(block, x + t) + s0
            store(out + (i * tile + v), s0 * scales)
    if tile > heads:
        for i in range(count):
            _fold(out + i * tile, heads, tile)


@compiled
def softmax(block: Any, z: Any, count: int) -> None:
    """Softmax over the rows of z [count, T], in place, in every lane separately."""
    tile = block.tile
    for v in range(0, tile, lanes(block)):
        column = z + v
        largest = load(block, column)
        for i in range(1, count):
            largest = larger(largest, load(block, column + i * tile))
        total = splat(block, ZERO)
        for i in range(count):
            e = exp(load(block, column + i * tile) - largest)
            store(column + i * tile, e)
            total = total + e
        inverse = splat(block, ONE) / total
        for i in range(count):
            store(column + i * tile, load(block, column + i * tile) * inverse)

"""Softmax attention of one query over a ring of keys and values: 2 n d multiply-adds, every number read once."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.lanes import dots, softmax
from nystream.stream.cpu.memory import floats_at
from nystream.stream.cpu.simd import apart, compiled, lanes, load, splat, store

ZERO = np.float32(0.0)


@compiled
def attend(block: Any, rings: Any, count: int, time: int, q: Any, logit: Any, out: Any) -> None:
    """softmax(scale · q Kᵀ) V over the first `count` slots of the rings, with decay up to `time`.

    A ring that is not full has its tokens in its first slots. `logit` is scratch memory for count · T numbers.
    """
    apart()
    tile, width, whole = block.tile, block.width, count - count % 4
    values = rings + block.values_at
    stride = block.stride
    dots(block, rings + block.keys_at, count, stride, q, logit)
    if block.decays == 1:
        newest = (time - 1) % block.window
        for token in range(count):
            age = splat(block, np.float32((newest - token) % block.window))
            for v in range(0, tile, lanes(block)):
                place = logit + (token * tile + v)
                store(place, load(block, place) - load(block, floats_at(block.decay) + v) * age)
    softmax(block, logit, count)
    for t in range(0, width, lanes(block)):
        store(out + t, splat(block, ZERO))
    for token in range(0, whole, 4):  # four tokens share every load and store of the sum
        v0, weight = values + token * stride, logit + token * tile
        v1, v2, v3 = v0 + stride, v0 + 2 * stride, v0 + 3 * stride
        for v in range(0, tile, lanes(block)):
            a, b = load(block, weight + v), load(block, weight + (tile + v))
            c, d = load(block, weight + (2 * tile + v)), load(block, weight + (3 * tile + v))
            for t in range(v, width, tile):
                total = load(block, v0 + t) * a + load(block, out + t)
                total = load(block, v1 + t) * b + total
                total = load(block, v2 + t) * c + total
                store(out + t, load(block, v3 + t) * d + total)
    for token in range(whole, count):
        for v in range(0, tile, lanes(block)):
            a = load(block, logit + (token * tile + v))
            for t in range(v, width, tile):
                store(out + t, load(block, values + (token * stride + t)) * a + load(block, out + t))

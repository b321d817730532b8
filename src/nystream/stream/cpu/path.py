"""The linear path of a model, for one stream: features from the ring of its last inputs, and their products.

Features are in the order of the ring, oldest segment first and newest token last, so that single tokens are copied in
one or two parts; `columns` is the order of the weights. The sum over a segment is of its own tokens alone, and slots
without a token are zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.config import LinearConfig
from nystream.stream.cpu.memory import ints_at
from nystream.stream.cpu.rows import add, copy
from nystream.stream.cpu.simd import compiled, load16, splat16, total

Array = np.ndarray[Any, Any]

ZERO = np.float32(0.0)


def columns(linear: LinearConfig, input_dim: int) -> Array:
    """[features]: the column of the weights of each feature, in the order of the kernel."""
    width, count = linear.width(input_dim), len(linear.lengths) - 1
    segments = input_dim + np.arange(count * width).reshape(count, width)
    return np.concatenate([segments[::-1].ravel(), np.arange(input_dim)])


def runs(linear: LinearConfig) -> Array:
    """[runs, 2]: length and number of the segments of each run, oldest first."""
    return np.array([(run.length, run.repeats) for run in reversed(linear.runs)], np.int64).reshape(-1, 2)


@compiled
def path(plan: Any, w: Any, state: Any, time: int, x: Any, features: Any, y: Any) -> None:
    """Write the outputs for the scaled token x to y, and x into the ring; `time` tokens came before it."""
    slots, width, ring, at = plan.path_slots, plan.path_width, state + plan.recent_at, 0
    if slots > 0:
        oldest = time % slots
        slot, void, table = oldest, slots - time, ints_at(plan.path_runs)  # `void`: slots from here that have no token
        for i in range(plan.path_run_count):
            length, repeats = table[2 * i], table[2 * i + 1]
            if length == 1:
                tail = min(repeats, slots - slot)  # up to the end of the ring
                copy(ring + slot * width, features + at, tail * width)
                copy(ring, features + (at + tail * width), (repeats - tail) * width)
                slot = slot + repeats if slot + repeats < slots else slot + repeats - slots
            else:
                for segment in range(repeats):
                    mean, tail = features + (at + segment * width), min(length, slots - slot)
                    for k in range(width):
                        mean[k] = ZERO
                    _add_rows(ring + slot * width, tail, width, mean)
                    _add_rows(ring, length - tail, width, mean)
                    slot = slot + length if slot + length < slots else slot + length - slots
                    count = np.float32(max(length - max(void - segment * length, 0), 1))
                    for k in range(width):
                        mean[k] /= count
            void -= length * repeats
            at += repeats * width
        copy(x, ring + oldest * width, width)
    copy(x, features + at, plan.input_dim)
    # The rest of the last cache line has a weight of zero, which does not hide a NaN that another stream left there.
    for k in range(at + plan.input_dim, plan.path_features):
        features[k] = ZERO
    for k in range(plan.output_dim):
        y[k] = _dot(w + (plan.path_at + k * plan.path_features), features, plan.path_features)


@compiled
def _add_rows(x: Any, rows: int, width: int, y: Any) -> None:
    """y += the sum of `rows` adjacent rows; several chains of additions at a time, to hide the latency of one."""
    if width >= 8:
        for i in range(rows):
            add(x + i * width, y, width)
        return
    whole = rows - rows % 4
    for k in range(width):
        a, b, c, d = ZERO, ZERO, ZERO, ZERO
        for i in range(k, whole * width, 4 * width):
            a += x[i]
            b += x[i + width]
            c += x[i + 2 * width]
            d += x[i + 3 * width]
        for i in range(whole, rows):
            a += x[i * width + k]
        y[k] += (a + b) + (c + d)


@compiled
def _dot(x: Any, y: Any, size: int) -> Any:
    """The inner product; `size` is a multiple of 16."""
    a, b, whole = splat16(ZERO), splat16(ZERO), size - size % 32
    for k in range(0, whole, 32):
        a = load16(x + k) * load16(y + k) + a
        b = load16(x + (k + 16)) * load16(y + (k + 16)) + b
    if whole < size:
        a = load16(x + whole) * load16(y + whole) + a
    return total(a + b)

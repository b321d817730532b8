"""Landmarks that are renewed from the stream: every one the mean of q and of k over a segment of it.

A segment that is complete takes the place of the oldest landmark: its row of the rings' logits and of the parts is made
again from the window, n · width each, and Γ† of all of them. In between, a step is that of fixed landmarks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu import sliding
from nystream.stream.cpu.inverse import invert
from nystream.stream.cpu.lanes import dots, softmax
from nystream.stream.cpu.plan import (
    GAMMA_AT,
    HEADS,
    ITERATIONS,
    K_TILDE_AT,
    KEYS_AT,
    LANDMARKS,
    LANES,
    LOGITS_AT,
    PENDING_AT,
    PINV,
    Q_TILDE_AT,
    SCALE_AT,
    WIDTH,
    WINDOW,
)
from nystream.stream.cpu.simd import apart, compiled, load8, splat8, store

ZERO = np.float32(0.0)


@compiled
def collect(s: Any, plan: Any, b: int, time: int, z: Any, q: int, k: int) -> int:
    """Count token number `time` (from 0) towards its landmark; the landmark that it completes, or −1."""
    apart()
    n, m, width = plan[b + WINDOW], plan[b + LANDMARKS], plan[b + WIDTH]
    i, j, size, _ = sliding.locate(time, n, m)  # landmarks have segments of their own, cut in the same way
    pending = plan[b + PENDING_AT]
    done = j == size - 1
    for half in range(2):
        x = q if half == 0 else k
        landmark = (plan[b + Q_TILDE_AT] if half == 0 else plan[b + K_TILDE_AT]) + i * width
        scale = splat8(np.float32(size))
        for v in range(0, width, 8):
            held, at = load8(z, x + v), pending + half * width + v
            if j > 0:
                held = held + load8(s, at)
            if done:
                store(s, landmark + v, held / scale)
                held = splat8(ZERO)
            store(s, at, held)
    return i if done else -1


@compiled
def renew(s: Any, w: Any, plan: Any, b: int, i: int, held: int, newest: int, r: int, z: Any, room: int) -> None:
    """Sum the window, of `held` tokens, for landmark i, which is new."""
    m, heads, tile, width = plan[b + LANDMARKS], plan[b + HEADS], plan[b + LANES], plan[b + WIDTH]
    row = plan[b + Q_TILDE_AT] + i * width
    for token in range(held):
        dots(s, plan[b + KEYS_AT] + token * width, 1, s, row, z, room, w[plan[b + SCALE_AT]], heads, tile, width)
        at = plan[b + LOGITS_AT] + (token * m + i) * tile
        for v in range(0, tile, 8):
            store(s, at + v, load8(z, room + v))
    sliding.rebuild(s, plan, b, newest, r, i, i + 1)


@compiled
def renew_inverse(s: Any, w: Any, plan: Any, b: int, z: Any, room: int, d: Any) -> None:
    """Γ† of the landmarks as they are."""
    m, heads, tile, width = plan[b + LANDMARKS], plan[b + HEADS], plan[b + LANES], plan[b + WIDTH]
    at = plan[b + SCALE_AT]
    for i in range(m):
        row, out = plan[b + Q_TILDE_AT] + i * width, room + i * m * tile
        dots(s, plan[b + K_TILDE_AT], m, s, row, z, out, w[at], heads, tile, width)
        softmax(z, out, m, tile)
    kind, iterations = plan[b + PINV], plan[b + ITERATIONS]
    invert(z, room, s, plan[b + GAMMA_AT], d, m, heads, tile, kind, iterations, w[at + 1])

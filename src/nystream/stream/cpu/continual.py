"""Continual landmarks: means of q and k over the segments of a stream.

When a segment is complete, its landmark replaces the oldest one: its logits and its row of the partials are computed
again from the window, n · width multiply-adds each, and so is Γ†. All other steps are the same as with fixed landmarks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu import sliding
from nystream.stream.cpu.inverse import invert
from nystream.stream.cpu.lanes import dots, softmax
from nystream.stream.cpu.memory import Scratch
from nystream.stream.cpu.simd import compiled, load8, splat8, store
from nystream.stream.cpu.sums import locate

ZERO = np.float32(0.0)


@compiled
def collect(block: Any, s: Any, time: int, q: Any, k: Any) -> int:
    """Add the token after the first `time` ones to its landmark; return the landmark if it is now complete, else −1."""
    width = block.width
    i, j, size = locate(time % block.window, block.window, block.landmarks)  # landmark segments have the same sizes
    done = j == size - 1
    for half in range(2):
        x = q if half == 0 else k
        landmark = s + ((block.q_tilde_at if half == 0 else block.k_tilde_at) + i * width)
        pending = s + (block.pending_at + half * width)
        sizes = splat8(np.float32(size))
        for v in range(0, width, 8):
            total = load8(x + v)
            if j > 0:
                total = total + load8(pending + v)
            if done:
                store(landmark + v, total / sizes)
                total = splat8(ZERO)
            store(pending + v, total)
    return i if done else -1


@compiled
def renew(block: Any, s: Any, rings: Any, i: int, tokens: int, newest: int, scratch: Scratch) -> None:
    """Sum the window, which has `tokens` tokens, for the new landmark i; `newest` is the newest group."""
    m, tile, width = block.landmarks, block.tile, block.width
    q_tilde = s + (block.q_tilde_at + i * width)
    for token in range(tokens):
        dots(block, rings + (block.keys_at + token * block.stride), np.int64(1), block.stride, q_tilde, scratch.floats)
        logit = s + (block.logits_at + (token * m + i) * tile)
        for v in range(0, tile, 8):
            store(logit + v, load8(scratch.floats + v))
    sliding.rebuild(block, s, rings + block.values_at, newest, i, i + 1, scratch.floats)


@compiled
def renew_inverse(block: Any, s: Any, scratch: Scratch) -> None:
    """Compute Γ† of the current landmarks."""
    m, tile, width = block.landmarks, block.tile, block.width
    for i in range(m):
        row = scratch.floats + i * m * tile
        dots(block, s + block.k_tilde_at, m, width, s + (block.q_tilde_at + i * width), row)
        softmax(block, row, m)
    invert(block, scratch.floats, s + block.gamma_pinv_at, scratch.doubles)

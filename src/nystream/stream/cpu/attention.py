"""One step of an attention for one stream: r tokens in, r rows out, and the state s updated in place.

Every row of `source` has the projections of one token: [δ, β, v] (the logits of its key and its query with the
landmarks, [m, H] each, and its value) if fixed landmarks are folded into the projections, else [q, k, v].
"""

from __future__ import annotations

from typing import Any

from nystream.stream.cpu import continual, full, sliding
from nystream.stream.cpu.lanes import dots, spread
from nystream.stream.cpu.memory import Rows, Scratch, row
from nystream.stream.cpu.plan import CONTINUAL, FIXED
from nystream.stream.cpu.rows import copy
from nystream.stream.cpu.simd import compiled, merged


@compiled
def filled(time: int, r: int, n: int) -> int:
    """Number of tokens in a ring of n after r more than `time`: between r and n, even if `time` is invalid."""
    return max(min(time, n - r), 0) + r


@merged
def attention(block: Any, s: Any, time: int, w: Any, source: Rows, target: Rows, scratch: Scratch) -> None:
    """Read the r rows of `source` and write those of `target`; `time` is the number of tokens before them."""
    if block.kind == FIXED:
        _fixed(block, s, time, w, source, target, scratch)
    elif block.kind == CONTINUAL:
        _continual(block, s, time, source, target, scratch)
    else:
        _full(block, s, time, source, target, scratch)


@compiled
def _fixed(block: Any, s: Any, time: int, w: Any, source: Rows, target: Rows, scratch: Scratch) -> None:
    n, r, m, heads, tile = block.window, block.update_size, block.landmarks, block.heads, block.tile
    width, folded, group = block.width, block.folded == 1, time // r
    for i in range(r):
        qkv, slot = row(source, i), (time + i) % n
        logit = s + (block.logits_at + slot * m * tile)
        if folded:
            spread(qkv, logit, m, heads, tile)
            value = qkv + 2 * m * heads
        else:
            dots(block, w + block.q_tilde_at, m, qkv + width, logit)
            value = qkv + 2 * width
        copy(value, s + (block.values_at + slot * width), width)
    sliding.push(block, s, group)
    window, ages = sliding.parts(block, s, group), sliding.ages(block, group)
    for i in range(r):
        qkv, beta = row(source, i), scratch.floats
        if folded:
            spread(qkv + m * heads, beta, m, heads, tile)
        else:
            dots(block, w + block.k_tilde_at, m, qkv, beta)
        sliding.read(block, window, ages, w + block.gamma_pinv_at, beta, row(target, i))
    if block.part_size > sliding.PREFETCH_SIZE:
        sliding.prefetch_push(block, s, group + 1, True)


@compiled
def _continual(block: Any, s: Any, time: int, source: Rows, target: Rows, scratch: Scratch) -> None:
    n, r, m, tile, width = block.window, block.update_size, block.landmarks, block.tile, block.width
    tokens, group = filled(time, r, n), time // r
    newest, renewed = 0, 0
    for i in range(r):
        qkv = row(source, i)
        copy(qkv + width, s + (block.keys_at + (time + i) % n * width), width)
        done = continual.collect(block, s, time + i, qkv, qkv + width)
        if done >= 0:
            newest, renewed = done, renewed + 1
    for i in range(r):
        qkv, slot = row(source, i), (time + i) % n
        dots(block, s + block.q_tilde_at, m, qkv + width, s + (block.logits_at + slot * m * tile))
        copy(qkv + 2 * width, s + (block.values_at + slot * width), width)
    sliding.push(block, s, group)
    for back in range(renewed):
        continual.renew(block, s, (newest + m - back) % m, tokens, group, scratch)
    if renewed and tokens == n:  # until then nothing reads it
        continual.renew_inverse(block, s, scratch)
    window, ages = sliding.parts(block, s, group), sliding.ages(block, group)
    for i in range(r):
        qkv, out = row(source, i), row(target, i)
        if tokens < n:  # there are no landmarks yet
            full.attend(block, s, tokens, time + r, qkv, scratch.floats, out)
        else:
            dots(block, s + block.k_tilde_at, m, qkv, scratch.floats)
            sliding.read(block, window, ages, s + block.gamma_pinv_at, scratch.floats, out)


@compiled
def _full(block: Any, s: Any, time: int, source: Rows, target: Rows, scratch: Scratch) -> None:
    n, r, width = block.window, block.update_size, block.width
    for i in range(r):
        qkv, slot = row(source, i), (time + i) % n
        copy(qkv + width, s + (block.keys_at + slot * width), width)
        copy(qkv + 2 * width, s + (block.values_at + slot * width), width)
    for i in range(r):
        qkv, out = row(source, i), row(target, i)
        full.attend(block, s, filled(time, r, n), time + r, qkv, scratch.floats, out)

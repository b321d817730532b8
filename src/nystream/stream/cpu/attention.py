"""One attention's step for one stream: r tokens in, r rows out, the state written in place.

z holds, for every token, what the projections made of it: [δ, β, v] (the logits of the landmarks with its key and its
query, [m, H] each, and its value) where landmarks are fixed and folded into the projections; [q, k, v] elsewhere.
"""

from __future__ import annotations

from typing import Any

from nystream.stream.cpu import continual, full, sliding
from nystream.stream.cpu.lanes import dots, spread
from nystream.stream.cpu.plan import (
    CONTINUAL,
    FIXED,
    FOLDED,
    GAMMA_AT,
    HEADS,
    K_TILDE_AT,
    KEYS_AT,
    KIND,
    LANDMARKS,
    LANES,
    LOGITS_AT,
    PART,
    Q_TILDE_AT,
    SCALE_AT,
    VALUES_AT,
    WIDTH,
    WINDOW,
)
from nystream.stream.cpu.rows import copy
from nystream.stream.cpu.simd import compiled, merged


@compiled
def filled(time: int, r: int, n: int) -> int:
    """How many tokens a ring of n holds after the r that follow `time`: from r to n, also for a time that is wrong."""
    return max(min(time, n - r), 0) + r


@merged
def attention(s: Any, w: Any, plan: Any, b: int, time: int, r: int, z: Any, q: int, stride: int, out: int,
              room: int, d: Any) -> None:  # fmt: skip
    """Rows at z[q + i · stride] in, rows at z[out + i · stride] out; `time` is the count of tokens before them."""
    if plan[b + KIND] == FIXED:
        _fixed(s, w, plan, b, time, r, z, q, stride, out, room)
    elif plan[b + KIND] == CONTINUAL:
        _continual(s, w, plan, b, time, r, z, q, stride, out, room, d)
    else:
        _full(s, w, plan, b, time, r, z, q, stride, out, room)


@compiled
def _fixed(s: Any, w: Any, plan: Any, b: int, time: int, r: int, z: Any, q: int, stride: int, out: int,
           room: int) -> None:  # fmt: skip
    n, m, heads, tile, width = plan[b + WINDOW], plan[b + LANDMARKS], plan[b + HEADS], plan[b + LANES], plan[b + WIDTH]
    folded, scale = plan[b + FOLDED] == 1, w[plan[b + SCALE_AT]]
    for i in range(r):
        row, slot = q + i * stride, (time + i) % n
        logit = plan[b + LOGITS_AT] + slot * m * tile
        if folded:
            spread(z, row, s, logit, m, heads, tile)
            value = row + 2 * m * heads
        else:
            dots(w, plan[b + Q_TILDE_AT], m, z, row + width, s, logit, scale, heads, tile, width)
            value = row + 2 * width
        copy(z, value, s, plan[b + VALUES_AT] + slot * width, width)
    sliding.push(s, plan, b, time // r, r)
    back, front, last = sliding.parts(plan, b, time // r, r)
    for i in range(r):
        row = q + i * stride
        if folded:
            spread(z, row + m * heads, z, room, m, heads, tile)
        else:
            dots(w, plan[b + K_TILDE_AT], m, z, row, z, room, scale, heads, tile, width)
        sliding.read(s, back, front, last, m, tile, width, w, plan[b + GAMMA_AT], z, room, out + i * stride)
    if plan[b + PART] > sliding.LARGE:
        sliding.prefetch_push(s, plan, b, time // r + 1, r, True)


@compiled
def _continual(s: Any, w: Any, plan: Any, b: int, time: int, r: int, z: Any, q: int, stride: int, out: int,
               room: int, d: Any) -> None:  # fmt: skip
    n, m, heads, tile, width = plan[b + WINDOW], plan[b + LANDMARKS], plan[b + HEADS], plan[b + LANES], plan[b + WIDTH]
    scale, held = w[plan[b + SCALE_AT]], filled(time, r, n)
    newest, renewed = 0, 0
    for i in range(r):
        row = q + i * stride
        copy(z, row + width, s, plan[b + KEYS_AT] + (time + i) % n * width, width)
        done = continual.collect(s, plan, b, time + i, z, row, row + width)
        if done >= 0:
            newest, renewed = done, renewed + 1
    for i in range(r):
        row, slot = q + i * stride, (time + i) % n
        logit = plan[b + LOGITS_AT] + slot * m * tile
        dots(s, plan[b + Q_TILDE_AT], m, z, row + width, s, logit, scale, heads, tile, width)
        copy(z, row + 2 * width, s, plan[b + VALUES_AT] + slot * width, width)
    sliding.push(s, plan, b, time // r, r)
    for back in range(renewed):
        continual.renew(s, w, plan, b, (newest + m - back) % m, held, time // r, r, z, room)
    if renewed and held == n:  # before that nothing reads it
        continual.renew_inverse(s, w, plan, b, z, room, d)
    back, front, last = sliding.parts(plan, b, time // r, r)
    for i in range(r):
        row = q + i * stride
        if held < n:  # no landmarks yet
            full.attend(s, plan[b + KEYS_AT], plan[b + VALUES_AT], held, z, row, room, out + i * stride, scale,
                        heads, tile, width)  # fmt: skip
        else:
            dots(s, plan[b + K_TILDE_AT], m, z, row, z, room, scale, heads, tile, width)
            sliding.read(s, back, front, last, m, tile, width, s, plan[b + GAMMA_AT], z, room, out + i * stride)


@compiled
def _full(s: Any, w: Any, plan: Any, b: int, time: int, r: int, z: Any, q: int, stride: int, out: int,
          room: int) -> None:  # fmt: skip
    n, heads, tile, width = plan[b + WINDOW], plan[b + HEADS], plan[b + LANES], plan[b + WIDTH]
    for i in range(r):
        row, slot = q + i * stride, (time + i) % n
        copy(z, row + width, s, plan[b + KEYS_AT] + slot * width, width)
        copy(z, row + 2 * width, s, plan[b + VALUES_AT] + slot * width, width)
    for i in range(r):
        full.attend(s, plan[b + KEYS_AT], plan[b + VALUES_AT], filled(time, r, n), z, q + i * stride, room,
                    out + i * stride, w[plan[b + SCALE_AT]], heads, tile, width)  # fmt: skip

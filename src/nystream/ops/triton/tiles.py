"""Shared by the kernels: the tokens of a tile, its runs, and what is added to its logits.

Kernels compute in powers of two, so logits and decay are multiplied by log₂ e first. A tile that reaches past the
last query or key reads that one again, and does not store it: no value has to stand for "nothing".
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
FLOOR = tl.constexpr(-1e30)  # as in `ops.partials`


@triton.jit
def tokens(x, b, place, h, length, H, D: tl.constexpr):
    """Pointers to tokens of x [B, length, H, D] at places [P]; to the last one for places past the end."""
    first = x + (b * length * H + h) * D
    return first + tl.minimum(place, length - 1).to(tl.int64) * (H * D)


@triton.jit
def extended(ring, x, b, place, h, N, T, H, D: tl.constexpr):
    """Pointers to tokens at places [P] of the extended axis: ring [B, N, H, D], oldest first, then x [B, T, H, D]."""
    place = tl.minimum(place, N + T - 1)
    first = tl.where(place < N, ring + (b * N * H + h) * D, x + ((b * T - N) * H + h) * D)
    return first + place.to(tl.int64) * (H * D)


@triton.jit
def read(pointers, D: tl.constexpr, DP: tl.constexpr):
    """The tokens that pointers [P] point to, with zeros where D < DP: [P, DP]."""
    column = tl.arange(0, DP)
    if D == DP:
        return tl.load(pointers[:, None] + column[None, :])
    return tl.load(pointers[:, None] + column[None, :], mask=(column < D)[None, :], other=0.0)


@triton.jit
def write(pointers, values, exists, D: tl.constexpr, DP: tl.constexpr):
    """Store values [P, DP] where tokens exist."""
    column = tl.arange(0, DP)
    tl.store(pointers[:, None] + column[None, :], values, mask=exists[:, None] & (column < D)[None, :])


@triton.jit
def products(
    x,
    y,
    D: tl.constexpr,
    DP: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """x_p y_qᵀ of the tokens that pointers [P] and [Q] point to: [P, Q]. PART columns at a time saves registers."""
    column = tl.arange(0, PART)
    out = tl.zeros([P, Q], tl.float32)
    for at in range(0, DP, PART):
        mask = (column + at < D)[None, :]
        x_part = tl.load(x[:, None] + (column + at)[None, :], mask=mask, other=0.0)
        y_part = tl.load(y[:, None] + (column + at)[None, :], mask=mask, other=0.0)
        if x_part.dtype != y_part.dtype:
            x_part, y_part = x_part.to(tl.float32), y_part.to(tl.float32)
        out = tl.dot(x_part, tl.trans(y_part), out, input_precision=PRECISION)
    return out


@triton.jit
def split(first, last):
    """Cut the places of a tile's runs [first, last] into those before, inside and after what all runs share.

    Returns the four bounds. Without a shared place, all places come before.
    """
    begin, end = tl.min(first, 0), tl.max(last, 0) + 1
    shared, rest = tl.max(first, 0), tl.min(last, 0) + 1
    some = shared < rest
    return begin, tl.where(some, shared, end), tl.where(some, rest, end), end


@triton.jit
def edge_tiles(begin, shared, rest, end, BLOCK: tl.constexpr):
    """The number of tiles before what all runs share, and with those after it."""
    before = tl.cdiv(shared - begin, BLOCK)
    return before, before + tl.cdiv(end - rest, BLOCK)


@triton.jit
def edge_tile(number, before, begin, shared, rest, end, BLOCK: tl.constexpr):
    """Where an edge tile starts, and the place at which it ends at the latest."""
    start = tl.where(number < before, begin + number * BLOCK, rest + (number - before) * BLOCK)
    return start, tl.where(number < before, shared, end)


@triton.jit
def biases(seen, age, rate, DECAY: tl.constexpr):
    """What is added to the logits of a tile: the decay, and −inf where a query does not see a key."""
    if DECAY:
        return tl.where(seen, -rate * age, float("-inf"))
    return tl.where(seen, 0.0, float("-inf"))


@triton.jit
def position(length, H, BLOCK: tl.constexpr):
    """The tile, batch row and head of this program; the tiles of a row are neighbours."""
    tiles = tl.cdiv(length, BLOCK)
    row = tl.program_id(0) // tiles
    return tl.program_id(0) % tiles, row // H, row % H

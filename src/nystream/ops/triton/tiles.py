"""Shared by the kernels: rows of a tile, runs of a tile, and what is added to its logits.

Kernels compute in powers of two, so logits and decay are multiplied by log₂ e first. A tile that reaches past the
last query or key reads that one again, and does not store it: no value has to stand for "nothing".
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
FLOOR = tl.constexpr(-1e30)  # as in `ops.partials`


@triton.jit
def rows(x, b, place, h, length, H, D: tl.constexpr, DP: tl.constexpr):
    """Pointers to x [B, length, H, D] at places [P] of one row and head: [P, DP]."""
    token = (b * length + place) * H + h
    return x + token[:, None] * D + tl.arange(0, DP)[None, :]


@triton.jit
def inside(place, length, D: tl.constexpr, DP: tl.constexpr):
    """[P, DP]: which numbers of a tile exist."""
    return (place < length)[:, None] & (tl.arange(0, DP) < D)[None, :]


@triton.jit
def read(x, b, place, h, length, H, D: tl.constexpr, DP: tl.constexpr):
    """x [B, length, H, D] at places [P], with zeros where D < DP. Places past the end read the last token."""
    place = tl.minimum(place, length - 1)
    pointers = rows(x, b, place, h, length, H, D, DP)
    if D == DP:
        return tl.load(pointers)
    return tl.load(pointers, mask=(tl.arange(0, DP) < D)[None, :], other=0.0)


@triton.jit
def products(
    x,
    x_place,
    x_length,
    y,
    y_place,
    y_length,
    b,
    h,
    H,
    D: tl.constexpr,
    DP: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """x_p y_qᵀ of tokens of x and y at places [P] and [Q]: [P, Q]. PART columns at a time, which saves registers."""
    column = tl.arange(0, PART)
    x_row = x + ((b * x_length + tl.minimum(x_place, x_length - 1)) * H + h)[:, None] * D + column[None, :]
    y_row = y + ((b * y_length + tl.minimum(y_place, y_length - 1)) * H + h)[:, None] * D + column[None, :]
    out = tl.zeros([P, Q], tl.float32)
    for at in range(0, DP, PART):
        mask = (column + at < D)[None, :]
        x_part, y_part = tl.load(x_row + at, mask=mask, other=0.0), tl.load(y_row + at, mask=mask, other=0.0)
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

"""Shared by the kernels: rows of a tile, runs of a tile, and what is added to its logits.

Kernels compute in powers of two, so logits are multiplied by log₂ e where they are read. A tile that reaches past the
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
    return tl.load(pointers, mask=inside(place, length, D, DP), other=0.0)


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

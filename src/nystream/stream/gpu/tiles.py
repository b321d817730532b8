"""The sizes of what one program of a kernel works on.

A program takes P pairs of a stream and a head, and for all their landmarks some columns of the values: a tile
[m, P, columns] of means, which lie in memory as [m, h, D]. Reduced dimensions come first, and the last two cover the
lanes of a warp with four columns each, so sums over landmarks and tokens stay within a lane, and lanes that are next to
each other read what is next to each other in memory. Narrow heads share a warp; a wide head has one, or several, for
different columns. All sizes are rounded up to powers of two, as Triton needs; masks leave out the rest.
"""

from __future__ import annotations

from typing import NamedTuple

from nystream.config import AttentionConfig
from nystream.stream.gpu.blocks import Blocks, power_of_two

WARP_COLUMNS = 128  # 32 lanes of 4
ELEMENTS = 2048  # of a tile that one warp can keep in its registers
MAX_WARPS = 8


class Tile(NamedTuple):
    """Pairs, columns, and padded sizes of a program, and its number of warps."""

    pairs: int
    columns: int
    pieces: int  # programs for the columns of one head
    landmarks: int
    tokens: int  # that are read at a time
    warps: int


def width(landmarks: int, elements: int = ELEMENTS) -> int:
    """Columns of all pairs of a program together."""
    return max(32, min(WARP_COLUMNS, elements // power_of_two(landmarks)))


def max_edges(landmarks: int) -> int:
    """The largest number of edges whose values fit into the registers of a warp."""
    return ELEMENTS // width(landmarks)


def warps(elements: int) -> int:
    """Number of warps for a tile."""
    return max(1, min(MAX_WARPS, power_of_two(elements) // ELEMENTS))


def step_tile(cfg: AttentionConfig, cut: Blocks) -> Tile:
    """The tile of a step, which has the values of all edges beside the middle."""
    return _tile(cfg, width(cfg.m), power_of_two(cut.edges))


def sums_tile(cfg: AttentionConfig, value_bytes: int) -> Tile:
    """The tile of sums over the ring: half as large, because they wait for one chunk of tokens after another, so more
    of them must run at a time.

    One wide head with many landmarks sums a chunk in tensor cores, which need at least 16 tokens and landmarks.
    Otherwise, a lane has the weights of all tokens of a chunk in registers, and their values, of `value_bytes` each.
    """
    whole = width(cfg.m, ELEMENTS // 2)
    if cfg.head_dim > whole // 2 and cfg.m > 8:
        return _tile(cfg, whole, 16)
    return _tile(cfg, whole, 8 if cfg.m <= 8 and value_bytes == 2 else 4)


def _tile(cfg: AttentionConfig, whole: int, tokens: int) -> Tile:
    landmarks = power_of_two(cfg.m)
    columns = min(power_of_two(cfg.head_dim), whole)
    pairs = whole // columns
    largest = max(landmarks * whole, tokens * whole, (tokens + landmarks) * landmarks * pairs)
    return Tile(pairs, columns, -(-cfg.head_dim // columns), landmarks, tokens, warps(largest))

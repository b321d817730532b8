"""The sizes of what one program of a kernel works on.

A program takes P pairs of a stream and a head, and of all their landmarks S strips of C columns: a tile [P, m, S, C] of
means. There are two kinds:

- **A lane per pair**, for up to 8 landmarks. A lane has C = 4 columns of a strip, 16 bytes, and as many strips as fit
  into its registers; other programs take the other strips. No sum crosses lanes.
- **A warp per pair**, for more landmarks. The sums over a block of the ring are matrix products in tensor cores.

The state is stored accordingly (`nystream.stream.gpu.layout`). Sizes with a `_` are rounded up to powers of two, as
Triton needs; masks leave out the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from nystream.config import AttentionConfig
from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.layout import Layout

LANES = 32
LANE_COLUMNS = 4  # of float32, 16 bytes: what a lane can read at once
LANE_STRIPS = 4
MEANS = 64  # that a lane can keep in its registers
ELEMENTS = LANES * MEANS  # of a tile that one warp can keep in its registers
MAX_WARPS = 8
MIN_PRODUCT = 16  # the smallest side of a matrix product in tensor cores
PRODUCT_COLUMNS = 64  # of one product: with more, a chunk of values takes too many registers


class Limits(NamedTuple):
    """What was chosen on an H200, by the kind of tile and the dtype of the ring; benchmarks/gpu.py times the steps."""

    chunk: int  # tokens that are summed at a time
    registers: int  # the most of a lane: enough programs must run at a time to wait for memory
    renewers: int  # programs of a multiprocessor for streams that enter a block


LIMITS = {
    (True, torch.bfloat16): Limits(2, 128, 24),
    (True, torch.float32): Limits(4, 168, 24),
    (False, torch.bfloat16): Limits(32, 128, 8),
    (False, torch.float32): Limits(16, 168, 8),
}


class Tile(NamedTuple):
    """Pairs and strips of a program, and its other sizes."""

    pairs: int
    strips: int
    landmarks: int  # padded
    renewed: int  # strips that are renewed at a time
    logit: Layout
    value: Layout
    limits: Limits

    @property
    def padded_columns(self) -> int:
        columns = power_of_two(self.value.columns)
        return columns if self.pairs > 1 else max(MIN_PRODUCT, columns)

    @property
    def elements(self) -> int:
        """Values of one token, or of the mean of one landmark."""
        return self.pairs * self.strips * self.padded_columns


def tile(cfg: AttentionConfig, ring_dtype: torch.dtype) -> Tile:
    """The tile of an attention."""
    m, dim, landmarks = cfg.m, cfg.head_dim, power_of_two(cfg.m)
    limits = LIMITS[landmarks < MIN_PRODUCT, ring_dtype]
    if landmarks < MIN_PRODUCT:
        logit, value = (Layout(size, min(LANE_COLUMNS, power_of_two(size))) for size in (m, dim))
        strips = min(power_of_two(value.strips), LANE_STRIPS, MEANS // (landmarks * value.columns))
        return Tile(LANES, strips, landmarks, strips, logit, value, limits)
    width = LANES * max(1, min(LANE_COLUMNS, MEANS // landmarks))  # of all strips of a program
    columns = -(-dim // -(-dim // min(width, PRODUCT_COLUMNS)))  # as even as possible
    value = Layout(dim, min(dim, -(-columns // LANE_COLUMNS) * LANE_COLUMNS), 1)
    strips = min(power_of_two(value.strips), max(1, width // PRODUCT_COLUMNS))
    return Tile(1, strips, landmarks, 1, Layout(m, m, 1), value, limits)


def max_edges(tile: Tile) -> int:
    """The largest number of edges whose values fit into registers beside the middle."""
    return max(1, ELEMENTS // tile.elements)


def warps(elements: int) -> int:
    """Number of warps for a tile."""
    return max(1, min(MAX_WARPS, power_of_two(elements) // ELEMENTS))

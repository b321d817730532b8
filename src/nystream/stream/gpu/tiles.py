"""The sizes of what one program of a kernel works on, and how a state lies in memory.

A program takes P pairs of a stream and a head, and of all their landmarks S strips of C columns: a tile [P, m, S, C] of
means. There are two kinds:

- **A lane per pair**, for up to 8 landmarks. A lane has C = 4 columns of a strip, 16 bytes, and as many strips as fit
  into its registers; other programs take the other strips. No sum crosses lanes.
- **A warp per pair**, for more landmarks. The sums over a block of the ring are matrix products in tensor cores.

What a stream keeps per token, logits and values, is stored in strips, [strips, h, C]: lanes that are next to each other
read what is next to each other. Sizes with a `_` are rounded up to powers of two, as Triton needs; masks leave out the
rest.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import pad

from nystream.config import AttentionConfig
from nystream.stream.gpu.blocks import power_of_two

LANES = 32
LANE_COLUMNS = 4  # of float32, 16 bytes: what a lane can read at once
LANE_STRIPS = 4
MEANS = 64  # that a lane can keep in its registers
ELEMENTS = LANES * MEANS  # of a tile that one warp can keep in its registers
MAX_WARPS = 8
MIN_PRODUCT = 16  # the smallest side of a matrix product in tensor cores
PRODUCT_COLUMNS = 64  # of one product: with more, a chunk of values takes too many registers
CHUNK = 4  # tokens that are summed at a time without products
LANE_REGISTERS, WARP_REGISTERS = 200, 168  # the most of a lane, of both kinds: 10 or 12 warps share a processor


class Strips(NamedTuple):
    """How numbers [..., h, size] are stored: as [..., strips, h, columns]."""

    size: int
    columns: int

    @property
    def strips(self) -> int:
        """Strips of a head."""
        return -(-self.size // self.columns)

    def of(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """x as it is stored; `fill` completes the last strip."""
        padded = pad(x, (0, self.strips * self.columns - self.size), value=fill)
        return padded.unflatten(-1, (self.strips, self.columns)).transpose(-3, -2).contiguous()

    def plain(self, stored: Tensor) -> Tensor:
        """The numbers in the usual order."""
        return stored.transpose(-3, -2).flatten(-2)[..., : self.size].contiguous()


class Tile(NamedTuple):
    """Pairs and strips of a program, and its other sizes."""

    pairs: int
    strips: int
    landmarks: int  # padded
    renewed: int  # strips that are renewed at a time
    chunk: int  # tokens that are summed at a time
    logit: Strips
    value: Strips

    @property
    def registers(self) -> int:
        """The most that a lane may use, so that enough programs run at a time to wait for memory."""
        return LANE_REGISTERS if self.pairs > 1 else WARP_REGISTERS

    @property
    def padded_columns(self) -> int:
        columns = power_of_two(self.value.columns)
        return columns if self.pairs > 1 else max(MIN_PRODUCT, columns)

    @property
    def elements(self) -> int:
        """Values of one token, or of the mean of one landmark."""
        return self.pairs * self.strips * self.padded_columns


def tile(cfg: AttentionConfig) -> Tile:
    """The tile of an attention."""
    m, dim, landmarks = cfg.m, cfg.head_dim, power_of_two(cfg.m)
    if landmarks < MIN_PRODUCT:
        logit, value = (Strips(size, min(LANE_COLUMNS, power_of_two(size))) for size in (m, dim))
        strips = min(power_of_two(value.strips), LANE_STRIPS, MEANS // (landmarks * value.columns))
        return Tile(LANES, strips, landmarks, strips, CHUNK, logit, value)
    width = LANES * max(1, min(LANE_COLUMNS, MEANS // landmarks))  # of all strips of a program
    columns = -(-dim // -(-dim // min(width, PRODUCT_COLUMNS)))  # as even as possible
    value = Strips(dim, min(dim, -(-columns // LANE_COLUMNS) * LANE_COLUMNS))
    strips = min(power_of_two(value.strips), max(1, width // PRODUCT_COLUMNS))
    return Tile(1, strips, landmarks, 1, MIN_PRODUCT, Strips(m, m), value)


def max_edges(tile: Tile) -> int:
    """The largest number of edges whose values fit into registers beside the middle."""
    return max(1, ELEMENTS // tile.elements)


def warps(elements: int) -> int:
    """Number of warps for a tile."""
    return max(1, min(MAX_WARPS, power_of_two(elements) // ELEMENTS))

"""How rows of numbers [rows, h, size], such as the values of a ring, are stored.

A row is cut into strips of C columns. Where every pair of a stream and a head has a lane, adjacent lanes read adjacent
numbers, so heads are adjacent within a strip: [rows, strips, h, C]. Where a pair has a warp, what it reads at once is
in one place: [blocks, h, block, strips C], with `block` rows, such as the edges of a window or the means of a partial.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import pad


class Layout(NamedTuple):
    """The layout of rows; `block` is 0 where pairs have a lane."""

    size: int
    columns: int
    block: int = 0

    @property
    def strips(self) -> int:
        """Strips of a row of a head."""
        return -(-self.size // self.columns)

    @property
    def width(self) -> int:
        """Numbers that a row of a head takes."""
        return self.strips * self.columns

    def blocked(self, block: int) -> Layout:
        """The layout with blocks of this many rows, where it has blocks."""
        return self._replace(block=block) if self.block else self

    def store(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """x [..., rows, h, size] as it is stored; `fill` completes the last strip and the last block."""
        rows = -x.shape[-3] % (self.block or 1)
        x = pad(x, (0, self.width - self.size, 0, 0, 0, rows), value=fill)
        if self.block:
            return x.unflatten(-3, (-1, self.block)).transpose(-3, -2).contiguous()
        return x.unflatten(-1, (self.strips, self.columns)).transpose(-3, -2).contiguous()

    def plain(self, stored: Tensor, rows: int) -> Tensor:
        """The rows [..., rows, h, size] that are stored."""
        x = stored.transpose(-3, -2)
        x = x.flatten(-4, -3) if self.block else x.flatten(-2)
        return x[..., :rows, :, : self.size].contiguous()

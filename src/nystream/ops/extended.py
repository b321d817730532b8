"""Keys, values or logits on the extended axis: the n tokens of a ring, oldest first, then the T tokens of a piece.

Most code reads them as one tensor. The fused kernels read the ring and the piece where they are, which saves copies.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nystream.ops import ring


class Extended:
    """ring [B, n, H, D] at `time` [B], or oldest token first if that is None, and piece [B, T, H, D]."""

    def __init__(self, ring: Tensor, piece: Tensor, time: Tensor | None = None, whole: Tensor | None = None) -> None:
        self.ring, self.piece, self.time, self._whole = ring, piece, time, whole

    def before(self) -> Tensor:
        """[B, n, H, D]: the ring, oldest token first."""
        if self.time is not None:
            self.ring, self.time = ring.unroll(self.ring, self.time), None
        return self.ring

    def whole(self) -> Tensor:
        """[B, n + T, H, D]: both parts, joined once."""
        if self._whole is None:
            n = self.ring.shape[1]
            self._whole = torch.cat([self.before(), self.piece], 1)
            self.ring, self.piece = self._whole[:, :n], self._whole[:, n:]  # so that the parts can be freed
        return self._whole

    def finite(self) -> Tensor:
        """[B, n + T, H]: whether all numbers of a token are finite."""
        # The smallest and the largest number are NaN if any is. `isfinite` makes copies of all tokens.
        parts = (x.detach() for x in (self.before(), self.piece))
        return torch.cat([(x.amin(-1) > -torch.inf) & (x.amax(-1) < torch.inf) for x in parts], 1)

    def finite_or_void(self) -> Tensor:
        """[B, n + T, H]: whether all logits of a token are finite, or −inf, which marks a void token."""
        return torch.cat([x.detach().amax(-1) < torch.inf for x in (self.before(), self.piece)], 1)

    def without(self, bad: Tensor, void: float = 0.0) -> Extended:
        """`void` in place of the tokens that `bad` [B, n + T, H] marks."""
        sizes = [self.ring.shape[1], self.piece.shape[1]]
        parts = zip((self.before(), self.piece), bad.split(sizes, 1), strict=True)
        return Extended(*(x.masked_fill(hidden[..., None], void) for x, hidden in parts))


def of_ring(state_ring: Tensor, time: Tensor, x: Tensor) -> Extended:
    """The ring of a state at `time`, and the piece x [B, H, T, D] that follows."""
    return Extended(state_ring, x.transpose(1, 2).to(state_ring.dtype), time)


def of_whole(x: Tensor, n: int) -> Extended:
    """The parts of x [B, n + T, H, D]."""
    return Extended(x[:, :n], x[:, n:], whole=x)

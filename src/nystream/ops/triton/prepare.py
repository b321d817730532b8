"""What the kernels of attention read: rings in the order of time, logits to base two, and whether all is finite.

Numbers that are not finite are noted in `bad`, a tensor of one number that is zero at first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nystream.ops.triton import input_kernels as kernels
from nystream.ops.triton import launch

LONGEST = 4096  # numbers that a program reads at once


def tokens(ring: Tensor, piece: Tensor, time: Tensor | None, bad: Tensor) -> tuple[Tensor, Tensor]:
    """A ring [B, n, H, D], oldest token first, and a piece [B, T, H, D], both contiguous.

    The ring is at `time` [B], or in this order already if that is None.
    """
    ring, piece, time = ring.contiguous(), piece.contiguous(), _dense(time)
    (B, n, H, D), size = ring.shape, piece.numel()
    block = min(LONGEST, launch.padded(H * D))
    before = ring if time is None else torch.empty_like(ring)
    with launch.on(piece):
        kernels.unroll[B * n + -(-size // LONGEST),](
            ring, piece, before, time, bad, n, B * n, size, W=H * D, BLOCK=block, PIECE=LONGEST
        )
    return before, piece


def logarithms(ring: Tensor, piece: Tensor, time: Tensor | None, bad: Tensor) -> Tensor:
    """Logits [B, n, H, m] of a ring and [B, T, H, m] of a piece as logarithms to base two, [H, m, B, n + T].

    Once for all kernels, because rounding that differs between them would not cancel in gradients. Weights depend on
    differences of logits only, so what the logits of a landmark have in common is subtracted first: large numbers would
    lose digits. That is the median of a sample, which a few tokens that stand out cannot move.
    """
    ring, piece, time = ring.contiguous(), piece.permute(2, 3, 0, 1).contiguous(), _dense(time)
    (_, n, _, _), (H, m, B, T) = ring.shape, piece.shape
    out = piece.new_empty(H, m, B, n + T)
    with launch.on(piece):
        kernels.to_base_two[H * m * B,](
            ring, piece, out, time, bad, n, T, H, B, M=m, BLOCK=min(LONGEST, launch.padded(max(n, T))), num_warps=8
        )
    return out


def _dense(time: Tensor | None) -> Tensor | None:
    """Kernels read the times of rows one after the other."""
    return None if time is None else time.contiguous()

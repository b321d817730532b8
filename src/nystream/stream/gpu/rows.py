"""Launches of `kernels.rows`: what happens to rows between matrix products."""

from __future__ import annotations

import torch
import triton
from torch import Tensor, nn

from nystream.layers.positional import CircularPositions
from nystream.layers.scaler import Scaler
from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.kernels import rows as kernels
from nystream.stream.gpu.launch import Call

NUMBERS = 2048  # of a program: a row is read at once, by as many warps as hold it in registers
MAX_WARPS = 8


def entered(x: Tensor, slots: Tensor, scaler: Scaler | None) -> tuple[Tensor, Tensor]:
    """The scaled inputs of x [rows, r, width], and an int32 tensor [], 1 if the step must not be made.

    Those of rows that are skipped, and of numbers that are not finite, are those of 0.
    """
    rows, r, width = x.shape
    scaled, refused = torch.empty_like(x), torch.zeros((), dtype=torch.int32, device=x.device)
    mean, scale = (None, None) if scaler is None else (scaler.mean, scaler.scale)
    columns = min(power_of_two(r * width), NUMBERS)
    each = NUMBERS // columns
    kernels.enter[(triton.cdiv(rows, each), triton.cdiv(r * width, columns))](
        scaled, refused, x, slots, mean, scale, rows, WIDTH=width, R=r, ROWS_=each, WIDTH_=columns
    )
    return scaled, refused


def add_norm(x: Tensor, y: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """x + y, and its norm; [rows, r, E]."""
    total = torch.empty_like(x)
    return total, _add_norm(total, norm, x, y)


def normed_sum(x: Tensor, y: Tensor | None, norm: nn.Module) -> Tensor:
    """The norm of x + y, or of x; [rows, r, E]."""
    if not isinstance(norm, nn.LayerNorm):
        return x if y is None else x + y
    return _add_norm(None, norm, x, y)


def embedded(x: Tensor, positions: CircularPositions, call: Call, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """x [rows, r, E] at the positions of its streams, and its norm."""
    if positions.kind == "none":
        return x, normed_sum(x, None, norm)
    total = torch.empty_like(x)
    return total, _add_norm(total, norm, x, None, positions, call)


def _add_norm(
    total: Tensor | None,
    norm: nn.Module,
    x: Tensor,
    y: Tensor | None,
    positions: CircularPositions | None = None,
    call: Call | None = None,
) -> Tensor:
    """Write the sum to `total`, if it is needed, and return its norm."""
    rows, r, width = x.shape
    normed, weight, bias, eps = None, None, None, 0.0
    if isinstance(norm, nn.LayerNorm):
        normed, weight, bias, eps = torch.empty_like(x), norm.weight, norm.bias, norm.eps
    columns = power_of_two(width)
    each = max(1, NUMBERS // columns)
    kernels.add_norm[(triton.cdiv(rows * r, each),)](
        total,
        normed,
        x,
        y,
        None if positions is None else positions.table,
        None if call is None else call.time,
        None if call is None else call.slots,
        weight,
        bias,
        rows,
        eps,
        E=width,
        R=r,
        POSITIONS=1 if positions is None else positions.num_positions,
        ROWS_=each,
        E_=columns,
        num_warps=max(4, min(MAX_WARPS, columns // 512)),
    )
    if normed is not None:
        return normed
    assert total is not None
    return total

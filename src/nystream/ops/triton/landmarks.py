"""Attention of a piece through fixed landmarks: the kernels, as a differentiable function."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nystream.ops.triton import landmark_gradients as gradients
from nystream.ops.triton import landmark_kernels as kernels
from nystream.ops.triton import launch
from nystream.ops.triton.band import Band
from nystream.ops.triton.launch import Tile
from nystream.ops.triton.once import Gradients, Once


def attend(
    weight: Tensor, logit: Tensor, ring_value: Tensor, value: Tensor, decay: Tensor | None, band: Band
) -> Tensor:
    """weight [B, T, H, m], logit [B, n + T, H, m], values [B, n, H, D] and [B, T, H, D], decay [B, H] -> [B, T, H, D].

    The result is float32.
    """
    out: Tensor = _Attend.apply(band, weight, logit, ring_value, value, decay)  # type: ignore[no-untyped-call]
    return out


def tile(kernel: str, width: int, m: int) -> Tile:
    """The tile of a kernel for m landmarks and heads of this width: with m up to 16, none spills registers on sm_90.

    Large tiles have wide edges, small ones sum the middle more often.
    """
    if width > 64 and kernel == "edge_gradients":
        return Tile(16, 32, 4 if m <= 16 else 8)
    return Tile(32, 32, 8 if m > 16 or (width > 64 and kernel == "middle_gradients") else 4)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, band: Band, weight: Tensor, logit: Tensor, ring_value: Tensor, value: Tensor, decay: Tensor | None
    ) -> Tensor:
        weight, logit = (x.permute(0, 2, 3, 1) for x in (weight, logit))  # [B, H, m, T], [B, H, m, n + T]
        # Once for all kernels, because rounding that differs between them would not cancel in gradients.
        logit = torch.mul(logit, math.log2(math.e), out=torch.empty_like(logit, memory_format=torch.contiguous_format))
        weight, ring_value, value = (x.contiguous() for x in (weight, ring_value, value))
        decay = None if decay is None else decay.contiguous()
        (B, H, m, T), D = weight.shape, value.shape[-1]
        lse, out = torch.empty_like(weight), weight.new_empty(B, T, H, D)
        first, second = (_sizes(kernel, weight, ring_value, decay) for kernel in ("normalize", "attend"))
        for name in ("D", "DP", "MP", "PRECISION"):
            del first[name]
        with launch.on(value):
            kernels.normalize[launch.programs(T, first["BLOCK_Q"], B * H * m)](
                logit, band.first_key, band.last_key, decay, lse, **first
            )
            kernels.attend[launch.programs(T, second["BLOCK_Q"], B * H)](
                weight, logit, ring_value, value, band.first_key, band.last_key, decay, lse, out, **second
            )
        ctx.save_for_backward(weight, logit, ring_value, value, decay, lse, *band)
        return out

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, ...]:
        slopes = Once.apply(_gradients, out_gradient, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return None, *slopes


def _gradients(
    out_gradient: Tensor,
    weight: Tensor,
    logit: Tensor,
    ring_value: Tensor,
    value: Tensor,
    decay: Tensor | None,
    lse: Tensor,
    *runs: Tensor,
) -> Gradients:
    """dw, dl, dv of the ring and of the piece, and dλ if there is a decay."""
    band, (B, H, _, T), n = Band(*runs), weight.shape, ring_value.shape[1]
    out_gradient = out_gradient.contiguous()
    weight_gradient, logit_gradient = torch.empty_like(weight), torch.empty_like(logit)
    value_gradient = value.new_empty(B, n + T, H, value.shape[-1])
    by_query, middle, edges = (
        _sizes(name, weight, ring_value, decay) for name in ("weight_gradient", "middle_gradients", "edge_gradients")
    )
    part = {"PART": min(32, launch.padded(value.shape[-1]))}
    programs = launch.programs(n + T, middle["BLOCK_K"], B * H)
    falls = None if decay is None else lse.new_empty(2, *programs)
    middle_falls, edge_falls = (None, None) if falls is None else falls.unbind()
    with launch.on(value):
        gradients.weight_gradient[launch.programs(T, by_query["BLOCK_Q"], B * H)](
            logit, ring_value, value, band.first_key, band.last_key, decay,
            lse, out_gradient, weight_gradient, **by_query, **part,
        )  # fmt: skip
        tensors = (
            weight, logit, ring_value, value, band.first_query, band.last_query, band.last_key, decay,
            lse, out_gradient, weight_gradient, logit_gradient, value_gradient,
        )  # fmt: skip
        gradients.middle_gradients[programs](*tensors, middle_falls, **middle)
        gradients.edge_gradients[programs](*tensors, edge_falls, **edges, **part)
    dw, dl = (x.permute(0, 3, 1, 2) for x in (weight_gradient, logit_gradient))
    rates = None if falls is None else falls.view(2, B, H, -1).sum((0, -1))
    return dw, dl, value_gradient[:, :n], value_gradient[:, n:], rates


def _sizes(kernel: str, weight: Tensor, ring_value: Tensor, decay: Tensor | None) -> dict[str, Any]:
    (_, H, m, T), (_, n, _, D) = weight.shape, ring_value.shape
    return {
        "N": n,
        "T": T,
        "H": H,
        "D": D,
        "DP": launch.padded(D),
        "M": m,
        "MP": launch.padded(m),
        "DECAY": decay is not None,
        "PRECISION": launch.precision(ring_value),
        **tile(kernel, D, m).options(),
    }

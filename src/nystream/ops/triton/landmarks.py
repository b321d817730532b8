"""Attention of a piece through fixed landmarks: `landmark_kernels`, as a differentiable function."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nystream.ops.triton import landmark_kernels as kernels
from nystream.ops.triton import launch
from nystream.ops.triton.band import Band
from nystream.ops.triton.launch import Tile
from nystream.ops.triton.once import Gradients, Once


def attend(weight: Tensor, logit: Tensor, value: Tensor, band: Band, decay: Tensor | None) -> Tensor:
    """weight [B, T, H, m], logit [B, S, H, m], value [B, S, H, D], decay [B, H] -> [B, T, H, D], float32."""
    out: Tensor = _Attend.apply(weight, logit, value, decay, band)  # type: ignore[no-untyped-call]
    return out


def tile(kernel: str, width: int, m: int) -> Tile:
    """The tile of a kernel for m landmarks and heads of this width: with m up to 16, none spills registers on sm_90.

    Large tiles have wide edges, small ones sum the middle more often.
    """
    return Tile(16 if kernel == "edge_gradients" and width > 64 else 32, 32, 4 if m <= 16 else 8)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, logit: Tensor, value: Tensor, decay: Tensor | None, band: Band) -> Tensor:
        weight, logit = (x.permute(0, 2, 3, 1) for x in (weight, logit))  # [B, H, m, T], [B, H, m, S]
        # Once for all kernels, because rounding that differs between them would not cancel in gradients.
        logit = torch.mul(logit, math.log2(math.e), out=torch.empty_like(logit, memory_format=torch.contiguous_format))
        weight = weight.contiguous()
        value, decay = value.contiguous(), None if decay is None else decay.contiguous()
        (B, H, m, T), D = weight.shape, value.shape[-1]
        lse, out = torch.empty_like(weight), weight.new_empty(B, T, H, D)
        first, second = (_sizes(kernel, weight, value, decay) for kernel in ("normalize", "attend"))
        for name in ("D", "DP", "MP", "PRECISION"):
            del first[name]
        with launch.on(value):
            kernels.normalize[launch.programs(T, first["BLOCK_Q"], B * H * m)](
                logit, band.first_key, band.last_key, decay, lse, **first
            )
            kernels.attend[launch.programs(T, second["BLOCK_Q"], B * H)](
                weight, logit, value, band.first_key, band.last_key, decay, lse, out, **second
            )
        ctx.save_for_backward(weight, logit, value, decay, lse, *band)
        return out

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, ...]:
        dw, dl, dv, *rates = Once.apply(_gradients, out_gradient, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return dw, dl, dv, rates[0] if rates else None, None


def _gradients(
    out_gradient: Tensor,
    weight: Tensor,
    logit: Tensor,
    value: Tensor,
    decay: Tensor | None,
    lse: Tensor,
    *runs: Tensor,
) -> Gradients:
    """dw, dl, dv and, with a decay, dλ."""
    band, (B, H, _, T) = Band(*runs), weight.shape
    out_gradient = out_gradient.contiguous()
    weight_gradient, logit_gradient, value_gradient = (torch.empty_like(x) for x in (weight, logit, value))
    by_query, middle, edges = (
        _sizes(kernel, weight, value, decay) for kernel in ("weight_gradient", "middle_gradients", "edge_gradients")
    )
    part = {"PART": min(32, launch.padded(value.shape[-1]))}
    programs = launch.programs(value.shape[1], middle["BLOCK_K"], B * H)
    falls = None if decay is None else lse.new_empty(2, *programs)
    middle_falls, edge_falls = (None, None) if falls is None else falls.unbind()
    with launch.on(value):
        kernels.weight_gradient[launch.programs(T, by_query["BLOCK_Q"], B * H)](
            logit, value, band.first_key, band.last_key, decay, lse, out_gradient, weight_gradient, **by_query, **part
        )
        tensors = (
            weight, logit, value, band.first_query, band.last_query, band.last_key, decay,
            lse, out_gradient, weight_gradient, logit_gradient, value_gradient,
        )  # fmt: skip
        kernels.middle_gradients[programs](*tensors, middle_falls, **middle)
        kernels.edge_gradients[programs](*tensors, edge_falls, **edges, **part)
    dw, dl = (x.permute(0, 3, 1, 2) for x in (weight_gradient, logit_gradient))
    if falls is None:
        return dw, dl, value_gradient
    return dw, dl, value_gradient, falls.view(2, B, H, -1).sum((0, -1))


def _sizes(kernel: str, weight: Tensor, value: Tensor, decay: Tensor | None) -> dict[str, Any]:
    (_, H, m, T), (_, S, _, D) = weight.shape, value.shape
    return {
        "T": T,
        "S": S,
        "H": H,
        "D": D,
        "DP": launch.padded(D),
        "M": m,
        "MP": launch.padded(m),
        "DECAY": decay is not None,
        "PRECISION": launch.precision(value),
        **tile(kernel, D, m).options(),
    }

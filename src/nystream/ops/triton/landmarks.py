"""Attention of a piece through fixed landmarks: the kernels, as a differentiable function."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from nystream.ops.later import Later
from nystream.ops.triton import landmark_gradients as gradients
from nystream.ops.triton import landmark_kernels as kernels
from nystream.ops.triton import launch, prepare
from nystream.ops.triton.band import Band
from nystream.ops.triton.launch import Tile
from nystream.ops.triton.once import Gradients, once


def attend(
    weight: Tensor,
    ring_logit: Tensor,
    logit: Tensor,
    ring_value: Tensor,
    value: Tensor,
    decay: Tensor | None,
    time: Tensor | None,
    band: Band,
    bad: Later,
) -> Tensor:
    """Σⱼ wⱼ (Δ_φ V)ⱼ of every token's own window: [B, T, H, D], float32.

    weight and logit [B, T, H, m], fastest in memory where they are views of [H, m, B, T]; value [B, T, H, D], decay
    [B, H]. The rings [B, n, H, .] are at `time` [B], or oldest token first if that is None. `bad` becomes whether any
    token is not finite.
    """
    weight, ring_logit, logit = weight.float(), ring_logit.float(), logit.float()  # so gradients are float32, too
    tensors = (weight, ring_logit, logit, ring_value, value, decay)
    out: Tensor = _Attend.apply(time, band, bad, *tensors)  # type: ignore[no-untyped-call]
    return out


def tile(kernel: str, width: int, m: int) -> Tile:
    """The tile of a kernel for m landmarks and heads of this width: with m up to 16, hardly any spills on sm_90.

    Large tiles have wide edges, small ones sum the middle more often.
    """
    warps = 4 if m <= 16 else 8
    rows = 64 if width <= 64 and m <= 16 else 32
    return {
        "normalize": Tile(64 if m <= 16 else 32, 32, warps),
        "attend": Tile(rows, 32, warps, 2),
        "weight_gradient": Tile(rows, 16, warps, 2),
        "middle_gradients": Tile(32, 32, warps, 3 if width <= 64 else 2),
        "edge_gradients": Tile(16, 32, warps),
    }[kernel]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        time: Tensor | None,
        band: Band,
        bad: Later,
        weight: Tensor,
        ring_logit: Tensor,
        logit: Tensor,
        ring_value: Tensor,
        value: Tensor,
        decay: Tensor | None,
    ) -> Tensor:
        weight = weight.permute(2, 3, 0, 1).contiguous()  # [H, m, B, T]
        logit = prepare.logarithms(ring_logit, logit, time, bad.number)  # [H, m, B, n + T]
        ring_value, value = prepare.tokens(ring_value, value, time, bad.number)
        bad.note()
        decay = None if decay is None else decay.contiguous()
        (H, _, B, T), D = weight.shape, value.shape[-1]
        lse, out = torch.empty_like(weight), weight.new_empty(B, T, H, D)
        ctx.precision = launch.precision(value)
        first, second = (_sizes(name, ctx.precision, weight, ring_value, decay) for name in ("normalize", "attend"))
        for name in ("D", "DP", "PRECISION"):
            del first[name]
        with launch.on(value):
            kernels.normalize[launch.programs(T, first["BLOCK_Q"], B * H)](
                logit, band.first_key, band.last_key, decay, lse, **first
            )
            kernels.attend[launch.programs(T, second["BLOCK_Q"], B * H)](
                weight, logit, ring_value, value, band.first_key, band.last_key, decay, lse, out, **second
            )
        ctx.ring_matters = ctx.needs_input_grad[4] or ctx.needs_input_grad[6]
        ctx.save_for_backward(time if ctx.ring_matters else None, weight, logit, ring_value, value, decay, lse, *band)
        return out

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, ...]:
        slopes = once(partial(_gradients, ctx.precision, ctx.ring_matters), out_gradient, *ctx.saved_tensors)
        return None, None, None, *slopes


def _gradients(
    precision: str,
    ring_matters: bool,
    out_gradient: Tensor,
    time: Tensor | None,
    weight: Tensor,
    logit: Tensor,
    ring_value: Tensor,
    value: Tensor,
    decay: Tensor | None,
    lse: Tensor,
    *runs: Tensor,
) -> Gradients:
    """dw, dl and dv of the ring, if it matters, and of the piece, and dλ if there is a decay."""
    band, (H, m, B, T), n = Band(*runs), weight.shape, ring_value.shape[1]
    start = 0 if ring_matters else n
    out_gradient = out_gradient.contiguous()
    weight_gradient, logit_gradient = torch.empty_like(weight), logit.new_empty(H, m, B, n + T - start)
    value_gradient = value.new_empty(B, n + T - start, H, value.shape[-1])
    by_query, middle, edges = (
        _sizes(name, precision, weight, ring_value, decay)
        for name in ("weight_gradient", "middle_gradients", "edge_gradients")
    )
    part = {"PART": min(32, launch.padded(value.shape[-1]))}
    query_tiles = launch.programs(T, by_query["BLOCK_Q"], B * H)
    key_tiles = launch.programs(n + T - start, middle["BLOCK_K"], B * H)
    falls = None if decay is None else lse.new_empty(query_tiles)
    with launch.on(value):
        gradients.weight_gradient[query_tiles](
            weight, logit, ring_value, value, band.first_key, band.last_key, decay,
            lse, out_gradient, weight_gradient, falls, **by_query, **part,
        )  # fmt: skip
        tensors = (
            weight, logit, ring_value, value, band.first_query, band.last_query, band.last_key, decay,
            lse, out_gradient, weight_gradient, logit_gradient, value_gradient, start,
        )  # fmt: skip
        gradients.middle_gradients[key_tiles](*tensors, **middle)
        gradients.edge_gradients[key_tiles](*tensors, **edges, **part)
    dw, dl = (x.permute(2, 3, 0, 1) for x in (weight_gradient, logit_gradient))
    rates = None if falls is None else falls.view(B, H, -1).sum(-1)
    parts = (part for x in (dl, value_gradient) for part in launch.halves(x, n - start, time))
    return dw, *parts, rates


def _sizes(kernel: str, precision: str, weight: Tensor, ring_value: Tensor, decay: Tensor | None) -> dict[str, Any]:
    (H, m, B, T), (_, n, _, D) = weight.shape, ring_value.shape
    return {
        "N": n,
        "T": T,
        "H": H,
        "B": B,
        "D": D,
        "DP": launch.padded(D),
        "M": m,
        "MP": launch.padded(m),
        "DECAY": decay is not None,
        "PRECISION": precision,
        **tile(kernel, D, m).options(),
    }

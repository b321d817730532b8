"""Windowed softmax attention of a piece: `full_kernels`, as a differentiable function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nystream.ops.triton import full_kernels as kernels
from nystream.ops.triton import launch
from nystream.ops.triton.band import Band
from nystream.ops.triton.launch import Tile
from nystream.ops.triton.once import Gradients, Once


def attend(q: Tensor, key: Tensor, value: Tensor, band: Band, scale: float, decay: Tensor | None) -> Tensor:
    """q [B, T, H, D], key and value [B, S, H, D], decay [B, H] -> [B, T, H, D]."""
    out: Tensor = _Attend.apply(q, key, value, decay, band, scale)  # type: ignore[no-untyped-call]
    return out


def tile(kernel: str, width: int) -> Tile:
    """The tile of a kernel for heads of this width: the largest that spills no registers on sm_90."""
    if kernel == "key_gradients":
        return Tile(32, 64, 8) if width <= 64 else Tile(64, 32, 8)
    return Tile(64, 32, 4 if width <= 64 or kernel == "attend" else 8)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, key: Tensor, value: Tensor, decay: Tensor | None, band: Band, scale: float
    ) -> Tensor:
        q, key, value = (x.contiguous() for x in (q, key, value))
        decay = None if decay is None else decay.contiguous()
        B, T, H, _ = q.shape
        out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=torch.float32)
        sizes = _sizes("attend", q, key, scale, decay)
        with launch.on(q):
            kernels.attend[launch.programs(T, sizes["BLOCK_Q"], B * H)](
                q, key, value, band.first_key, band.last_key, decay, out, lse, **sizes
            )
        ctx.save_for_backward(q, key, value, decay, out, lse, *band)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, ...]:
        scale = ctx.scale

        def gradients(*tensors: Tensor) -> Gradients:
            return _gradients(scale, *tensors)

        dq, dk, dv, *rates = Once.apply(gradients, out_gradient, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return dq, dk, dv, rates[0] if rates else None, None, None


def _gradients(
    scale: float,
    out_gradient: Tensor,
    q: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor | None,
    out: Tensor,
    lse: Tensor,
    *runs: Tensor,
) -> Gradients:
    """dq, dk, dv and, with a decay, dλ."""
    band, (B, T, H, _) = Band(*runs), q.shape
    out_gradient = out_gradient.contiguous()
    q_gradient, key_gradient, value_gradient = (torch.empty_like(x) for x in (q, key, value))
    overlap = torch.empty_like(lse)
    by_query, by_key = (_sizes(kernel, q, key, scale, decay) for kernel in ("query_gradient", "key_gradients"))
    programs = launch.programs(T, by_query["BLOCK_Q"], B * H)
    falls = None if decay is None else lse.new_empty(programs)
    with launch.on(q):
        kernels.query_gradient[programs](
            q, key, value, band.first_key, band.last_key, decay,
            out, lse, out_gradient, q_gradient, overlap, falls, **by_query,
        )  # fmt: skip
        kernels.key_gradients[launch.programs(key.shape[1], by_key["BLOCK_K"], B * H)](
            q, key, value, band.first_query, band.last_query, band.last_key, decay,
            lse, out_gradient, overlap, key_gradient, value_gradient, **by_key,
        )  # fmt: skip
    if falls is None:
        return q_gradient, key_gradient, value_gradient
    return q_gradient, key_gradient, value_gradient, falls.view(B, H, -1).sum(-1)


def _sizes(kernel: str, q: Tensor, key: Tensor, scale: float, decay: Tensor | None) -> dict[str, Any]:
    _, T, H, D = q.shape
    return {
        "T": T,
        "S": key.shape[1],
        "H": H,
        "scale": scale,
        "D": D,
        "DP": launch.padded(D),
        "PART": launch.padded(D) if D <= 64 else 32,
        "DECAY": decay is not None,
        "PRECISION": launch.precision(q),
        **tile(kernel, D).options(),
    }

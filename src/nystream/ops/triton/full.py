"""Windowed softmax attention of a piece: `full_kernels`, as a differentiable function."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from nystream.ops.triton import full_kernels as kernels
from nystream.ops.triton import launch
from nystream.ops.triton.band import Band
from nystream.ops.triton.launch import Tile
from nystream.ops.triton.once import Gradients, Once


def attend(
    q: Tensor,
    ring_key: Tensor,
    key: Tensor,
    ring_value: Tensor,
    value: Tensor,
    decay: Tensor | None,
    band: Band,
    scale: float,
) -> Tensor:
    """q, key and value [B, T, H, D], rings [B, n, H, D], decay [B, H] -> [B, T, H, D]."""
    tokens = (q, ring_key, key, ring_value, value)
    out: Tensor = _Attend.apply(scale, band, decay, *tokens)  # type: ignore[no-untyped-call]
    return out


def tile(kernel: str, width: int) -> Tile:
    """The tile of a kernel for heads of this width: among the largest that spill no registers on sm_90.

    Two stages where three would need more shared memory than GPUs before sm_90 have.
    """
    if width <= 64:
        narrow = {"attend": Tile(64, 32, 4), "query_gradient": Tile(64, 32, 4, 2), "key_gradients": Tile(32, 64, 8, 2)}
        return narrow[kernel]
    return {"attend": Tile(64, 32, 4), "query_gradient": Tile(32, 64, 8), "key_gradients": Tile(64, 32, 8)}[kernel]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scale: float, band: Band, decay: Tensor | None, *inputs: Tensor) -> Tensor:
        tokens, decay = [x.contiguous() for x in inputs], None if decay is None else decay.contiguous()
        q = tokens[0]
        B, T, H, _ = q.shape
        out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=torch.float32)
        sizes = _sizes("attend", scale, decay, *tokens[:2])
        with launch.on(q):
            kernels.attend[launch.programs(T, sizes["BLOCK_Q"], B * H)](
                *tokens, band.first_key, band.last_key, decay, out, lse, **sizes
            )
        ctx.save_for_backward(*tokens, decay, out, lse, *band)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, ...]:
        function = partial(_gradients, ctx.scale)
        *tokens, falls = Once.apply(function, out_gradient, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return None, None, falls, *tokens


def _gradients(scale: float, out_gradient: Tensor, *saved: Tensor) -> Gradients:
    """dq, dk and dv of the rings and of the piece, and dλ if there is a decay."""
    tokens, (decay, out, lse), band = saved[:5], saved[5:8], Band(*saved[8:])
    q, ring_key, *_ = tokens
    (B, T, H, D), n = q.shape, ring_key.shape[1]
    out_gradient = out_gradient.contiguous()
    q_gradient, overlap = torch.empty_like(q), torch.empty_like(lse)
    key_gradient, value_gradient = (q.new_empty(B, n + T, H, D) for _ in range(2))
    by_query, by_key = (_sizes(name, scale, decay, q, ring_key) for name in ("query_gradient", "key_gradients"))
    programs = launch.programs(T, by_query["BLOCK_Q"], B * H)
    falls = None if decay is None else lse.new_empty(programs)
    with launch.on(q):
        kernels.query_gradient[programs](
            *tokens, band.first_key, band.last_key, decay,
            out, lse, out_gradient, q_gradient, overlap, falls, **by_query,
        )  # fmt: skip
        kernels.key_gradients[launch.programs(n + T, by_key["BLOCK_K"], B * H)](
            *tokens, band.first_query, band.last_query, band.last_key, decay,
            lse, out_gradient, overlap, key_gradient, value_gradient, **by_key,
        )  # fmt: skip
    parts = (part for x in (key_gradient, value_gradient) for part in (x[:, :n], x[:, n:]))
    return q_gradient, *parts, None if falls is None else falls.view(B, H, -1).sum(-1)


def _sizes(kernel: str, scale: float, decay: Tensor | None, q: Tensor, ring_key: Tensor) -> dict[str, Any]:
    _, T, H, D = q.shape
    return {
        "N": ring_key.shape[1],
        "T": T,
        "H": H,
        "scale": scale,
        "D": D,
        "DP": launch.padded(D),
        "PART": launch.padded(D) if D <= 64 else 32,
        "DECAY": decay is not None,
        "PRECISION": launch.precision(q),
        **tile(kernel, D).options(),
    }

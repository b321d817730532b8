"""Windowed softmax attention of a piece: `full_kernels`, as a differentiable function."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from nystream.ops.later import Later
from nystream.ops.triton import full_kernels as kernels
from nystream.ops.triton import launch, prepare
from nystream.ops.triton.band import Band
from nystream.ops.triton.launch import Tile
from nystream.ops.triton.once import Gradients, once


def attend(
    q: Tensor,
    ring_key: Tensor,
    key: Tensor,
    ring_value: Tensor,
    value: Tensor,
    decay: Tensor | None,
    scale: float,
    time: Tensor | None,
    band: Band,
    bad: Later,
) -> Tensor:
    """q, key and value [B, T, H, D], decay [B, H] -> [B, T, H, D].

    The rings [B, n, H, D] are at `time` [B], or oldest token first if that is None. `bad` becomes whether any
    token is not finite.
    """
    tokens = (q, ring_key, key, ring_value, value)
    out, lse = _Attend.apply(scale, time, band, bad, decay, *tokens)  # type: ignore[no-untyped-call]
    out = _Normalized.apply(out, lse)  # type: ignore[no-untyped-call]
    return cast(Tensor, out)


LARGE = {
    "attend": Tile(128, 64, 8),
    "query_gradient": Tile(128, 64, 8, 2),
    "key_gradients": Tile(64, 128, 8, 2),
}


def tile(kernel: str, width: int, hopper: bool = False) -> Tile:
    """The tile of a kernel for heads of this width.

    The large ones were fastest on an H200, and are for GPUs like it, `launch.is_hopper`. The others are among the
    largest that spill hardly any registers there and have room on older GPUs.
    """
    if hopper and width <= 64 and kernel in LARGE:
        return LARGE[kernel]
    tiles = {"attend": Tile(64, 32, 4), "lse_gradient": Tile(32, 32, 4), "query_gradient": Tile(64, 32, 4, 2)}
    return (tiles | {"key_gradients": Tile(32, 64, 4, 2) if width <= 64 else Tile(64, 32, 8)})[kernel]


class _Attend(torch.autograd.Function):
    """o and L, as if they did not depend on each other; `_Normalized` completes the gradient of L."""

    @staticmethod
    def forward(
        ctx: Any,
        scale: float,
        time: Tensor | None,
        band: Band,
        bad: Later,
        decay: Tensor | None,
        q: Tensor,
        ring_key: Tensor,
        key: Tensor,
        ring_value: Tensor,
        value: Tensor,
    ) -> tuple[Tensor, Tensor]:
        pairs = ((ring_key, key), (ring_value, value))
        tokens = (q.contiguous(), *(x for pair in pairs for x in prepare.tokens(*pair, time, bad.number)))
        bad.note()
        q, decay = tokens[0], None if decay is None else decay.contiguous()
        B, T, H, _ = q.shape
        out, lse = torch.empty_like(q), q.new_empty(B, H, T, dtype=torch.float32)
        sizes = _sizes("attend", scale, launch.precision(q), decay, *tokens[:2])
        with launch.on(q):
            kernels.attend[launch.programs(T, sizes["BLOCK_Q"], B * H)](
                *tokens, band.first_key, band.last_key, decay, out, lse, **sizes
            )
        ctx.ring_matters = ctx.needs_input_grad[6] or ctx.needs_input_grad[8]
        ctx.save_for_backward(time if ctx.ring_matters else None, *tokens, decay, lse, *band)
        ctx.scale, ctx.precision = scale, sizes["PRECISION"]
        return out, lse

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor, lse_gradient: Tensor) -> tuple[Tensor | None, ...]:
        function = partial(_gradients, ctx.scale, ctx.precision, ctx.ring_matters)
        *tokens, falls = once(function, out_gradient, lse_gradient, *ctx.saved_tensors)
        return None, None, None, None, falls, *tokens


class _Normalized(torch.autograd.Function):
    """o, with the gradient that L has because it normalizes o.

    A node of its own, so that o, which nothing else needs, is freed before the gradients of the tokens are allocated.
    """

    @staticmethod
    def forward(ctx: Any, out: Tensor, lse: Tensor) -> Tensor:
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, ...]:
        return once(_lse_gradient, out_gradient.contiguous(), *ctx.saved_tensors)


def _lse_gradient(out_gradient: Tensor, out: Tensor) -> Gradients:
    """do as it is, and dL."""
    B, T, H, D = out.shape
    gradient = out.new_empty(B, H, T, dtype=torch.float32)
    rows = tile("lse_gradient", D).block_q
    with launch.on(out):
        kernels.lse_gradient[launch.programs(T, rows, B * H)](
            out, out_gradient, gradient, T, H, D=D, DP=launch.padded(D), BLOCK_Q=rows
        )
    return out_gradient, gradient


def _gradients(
    scale: float,
    precision: str,
    ring_matters: bool,
    out_gradient: Tensor,
    lse_gradient: Tensor,
    time: Tensor | None,
    *saved: Tensor,
) -> Gradients:
    """dq, dk and dv of the rings, if they matter, and of the piece, and dλ if there is a decay."""
    tokens, (decay, lse), band = saved[:5], saved[5:7], Band(*saved[7:])
    q, ring_key, *_ = tokens
    (B, T, H, D), n = q.shape, ring_key.shape[1]
    start = 0 if ring_matters else n
    q_gradient = torch.empty_like(q)
    key_gradient, value_gradient = (q.new_empty(B, n + T - start, H, D) for _ in range(2))
    by_query, by_key = (
        _sizes(name, scale, precision, decay, q, ring_key) for name in ("query_gradient", "key_gradients")
    )
    programs = launch.programs(T, by_query["BLOCK_Q"], B * H)
    falls = None if decay is None else lse.new_empty(programs)
    with launch.on(q):
        kernels.query_gradient[programs](
            *tokens, band.first_key, band.last_key, decay,
            lse, out_gradient, lse_gradient, q_gradient, falls, **by_query,
        )  # fmt: skip
        kernels.key_gradients[launch.programs(n + T - start, by_key["BLOCK_K"], B * H)](
            *tokens, band.first_query, band.last_query, band.last_key, decay,
            lse, out_gradient, lse_gradient, key_gradient, value_gradient, start, **by_key,
        )  # fmt: skip
    parts = (part for x in (key_gradient, value_gradient) for part in launch.halves(x, n - start, time))
    return q_gradient, *parts, None if falls is None else falls.view(B, H, -1).sum(-1)


def _sizes(
    kernel: str, scale: float, precision: str, decay: Tensor | None, q: Tensor, ring_key: Tensor
) -> dict[str, Any]:
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
        "PRECISION": precision,
        **tile(kernel, D, launch.is_hopper(q)).options(),
    }

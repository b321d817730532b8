"""Products of fixed landmarks with all tokens of a piece, as differentiable functions.

Rows and times are one dimension, so that a head is one matrix product and no token is copied. The gradients of the
landmarks are sums over all tokens, tiny matrices: `outer` divides the tokens among many programs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from nystream.ops.precision import full_precision
from nystream.ops.triton import launch
from nystream.ops.triton import product_kernels as kernels
from nystream.ops.triton.once import Gradients, once

BLOCK, SHORTEST, MOST = 64, 256, 64  # tokens of a tile, tokens of a program at least, and programs of a head at most


def logits(q_tilde: Tensor, k: Tensor) -> Tensor:
    """q̃ kᵀ of landmarks [H, m, D] and tokens [B, T, H, D]: [H, m, B, T]."""
    return cast(Tensor, _Logits.apply(q_tilde, k))  # type: ignore[no-untyped-call]


def weights(q: Tensor, k_tilde: Tensor, inverse: Tensor | None) -> Tensor:
    """Γ†ᵀ softmax(k̃ qᵀ) of tokens [B, T, H, D], landmarks [H, m, D] and Γ† [H, m, m], or None for I: [H, m, B, T]."""
    return cast(Tensor, _Weights.apply(q, k_tilde, inverse))  # type: ignore[no-untyped-call]


def outer(x: Tensor, y: Tensor) -> Tensor:
    """Σ_t x_jt y_td of x [H, m, S] and y [H, S, D]: [H, m, D]."""
    (H, M, S), D = x.shape, y.shape[2]
    span = BLOCK * -(-max(SHORTEST, -(-S // MOST)) // BLOCK)
    parts = x.new_empty(-(-S // span), H, M, D)
    sizes = {"M": M, "MP": launch.padded(M), "D": D, "DP": launch.padded(D)}
    with launch.on(x):
        kernels.partial_outer[parts.shape[0] * H,](
            x.contiguous(), y, parts, S, span, H, *y.stride(), **sizes, BLOCK=BLOCK
        )
    return parts.sum(0)


class _Logits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_tilde: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(q_tilde, k)
        return (q_tilde @ _columns(k)).unflatten(2, k.shape[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Gradients:
        return once(partial(_gradients, ctx.needs_input_grad), gradient.flatten(2), *ctx.saved_tensors)


class _Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k_tilde: Tensor, inverse: Tensor | None) -> Tensor:
        share = (k_tilde @ _columns(q)).softmax(1)  # [H, m, B T]
        ctx.save_for_backward(q, k_tilde, inverse, share)
        return (share if inverse is None else inverse.mT @ share).unflatten(2, q.shape[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Gradients:
        return once(partial(_weights_gradients, ctx.needs_input_grad), gradient.flatten(2), *ctx.saved_tensors)


def _weights_gradients(
    wanted: tuple[bool, bool, bool], gradient: Tensor, q: Tensor, k_tilde: Tensor, inverse: Tensor | None, share: Tensor
) -> Gradients:
    inverse_gradient = outer(share, gradient.mT) if wanted[2] else None
    with full_precision(gradient):  # the backward pass may run under autocast
        slope = gradient if inverse is None else inverse @ gradient
    slope = torch._softmax_backward_data(slope, share, 1, share.dtype)
    k_tilde_gradient, q_gradient = _gradients((wanted[1], wanted[0]), slope, k_tilde, q)
    return q_gradient, k_tilde_gradient, inverse_gradient


def _gradients(wanted: tuple[bool, bool], gradient: Tensor, landmarks: Tensor, tokens: Tensor) -> Gradients:
    """The gradients of landmarks [H, m, D] and tokens [B, T, H, D], given that of their product [H, m, B T]."""
    tokens_gradient = None
    if wanted[1]:
        tokens_gradient = torch.empty_like(tokens, memory_format=torch.contiguous_format)
        with full_precision(gradient):
            torch.bmm(landmarks.mT, gradient, out=_columns(tokens_gradient))
    return (outer(gradient, _columns(tokens).mT) if wanted[0] else None), tokens_gradient


def _columns(tokens: Tensor) -> Tensor:
    """[B, T, H, D] -> [H, D, B T]."""
    return tokens.flatten(0, 1).permute(1, 2, 0)

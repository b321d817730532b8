"""An attention in float32 through the kernels, and in float64 through torch."""

from typing import NamedTuple

import torch
from torch import Tensor

import nystream as ns
from nystream.ops import fused

# Leaves of a state that follow from logits of landmarks. Kernels and torch compute these as different products of the
# same numbers, so their last digits may differ; all other leaves are equal.
FROM_LOGITS = ("ring_logit", "part_max", "part_sum")


class Piece(NamedTuple):
    """A piece of a stream, what comes before it, and what `steps` gets with it."""

    x: Tensor
    before: Tensor
    lengths: Tensor | None = None
    reset: Tensor | None = None
    key: Tensor | None = None


def build(cfg: ns.AttentionConfig, dtype: torch.dtype = torch.float32) -> ns.MultiheadAttention:
    attn = ns.MultiheadAttention(cfg, dtype=dtype)
    if cfg.fixed:
        attn.set_landmarks(*torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim))
        attn.learn_landmarks()
    if cfg.decay:  # from hardly any to nine tenths per token
        attn.decay_logit.data.copy_(torch.rand(cfg.num_heads) * 8 - 6)
    return attn


def in_float64(attn: ns.MultiheadAttention) -> ns.MultiheadAttention:
    double = ns.MultiheadAttention(attn.config, dtype=torch.float64)
    if attn.config.fixed:
        double.learn_landmarks()
    double.load_state_dict(attn.state_dict())
    return double


def run(attn: ns.MultiheadAttention, piece: Piece, slope: Tensor):
    """Output, state and all gradients of a loss with this slope."""
    dtype = attn.q_proj.weight.dtype
    x, before = piece.x.to(dtype, copy=True).requires_grad_(), piece.before.to(dtype)
    key = None if piece.key is None else piece.key.to(dtype, copy=True).requires_grad_()
    state = attn.init_state(x.shape[0])
    if before.shape[1]:
        with torch.no_grad(), fused.kernels("never"):
            state = attn.steps(before, state)[1]
    y, state = attn.steps(x, state, key=key, lengths=piece.lengths, reset=piece.reset)
    attn.zero_grad()
    (y * slope.to(dtype)).sum().backward()
    gradients = {name: weight.grad for name, weight in attn.named_parameters()} | {"x": x.grad}
    return y.detach(), state, gradients if key is None else gradients | {"key": key.grad}


def check(attn: ns.MultiheadAttention, piece: Piece, tolerance: float = 1e-5) -> None:
    """The kernels give the state of torch up to rounding, and outputs and gradients as close to float64 as torch's."""
    slope = torch.randn_like(piece.x)
    y, state, gradients = run(attn, piece, slope)
    with fused.kernels("never"):
        exact_y, _, exact = run(in_float64(attn), piece, slope)
        torch_y, torch_state, torch_gradients = run(attn, piece, slope)
    # Some gradients are zero but for rounding; they are compared with the size of the others.
    floor = max(gradient.abs().max() for gradient in exact.values())
    tensors = {name: (gradients[name], torch_gradients[name], exact[name], floor) for name in exact}
    for name, (ours, theirs, expected, least) in (tensors | {"y": (y, torch_y, exact_y, 0.0)}).items():
        size = max(expected.norm(), least, 1e-30)
        error, usual = ((x - expected).norm() / size for x in (ours, theirs))
        assert error <= tolerance + 3 * usual, f"{name}: {error:.1e}, and {usual:.1e} in torch"
    for name, ours, theirs in zip(state._fields, state, torch_state, strict=True):
        tolerance = 1e-5 if name in FROM_LOGITS else 0.0
        torch.testing.assert_close(
            ours, theirs, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )

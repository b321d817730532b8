"""Att_CoNySi^Fix: fixed landmarks, newest row. The cost of a step hardly depends on n.

    Att = softmax(q_new K̃ᵀ / √d) Γ† · Δ_φ V,   Δ_φ V = the window's softmax-weighted sums of values, one per landmark

Δ_φ V slides with the window (`ops.window`): new tokens are combined in, and old ones are never subtracted. With a
decay, the logit of a token falls by λ per token of its age (`ops.decay`).

Cost of a step with `partials`: about d (2 L m + 5 L + 8 m) + h m², where d is the width of all h heads and L is
max(8, m). Long windows have several tiers of totals, about log₆(n / 3L); each after the first adds 2 d m + 10 d. With
`recompute`: about n d m. State: n (h m + d) numbers for the logits and values of the window, and the partials.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import fused, parallel, ring, window
from nystream.ops.attention import nystrom_fixed
from nystream.ops.attention.common import Fixed, weights
from nystream.ops.extended import Extended, of_ring
from nystream.ops.partials import Partial
from nystream.ops.precision import accumulate, accumulator
from nystream.ops.timeline import Timeline


class FixedState(NamedTuple):
    """Logits and values of the window, and its partial sums."""

    time: Tensor  # [B] tokens read so far
    ring_logit: Tensor  # [B, n, H, m]
    ring_value: Tensor  # [B, n, H, D]
    part_max: Tensor  # [B, S, H, m]
    part_sum: Tensor  # [B, S, H, m, D + 1]


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    lengths: Tensor | None = None,
    decay: Tensor | None = None,
) -> Tensor:
    """The newest r rows."""
    return nystrom_fixed.newest(q, k, v, cfg, fixed, lengths, cfg.update_size, decay)


def init_state(cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None = None) -> FixedState:
    acc = accumulator(dtype)
    shape = (batch, cfg.window, cfg.num_heads)
    return FixedState(
        torch.zeros(batch, dtype=torch.long, device=device),
        torch.full((*shape, cfg.m), -torch.inf, dtype=acc, device=device),
        torch.zeros(*shape, cfg.head_dim, dtype=dtype, device=device),
        *window.empty(cfg, batch, acc, device),
    )


def step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: FixedState,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    decay: Tensor | None = None,
) -> tuple[Tensor, FixedState]:
    assert fixed is not None
    sums, state = advance(k, v, state, cfg, fixed, decay)
    out = weights(q, fixed.k_tilde, fixed.gamma_pinv, cfg) @ sums
    return out.to(v.dtype), state


def advance(
    k: Tensor, v: Tensor, state: FixedState, cfg: AttentionConfig, fixed: Fixed, decay: Tensor | None = None
) -> tuple[Tensor, FixedState]:
    """Δ_φ V [B, H, m, D] with one more group in the window."""
    parts, time = Partial(state.part_max, state.part_sum), state.time + k.shape[2]
    logit = logits(k, fixed, cfg)
    window.push(cfg, parts, state.ring_logit, state.ring_value, state.time, logit, v.transpose(1, 2), decay)
    return window.delta_v(cfg, parts, state.ring_logit, state.ring_value, time, decay), state._replace(time=time)


def steps(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: FixedState,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    when: Timeline,
    decay: Tensor | None = None,
) -> tuple[Tensor, FixedState]:
    assert fixed is not None
    logit, value = extended_axis(k, v, state, cfg, fixed)
    out = _outputs(q, logit, value, cfg, fixed, when, decay)
    return out, roll_on(logit, value, state, cfg, when, decay)


def outputs(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: FixedState,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    when: Timeline,
    decay: Tensor | None = None,
) -> Tensor:
    """The outputs of `steps` alone."""
    assert fixed is not None
    return _outputs(q, *extended_axis(k, v, state, cfg, fixed), cfg, fixed, when, decay)


def _outputs(
    q: Tensor,
    logit: Extended,
    value: Extended,
    cfg: AttentionConfig,
    fixed: Fixed,
    when: Timeline,
    decay: Tensor | None,
) -> Tensor:
    if _folds(value, cfg, fixed):
        inverse = None if cfg.pinv == "none" else fixed.gamma_pinv
        row = fused.weights(accumulate(q), accumulate(fixed.k_tilde) * cfg.scale, inverse)  # [B, T, H, m]
    else:
        row = weights(q, fixed.k_tilde, fixed.gamma_pinv, cfg).transpose(1, 2)
    out = parallel.windowed(row, logit, value, cfg, when, decay)
    return out.transpose(1, 2).to(q.dtype)


def logits(k: Tensor, fixed: Fixed, cfg: AttentionConfig) -> Tensor:
    """[B, T, H, m]: logits of all landmarks with all keys."""
    return (accumulate(fixed.q_tilde) * cfg.scale @ accumulate(k).mT).permute(0, 3, 1, 2)


def extended_axis(
    k: Tensor, v: Tensor, state: FixedState, cfg: AttentionConfig, fixed: Fixed
) -> tuple[Extended, Extended]:
    """Logits and values on the extended axis: the rings, then the piece."""
    value = of_ring(state.ring_value, state.time, v)
    if _folds(value, cfg, fixed):
        logit = fused.logits(accumulate(fixed.q_tilde) * cfg.scale, accumulate(k))
    else:
        logit = logits(k, fixed, cfg)
    return Extended(state.ring_logit, logit, state.time), value


def _folds(value: Extended, cfg: AttentionConfig, fixed: Fixed) -> bool:
    """Whether kernels multiply landmarks with all tokens of a piece at once; rows may have landmarks of their own."""
    return cfg.single and fixed.q_tilde.dim() == 3 and fused.wanted(value.piece, value.piece.shape[1], cfg)


def roll_on(
    logit: Extended,
    value: Extended,
    state: FixedState,
    cfg: AttentionConfig,
    when: Timeline,
    decay: Tensor | None = None,
) -> FixedState:
    """The state after a piece of a stream; the partials are rebuilt from the rings."""
    rings = (state.ring_logit, logit.piece, -torch.inf), (state.ring_value, value.piece, 0.0)
    ring_logit, ring_value = ring.carry_on(rings, when.lengths, when.after)
    parts = window.rebuild(cfg, ring_logit, ring_value, when.after, decay)
    return FixedState(when.after, ring_logit, ring_value, *parts)

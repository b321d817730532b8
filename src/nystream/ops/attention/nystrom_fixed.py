"""Att_Ny^Fix: the Nyström approximation with landmarks that are fixed in advance.

    Att = softmax(Q K̃ᵀ / √d) · Γ† · softmax(Q̃ Kᵀ / √d) V,   Γ† computed once

A step keeps rings of q, k and v and recomputes the window. Cost: 4 n d m + h n m². State: 3 n d numbers.
"""

from __future__ import annotations

from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops.attention.common import Factors, Fixed, exists, low_rank, window_falls, zero_void
from nystream.ops.attention.full import RingState, init_state, push, recompute, roll_on
from nystream.ops.precision import accumulate
from nystream.ops.timeline import Timeline

__all__ = ["RingState", "factors", "forward", "init_state", "newest", "step", "steps"]


def forward(
    q: Tensor, k: Tensor, v: Tensor, cfg: AttentionConfig, fixed: Fixed | None, lengths: Tensor | None = None
) -> Tensor:
    """All n rows."""
    return zero_void(newest(q, k, v, cfg, fixed, lengths, cfg.window), lengths)


def newest(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    lengths: Tensor | None,
    rows: int,
    decay: Tensor | None = None,
) -> Tensor:
    """The last `rows` rows of the window."""
    assert fixed is not None
    valid = exists(lengths, cfg.window)
    mask = None if valid is None else valid[:, None, None, :]
    return low_rank(q[:, :, -rows:], k, v, fixed.q_tilde, fixed.k_tilde, fixed.gamma_pinv, cfg, mask, decay)


def factors(q: Tensor, k: Tensor, cfg: AttentionConfig, fixed: Fixed | None, decay: Tensor | None = None) -> Factors:
    """The factors of a full window."""
    assert fixed is not None
    beta = (accumulate(q) @ accumulate(fixed.k_tilde).mT * cfg.scale).softmax(-1)
    delta = accumulate(fixed.q_tilde) @ accumulate(k).mT * cfg.scale
    delta = (delta if decay is None else delta - window_falls(decay, cfg.window)).softmax(-1)
    return Factors(beta, fixed.gamma_pinv.expand(q.shape[0], -1, -1, -1), delta)


def step(
    q: Tensor, k: Tensor, v: Tensor, state: RingState, cfg: AttentionConfig, fixed: Fixed | None
) -> tuple[Tensor, RingState]:
    return recompute(forward, push(q, k, v, state), cfg, fixed)


def steps(
    q: Tensor, k: Tensor, v: Tensor, state: RingState, cfg: AttentionConfig, fixed: Fixed | None, when: Timeline
) -> tuple[Tensor, RingState]:
    return recompute(forward, roll_on(q, k, v, state, when), cfg, fixed)

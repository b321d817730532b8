"""Att_Ny: the Nyström approximation with segment means of the window as landmarks.

    Att_Ny = softmax(Q K̃ᵀ / √d) · Γ† · softmax(Q̃ Kᵀ / √d) V,   Γ = softmax(Q̃ K̃ᵀ / √d)

Until the window is full, it has no segments, and attention is exact. A step keeps rings of q, k and v and recomputes
the window. Cost: 4 n d m + h n m², and 4 h m³ per iteration of the inverse. State: 3 n d numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops.attention.common import Factors, Fixed, exact, gamma_pinv, low_rank, window_falls, zero_void
from nystream.ops.attention.full import RingState, init_state, push, recompute, roll_on
from nystream.ops.landmarks import segment_means
from nystream.ops.precision import accumulate
from nystream.ops.timeline import Timeline
from nystream.ops.tracing import tracing

__all__ = ["RingState", "factors", "forward", "init_state", "newest", "step", "steps"]


def forward(
    q: Tensor, k: Tensor, v: Tensor, cfg: AttentionConfig, fixed: Fixed | None = None, lengths: Tensor | None = None
) -> Tensor:
    """All n rows."""
    return zero_void(newest(q, k, v, cfg, lengths, cfg.window), lengths)


def newest(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    lengths: Tensor | None,
    rows: int,
    decay: Tensor | None = None,
) -> Tensor:
    """The last `rows` rows of the window; exact attention if it is not full."""
    q_tilde, k_tilde = landmarks(q, k, cfg)
    q = q[:, :, -rows:]
    out = low_rank(q, k, v, q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, cfg), cfg, None, decay)
    if lengths is None:
        return out
    filling = lengths < cfg.window
    if not tracing() and not bool(filling.any()):
        return out
    return torch.where(filling[:, None, None, None], exact(q, k, v, cfg, lengths, decay=decay), out)


def landmarks(q: Tensor, k: Tensor, cfg: AttentionConfig) -> tuple[Tensor, Tensor]:
    """Segment means of a full window."""
    return segment_means(accumulate(q), cfg.m), segment_means(accumulate(k), cfg.m)


def factors(
    q: Tensor, k: Tensor, cfg: AttentionConfig, fixed: Fixed | None = None, decay: Tensor | None = None
) -> Factors:
    """The factors of a full window."""
    q_tilde, k_tilde = landmarks(q, k, cfg)
    beta = (accumulate(q) @ k_tilde.mT * cfg.scale).softmax(-1)
    delta = q_tilde @ accumulate(k).mT * cfg.scale
    delta = (delta if decay is None else delta - window_falls(decay, cfg.window)).softmax(-1)
    return Factors(beta, gamma_pinv(q_tilde, k_tilde, cfg), delta)


def step(
    q: Tensor, k: Tensor, v: Tensor, state: RingState, cfg: AttentionConfig, fixed: Fixed | None = None
) -> tuple[Tensor, RingState]:
    return recompute(forward, push(q, k, v, state), cfg, fixed)


def steps(
    q: Tensor, k: Tensor, v: Tensor, state: RingState, cfg: AttentionConfig, fixed: Fixed | None, when: Timeline
) -> tuple[Tensor, RingState]:
    return recompute(forward, roll_on(q, k, v, state, when), cfg, fixed)

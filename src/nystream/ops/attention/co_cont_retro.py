"""Att_CoNyRe^Cont: continual landmarks, all rows.

    Att = B_φ Γ† · Δ_φ V

Between renewals the rows of B_φ Γ† are reused, and only the newest is computed. A renewal replaces one column of B,
exp(Q k̃_new); then all rows are normalized and multiplied by the new Γ†.

Cost: n d m per step more than `co_cont_single`, and n d + h n m² more at a renewal. State: that of `co_cont_single`,
and n (d + 2 h m) numbers for the queries, their logits and the rows of B_φ Γ†.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import gather, ring, window
from nystream.ops.attention import co_cont_single, full, nystrom
from nystream.ops.attention.co_cont_single import ContState, due, maybe, tilde
from nystream.ops.attention.common import Fixed, extend, gamma_pinv, low_rank, zero_void
from nystream.ops.attention.full import RingState
from nystream.ops.landmarks import schedule
from nystream.ops.partials import Partial
from nystream.ops.precision import accumulate, accumulator
from nystream.ops.timeline import Timeline

CONT_LEAVES = len(ContState._fields)


class ContRetroState(NamedTuple):
    """`ContState`, and the rows of the window."""

    time: Tensor  # [B] tokens read so far
    ring_key: Tensor  # [B, n, H, D]
    ring_value: Tensor  # [B, n, H, D]
    landmarks: Tensor  # [B, m, 2, H, D]
    pending: Tensor  # [B, 2, H, D]
    gamma_pinv: Tensor  # [B, H, m, m]
    ring_logit: Tensor  # [B, n, H, m]
    part_max: Tensor  # [B, S, H, m]
    part_sum: Tensor  # [B, S, H, m, D + 1]
    ring_query: Tensor  # [B, n, H, D]
    ring_beta: Tensor  # [B, n, H, m] logits of the queries with k̃
    ring_weight: Tensor  # [B, n, H, m] rows of B_φ Γ†


def forward(
    q: Tensor, k: Tensor, v: Tensor, cfg: AttentionConfig, fixed: Fixed | None = None, lengths: Tensor | None = None
) -> Tensor:
    """All n rows."""
    return nystrom.forward(q, k, v, cfg, fixed, lengths)


def init_state(
    cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None = None
) -> ContRetroState:
    shape, acc = (batch, cfg.window, cfg.num_heads), accumulator(dtype)
    return ContRetroState(
        *co_cont_single.init_state(cfg, batch, dtype, device),
        ring_query=torch.zeros(*shape, cfg.head_dim, dtype=dtype, device=device),
        ring_beta=torch.zeros(*shape, cfg.m, dtype=acc, device=device),
        ring_weight=torch.zeros(*shape, cfg.m, dtype=acc, device=device),
    )


def step(
    q: Tensor, k: Tensor, v: Tensor, state: ContRetroState, cfg: AttentionConfig, fixed: Fixed | None = None
) -> tuple[Tensor, ContRetroState]:
    before = state.time
    sums, base = co_cont_single.advance(q, k, v, ContState(*state[:CONT_LEAVES]), cfg)
    beta = (accumulate(q) @ tilde(base.landmarks, 1).mT * cfg.scale).transpose(1, 2)  # [B, r, H, m]
    ring.write(state.ring_query, before, q.transpose(1, 2))
    ring.write(state.ring_beta, before, beta)
    ring.write(state.ring_weight, before, _normalized(beta, base.gamma_pinv))
    plan = schedule(cfg.window, cfg.m, cfg.update_size, device=before.device)
    ring_beta, ring_weight = _renewed(state, base, due(before, plan, cfg), cfg)
    state = ContRetroState(*base, state.ring_query, ring_beta, ring_weight)
    return _rows(state, sums, cfg, v.dtype), state


def steps(
    q: Tensor, k: Tensor, v: Tensor, state: ContRetroState, cfg: AttentionConfig, fixed: Fixed | None, when: Timeline
) -> tuple[Tensor, ContRetroState]:
    old = ContState(*state[:CONT_LEAVES])
    key, value = extend(state.ring_key, state.time, k), extend(state.ring_value, state.time, v)
    base = co_cont_single.roll_on(key, value, co_cont_single.bank(q, k, old, cfg, when), old, cfg, when)
    query = extend(state.ring_query, state.time, q)
    ring_query = ring.roll_on(state.ring_query, query, when.lengths, when.after)
    beta = (accumulate(ring_query).transpose(1, 2) @ tilde(base.landmarks, 1).mT * cfg.scale).transpose(1, 2)
    state = ContRetroState(*base, ring_query, beta.contiguous(), _normalized(beta, base.gamma_pinv))
    parts = Partial(base.part_max, base.part_sum)
    sums = window.delta_v(cfg, parts, base.ring_logit, base.ring_value, base.time)
    return _rows(state, sums, cfg, v.dtype), state


def windows(
    q: Tensor, k: Tensor, v: Tensor, state: ContRetroState, cfg: AttentionConfig, when: Timeline, lengths: Tensor | None
) -> Tensor:
    """All rows after every group of a piece: q, k and v [B, H, G, n, D] -> [B G, H, n, D].

    Like `forward` over each window, but with the landmarks that were complete when its last group arrived.
    """
    r, m = cfg.update_size, cfg.m
    # The r newest tokens of every window are the piece.
    q_new, k_new = (x[..., -r:, :].flatten(2, 3) for x in (q, k))
    bank = co_cont_single.bank(q_new, k_new, ContState(*state[:CONT_LEAVES]), cfg, when)
    generation = bank.newest[:, ::r] - (m - 1)  # [B, G]
    chosen = generation[..., None] + torch.arange(m, device=generation.device)
    landmarks = gather.by_row(bank.landmarks, chosen).flatten(0, 1)  # [B G, m, 2, H, D]
    q_tilde, k_tilde = tilde(landmarks, 0), tilde(landmarks, 1)
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
    out = low_rank(q, k, v, q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, cfg), cfg, None)
    if lengths is None:
        return out
    early = full.forward(q, k, v, cfg, None, lengths)
    return zero_void(torch.where((lengths < cfg.window)[:, None, None, None], early, out), lengths)


def _normalized(beta: Tensor, inverse: Tensor) -> Tensor:
    """B_φ Γ† [B, T, H, m] of logits [B, T, H, m]."""
    return (beta.softmax(-1).transpose(1, 2) @ inverse).transpose(1, 2).contiguous()


def _renewed(state: ContRetroState, base: ContState, now: Tensor, cfg: AttentionConfig) -> tuple[Tensor, Tensor]:
    """Logits and rows of B_φ Γ† with the columns of new landmarks, in the batch rows that `now` [B] marks."""
    plan = schedule(cfg.window, cfg.m, cfg.update_size, device=now.device)

    def renew(
        ring_beta: Tensor, ring_query: Tensor, landmarks: Tensor, inverse: Tensor, time: Tensor
    ) -> tuple[Tensor, Tensor]:
        slots = plan.renewed[((time - 1) // cfg.update_size) % plan.renewed.shape[0]]  # [B, R]
        k_tilde = landmarks[ring.rows(time)[:, None], slots, 1].transpose(1, 2)  # [B, H, R, D]
        column = (accumulate(ring_query).transpose(1, 2) @ k_tilde.mT * cfg.scale).transpose(1, 2)
        beta = ring_beta.scatter(-1, slots[:, None, None, :].expand_as(column), column)
        return beta, _normalized(beta, inverse)

    beta, weight = state.ring_beta, state.ring_weight
    read = (state.ring_query, base.landmarks, base.gamma_pinv, base.time)
    if torch.compiler.is_compiling():

        def renew_some(beta: Tensor, weight: Tensor, now: Tensor, *read: Tensor) -> tuple[Tensor, ...]:
            pairs = zip(renew(beta, *read), (beta, weight), strict=True)
            return tuple(torch.where(now[:, None, None, None], new, old) for new, old in pairs)

        beta, weight = maybe(now.any(), renew_some, 2, (beta, weight, now, *read))
        return beta, weight
    some = now.nonzero()[:, 0]
    if some.numel():
        for leaf, new in zip((beta, weight), renew(*(x[some] for x in (beta, *read))), strict=True):
            leaf.index_copy_(0, some, new)
    return beta, weight


def _rows(state: ContRetroState, sums: Tensor, cfg: AttentionConfig, dtype: torch.dtype) -> Tensor:
    """All rows, oldest first; exact attention until the window is full."""
    out = (ring.unroll(state.ring_weight, state.time).transpose(1, 2) @ sums).to(dtype)

    def warm_up(out: Tensor, *rings: Tensor) -> tuple[Tensor]:
        time = rings[0]
        early = full.forward(*full.window(RingState(*rings)), cfg, None, time.clamp(max=cfg.window))
        return (torch.where((time < cfg.window)[:, None, None, None], early, out),)

    rings = (state.time, state.ring_query, state.ring_key, state.ring_value)
    (out,) = maybe((state.time < cfg.window).any(), warm_up, 1, (out, *rings))
    return zero_void(out, state.time.clamp(max=cfg.window))

"""Att_CoNySi^Cont: continual landmarks, newest row.

    Att = softmax(q_new K̃ᵀ / √d) Γ† · Δ_φ V

Q̃ and K̃ are means over segments. Every n/m tokens a segment is complete: its landmark replaces the oldest one, the row
of Δ_φ V of that landmark is summed over the window (n d), and Γ† is computed again. All other steps cost the same as
with fixed landmarks. Until the window is full there are no landmarks, and attention is exact.

Cost per step: that of `co_fixed_single`. At a renewal, with d the width of all h heads: 2 n d, and n d for every tier
of totals; d m²; and 4 h m³ per iteration of the inverse. State: n (2d + h m) numbers for the window,
2 d m + 2 d + h m² for the landmarks and their inverse, and the partials.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import generations, ring, window
from nystream.ops.attention import nystrom
from nystream.ops.attention.common import Fixed, banded, exact_ring, extend, gamma_pinv, weights
from nystream.ops.extended import of_whole
from nystream.ops.generations import Bank
from nystream.ops.landmarks import Schedule, Segments, collect, schedule
from nystream.ops.partials import Partial
from nystream.ops.precision import accumulate, accumulator
from nystream.ops.timeline import Timeline

Branch = Callable[..., tuple[Tensor, ...]]


class ContState(NamedTuple):
    """The window, the landmarks, and the partial sums of the window."""

    time: Tensor  # [B] tokens read so far
    ring_key: Tensor  # [B, n, H, D]
    ring_value: Tensor  # [B, n, H, D]
    landmarks: Tensor  # [B, m, 2, H, D] (q̃, k̃), each at the index of the one it replaced
    pending: Tensor  # [B, 2, H, D] sums of q and k over the unfinished segment
    gamma_pinv: Tensor  # [B, H, m, m]
    ring_logit: Tensor  # [B, n, H, m]
    part_max: Tensor  # [B, S, H, m]
    part_sum: Tensor  # [B, S, H, m, D + 1]


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    fixed: Fixed | None = None,
    lengths: Tensor | None = None,
    decay: Tensor | None = None,
) -> Tensor:
    """The newest r rows."""
    return nystrom.newest(q, k, v, cfg, lengths, cfg.update_size, decay)


def init_state(cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None = None) -> ContState:
    n, m, heads, dim, acc = cfg.window, cfg.m, cfg.num_heads, cfg.head_dim, accumulator(dtype)
    landmarks = torch.zeros(batch, m, 2, heads, dim, dtype=acc, device=device)
    schedule(n, m, cfg.update_size, device=landmarks.device)
    # The first product of meta tensors in a process takes a second, because torch imports its compiler.
    inverse = landmarks.new_empty(batch, heads, m, m) if landmarks.is_meta else _inverse(landmarks, cfg)
    return ContState(
        torch.zeros(batch, dtype=torch.long, device=device),
        torch.zeros(batch, n, heads, dim, dtype=dtype, device=device),
        torch.zeros(batch, n, heads, dim, dtype=dtype, device=device),
        landmarks,
        torch.zeros(batch, 2, heads, dim, dtype=acc, device=device),
        inverse,
        torch.full((batch, n, heads, m), -torch.inf, dtype=acc, device=device),
        *window.empty(cfg, batch, acc, device),
    )


def step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: ContState,
    cfg: AttentionConfig,
    fixed: Fixed | None = None,
    decay: Tensor | None = None,
) -> tuple[Tensor, ContState]:
    sums, state = advance(q, k, v, state, cfg, decay)
    out = (weights(q, tilde(state.landmarks, 1), state.gamma_pinv, cfg) @ sums).to(v.dtype)
    filling = state.time < cfg.window

    def warm_up(
        out: Tensor, q: Tensor, ring_key: Tensor, ring_value: Tensor, time: Tensor, *decay: Tensor
    ) -> tuple[Tensor]:
        early = exact_ring(q, ring_key, ring_value, time, cfg, *decay)
        return (torch.where((time < cfg.window)[:, None, None, None], early, out),)

    rates = () if decay is None else (decay,)
    (out,) = maybe(filling.any(), warm_up, 1, (out, q, state.ring_key, state.ring_value, state.time, *rates))
    return out, state


def advance(
    q: Tensor, k: Tensor, v: Tensor, state: ContState, cfg: AttentionConfig, decay: Tensor | None = None
) -> tuple[Tensor, ContState]:
    """Δ_φ V [B, H, m, D] with one more group in the window; landmarks that it completes are renewed."""
    before, time = state.time, state.time + cfg.update_size
    ring.write(state.ring_key, before, k.transpose(1, 2))
    plan = schedule(cfg.window, cfg.m, cfg.update_size, device=before.device)
    tokens = accumulate(torch.stack([q, k], 1)).permute(0, 3, 1, 2, 4)  # [B, r, 2, H, D]
    landmarks, pending = collect(state.landmarks, state.pending, tokens, before, plan)
    state = state._replace(time=time, landmarks=landmarks, pending=pending)
    logit = (accumulate(k) @ tilde(landmarks, 0).mT * cfg.scale).transpose(1, 2)  # [B, r, H, m]
    parts = Partial(state.part_max, state.part_sum)
    window.push(cfg, parts, state.ring_logit, state.ring_value, before, logit, v.transpose(1, 2), decay)
    state = _renewed(state, due(before, plan, cfg), plan, cfg, decay)
    parts = Partial(state.part_max, state.part_sum)
    return window.delta_v(cfg, parts, state.ring_logit, state.ring_value, time, decay), state


def steps(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: ContState,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    when: Timeline,
    decay: Tensor | None = None,
) -> tuple[Tensor, ContState]:
    key, value = extend(state.ring_key, state.time, k), extend(state.ring_value, state.time, v)
    landmarks = bank(q, k, state, cfg, when)
    out = _outputs(q, key, value, landmarks, cfg, when, decay)
    return out, roll_on(key, value, landmarks, state, cfg, when, decay)


def outputs(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: ContState,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    when: Timeline,
    decay: Tensor | None = None,
) -> Tensor:
    """The outputs of `steps` alone."""
    key, value = extend(state.ring_key, state.time, k), extend(state.ring_value, state.time, v)
    return _outputs(q, key, value, bank(q, k, state, cfg, when), cfg, when, decay)


def _outputs(
    q: Tensor,
    key: Tensor,
    value: Tensor,
    landmarks: Bank,
    cfg: AttentionConfig,
    when: Timeline,
    decay: Tensor | None,
) -> Tensor:
    out = generations.windowed(q.transpose(1, 2), key, value, landmarks, cfg, when, decay).transpose(1, 2)
    out, filling = out.to(value.dtype), when.end < cfg.window
    if bool(filling.any()):
        exact = banded(q, of_whole(key, cfg.window), of_whole(value, cfg.window), cfg, when, decay)
        out = torch.where(filling[:, None, :, None], exact, out)
    return out


def bank(q: Tensor, k: Tensor, state: ContState, cfg: AttentionConfig, when: Timeline) -> Bank:
    tokens = accumulate(torch.stack([q, k], 1)).permute(0, 3, 1, 2, 4)  # [B, T, 2, H, D]
    return generations.bank(tokens, state.landmarks, state.pending, state.time, when, Segments(cfg.window, cfg.m))


def roll_on(
    key: Tensor,
    value: Tensor,
    landmarks: Bank,
    state: ContState,
    cfg: AttentionConfig,
    when: Timeline,
    decay: Tensor | None = None,
) -> ContState:
    """The state after a piece of a stream: rings, landmarks, and everything that follows from them."""
    ring_key, ring_value = (
        ring.roll_on(old, ext, when.lengths, when.after)
        for old, ext in ((state.ring_key, key), (state.ring_value, value))
    )
    logit = _ring_logits(tilde(landmarks.after, 0), ring_key, when.after, cfg)
    parts = window.rebuild(cfg, logit, ring_value, when.after, decay)
    inverse = _inverse(landmarks.after, cfg)
    return ContState(when.after, ring_key, ring_value, landmarks.after, landmarks.pending, inverse, logit, *parts)


def tilde(landmarks: Tensor, which: int) -> Tensor:
    """q̃ (0) or k̃ (1) as [B, H, m, D]."""
    return landmarks[:, :, which].transpose(1, 2)


def due(before: Tensor, plan: Schedule, cfg: AttentionConfig) -> Tensor:
    """[B]: whether the group after `before` tokens completes a landmark."""
    return plan.done[(before // cfg.update_size) % plan.done.shape[0]].any(1)


def _inverse(landmarks: Tensor, cfg: AttentionConfig) -> Tensor:
    # Contiguous, as after loading from a file: a product with a transposed factor rounds differently.
    return gamma_pinv(tilde(landmarks, 0), tilde(landmarks, 1), cfg).contiguous()


def _ring_logits(q_tilde: Tensor, ring_key: Tensor, time: Tensor, cfg: AttentionConfig) -> Tensor:
    """[B, n, H, R]: logits of landmarks q̃ [B, H, R, D] with the keys of the ring, −inf in void slots."""
    logit = accumulate(ring_key).transpose(1, 2) @ q_tilde.mT * cfg.scale  # [B, H, n, R]
    return logit.transpose(1, 2).masked_fill(~ring.valid(time, cfg.window)[..., None, None], -torch.inf)


def _renewed(state: ContState, now: Tensor, plan: Schedule, cfg: AttentionConfig, decay: Tensor | None) -> ContState:
    """The state with new landmarks summed over the window, and a new Γ†, in the rows that `now` [B] marks."""

    def renew(
        inverse: Tensor,
        ring_logit: Tensor,
        part_max: Tensor,
        part_sum: Tensor,
        landmarks: Tensor,
        ring_key: Tensor,
        ring_value: Tensor,
        time: Tensor,
        *decay: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # If fewer than R landmarks are new, some old ones are summed again, with the same result.
        slots = plan.renewed[((time - 1) // cfg.update_size) % plan.renewed.shape[0]]  # [B, R]
        q_tilde = landmarks[ring.rows(time)[:, None], slots, 0].transpose(1, 2)  # [B, H, R, D]
        logit = _ring_logits(q_tilde, ring_key, time, cfg)
        parts = window.rebuild(cfg, logit, ring_value, time, decay[0] if decay else None, slots)
        rows = slots[:, None, None, :]
        ring_logit = ring_logit.scatter(-1, rows.expand_as(logit), logit)
        part_max = part_max.scatter(-1, rows.expand_as(parts.max), parts.max)
        part_sum = part_sum.scatter(-2, rows[..., None].expand_as(parts.sum), parts.sum)
        return _inverse(landmarks, cfg), ring_logit, part_max, part_sum

    # Assigned here, because torch.compile mixes up operands of torch.cond that are first named inside a branch.
    inverse, ring_logit, part_max, part_sum = state.gamma_pinv, state.ring_logit, state.part_max, state.part_sum
    changed = (inverse, ring_logit, part_max, part_sum)
    read = (state.landmarks, state.ring_key, state.ring_value, state.time)
    rates = () if decay is None else (decay,)
    if torch.compiler.is_compiling():

        def renew_some(now: Tensor, *x: Tensor) -> tuple[Tensor, ...]:
            return tuple(
                torch.where(now.reshape(-1, *[1] * (old.dim() - 1)), new, old)
                for new, old in zip(renew(*x), x[: len(changed)], strict=True)
            )

        leaves = maybe(now.any(), partial(renew_some, now), len(changed), (*changed, *read, *rates))
        return state._replace(gamma_pinv=leaves[0], ring_logit=leaves[1], part_max=leaves[2], part_sum=leaves[3])
    some = now.nonzero()[:, 0]
    if some.numel():
        for leaf, new in zip(changed, renew(*(x[some] for x in (*changed, *read)), *rates), strict=True):
            leaf.index_copy_(0, some, new)
    return state


def maybe(condition: Tensor, then: Branch, count: int, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """`then(*operands)` if the condition holds, else the first `count` operands unchanged.

    A Python branch, or `torch.cond` while a graph is traced, where both branches must return the same memory layout.
    """
    if not torch.compiler.is_compiling():
        return then(*operands) if bool(condition) else operands[:count]

    def taken(*x: Tensor) -> tuple[Tensor, ...]:
        return tuple(y.contiguous() for y in then(*x))

    def skipped(*x: Tensor) -> tuple[Tensor, ...]:
        return tuple(y.clone(memory_format=torch.contiguous_format) for y in x[:count])

    # Copied, because ExecuTorch (1.5) lets a second condition overwrite the results of the first.
    return tuple(y.clone() for y in torch.cond(condition, taken, skipped, operands))

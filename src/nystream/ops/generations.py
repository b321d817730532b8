"""Continual landmarks for a whole piece of a stream at once.

A generation is a run of n / m outputs with the same landmarks. Their windows differ only at the two ends: the oldest
segment leaves token by token while the next one arrives. So a generation has m partials over the tokens that all its
windows share, and at most 2 ⌈n/m⌉ edge tokens that are attended to explicitly. Γ† is batched over generations.

Rows need not be at the same phase: each row has its own segments, and streams may start anywhere.

Cost per token: 2 m² d + 2 (n/m) (m + d) multiply-adds, and m³ / (n/m) for the inverse.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import gather, parallel, partials, ring
from nystream.ops.attention.common import gamma_pinv, weights
from nystream.ops.decay import falls
from nystream.ops.landmarks import Segments
from nystream.ops.partials import Partial
from nystream.ops.precision import accumulate
from nystream.ops.timeline import Timeline


class Bank(NamedTuple):
    """All landmarks of a piece, in order of completion: m from before the piece, then its own."""

    landmarks: Tensor  # [B, m + I, 2, H, D] (q̃, k̃)
    newest: Tensor  # [B, T] index of the newest landmark when a token attends
    after: Tensor  # [B, m, 2, H, D] landmarks after the piece, in their slots
    pending: Tensor  # [B, 2, H, D] sum of the unfinished segment after the piece


class Block(NamedTuple):
    """Generations in parallel, and the places that each reads."""

    query: Tensor  # [B, G, Q]
    edges: Tensor  # [B, G, E]
    middle: Tensor  # [B, G, M]
    start: Tensor  # [B, G, Q, 1] first place of each query's window
    end: Tensor  # [B, G, Q, 1] and the last


def bank(tokens: Tensor, landmarks: Tensor, pending: Tensor, time: Tensor, when: Timeline, seg: Segments) -> Bank:
    """The landmarks of a piece: tokens [B, T, 2, H, D] (q, k) after a state with `landmarks`, `pending` and `time`."""
    b, m, length = ring.rows(time), seg.segments, tokens.shape[1]
    k = seg.of(when.time)
    opens = (when.time - 1) % seg.length == seg.start(k)
    number = opens.long().cumsum(1) - opens[:, :1].long()  # [B, T] number of each token's segment, from 0
    total = int(number.max()) + 1
    real = torch.arange(length, device=time.device) < when.lengths[:, None]
    into = torch.where(real, number, total)  # padding goes into an extra, unused segment
    sums = torch.zeros(tokens.shape[0], total + 1, *tokens.shape[2:], dtype=pending.dtype, device=pending.device)
    carried = torch.where(opens[:, 0, None, None, None], torch.zeros_like(pending), pending)
    sums = sums.index_put((b, torch.zeros_like(b)), carried)
    sums = gather.add(sums, into, tokens)
    size = torch.ones_like(sums[:, :, 0, 0, 0]).scatter(1, into, seg.size(k).to(sums.dtype))
    means = sums / size[..., None, None, None]

    order = torch.arange(m, device=time.device)
    before = (seg.completed(time)[:, None] + order) % m  # slots, oldest landmark first
    stored = torch.cat([landmarks[b[:, None], before], means[:, :total]], 1)

    attends = torch.arange(length, device=time.device) + when.end - when.time  # [B, T] last place of the group
    newest = m - 1 + number.gather(1, attends) + seg.ends(when.end).long()

    last = (when.lengths - 1).clamp(min=0)[:, None]
    moved, complete = when.lengths > 0, seg.ends(when.after)
    final = torch.where(moved, m - 1 + number.gather(1, last)[:, 0] + complete.long(), m - 1)
    done = seg.completed(when.after)[:, None]
    after = stored[b[:, None], final[:, None] - m + 1 + order]
    after = torch.where((done - m + order >= 0)[..., None, None, None], after, torch.zeros_like(after))
    slots = (done + order) % m
    after = torch.empty_like(after).index_put((b[:, None], slots), after)
    unfinished = torch.where(
        (complete | (when.after == 0))[:, None, None, None], 0.0, sums[b, number.gather(1, last)[:, 0]]
    )
    return Bank(stored, newest, after, torch.where(moved[:, None, None, None], unfinished, pending))


def windowed(
    q: Tensor,
    key: Tensor,
    value: Tensor,
    bank: Bank,
    cfg: AttentionConfig,
    when: Timeline,
    decay: Tensor | None = None,
) -> Tensor:
    """β_φ Γ† Δ_φ V of every token whose window is full.

    q [B, T, H, D]; key and value [B, n + T, H, D] on the extended axis. Returns [B, T, H, D].
    """
    n, m, length = cfg.window, cfg.m, q.shape[1]
    seg = Segments(n, m)
    bad = ~(key.isfinite().all(-1) & value.isfinite().all(-1))  # [B, n + T, H]
    key, value = (x.masked_fill(bad[..., None], 0.0) for x in (key, value))
    lost = ~bank.landmarks.isfinite().all(-1).all(2)  # [B, m + I, H]
    landmarks = bank.landmarks.masked_fill(lost[:, :, None, :, None], 0.0)

    generation = bank.newest - (m - 1)  # [B, T]
    count = landmarks.shape[1] - m + 1
    place = torch.arange(length, device=q.device).expand_as(generation)
    first = torch.full_like(generation[:, :1].expand(-1, count), length - 1).scatter_reduce(
        1, generation, place, "amin", include_self=True
    )
    width = cfg.update_size * -(-seg.longest // cfg.update_size)  # the largest number of queries of a generation
    query = (first[..., None] + torch.arange(width, device=q.device)).clamp(max=length - 1)  # [B, G, Q]
    renewed = when.window_end(n) - when.end + seg.renewed_at(when.end)  # place of the renewal
    origin = renewed.gather(1, first)[..., None] - n + 1  # [B, G, 1] first place of the generation's first window
    span = origin + torch.arange(n + seg.longest - 1, device=q.device)
    edges = torch.cat([span[..., : seg.longest], span[..., max(n, seg.longest) :]], -1)
    middle = span[..., seg.longest : n]
    start, end = (x[ring.rows(q)[:, None, None], query][..., None] for x in (when.window_start(n), when.window_end(n)))

    per_generation = q.shape[0] * span.shape[-1] * q.shape[2] * (q.shape[3] + m)
    # Generations overlap m-fold, so gathering all of them at once would take T m d numbers.
    piece = max(1, parallel.AT_ONCE // per_generation)
    blocks = Block(query, edges, middle, start, end)
    outs = []
    for at in range(0, count, piece):
        some = Block(*(x[:, at : at + piece] for x in blocks))
        runs = torch.arange(at, at + some.query.shape[1], device=q.device)[:, None] + torch.arange(m, device=q.device)
        q_tilde, k_tilde = gather.at(landmarks, runs).movedim(2, -2).unbind(2)  # [B, g, H, m, D]
        outs.append(_attend(some, q_tilde, k_tilde, q, key, value, cfg, decay))
    rank = (place - first.gather(1, generation)).clamp(max=width - 1)
    out = torch.cat(outs, 1)[ring.rows(q)[:, None], generation, :, rank]  # [B, T, H, D]
    gone = lost.unfold(1, m, 1).any(-1)[ring.rows(q)[:, None], generation]  # [B, T, H]
    return out.masked_fill((gone | parallel.spoiled(bad, n, when))[..., None], torch.nan)


def _attend(
    block: Block,
    q_tilde: Tensor,
    k_tilde: Tensor,
    q: Tensor,
    key: Tensor,
    value: Tensor,
    cfg: AttentionConfig,
    decay: Tensor | None,
) -> Tensor:
    """Outputs [B, g, H, Q, D] of some generations."""
    query, edges, middle, start, end = block
    weight = weights(_gather(q, query), k_tilde, gamma_pinv(q_tilde, k_tilde, cfg), cfg)  # [B, g, H, Q, m]
    shared = None
    if middle.shape[-1]:
        logit = _gather(key, middle) @ q_tilde.mT * cfg.scale  # [B, g, H, M, m]
        if decay is not None:
            logit = logit - falls(decay, edges[..., -1:] - middle)[..., None]
        part = partials.of_tokens(logit, _gather(value, middle))
        shared = Partial(part.max.unsqueeze(-2), part.sum)
    seen = (edges.unsqueeze(-2) >= start) & (edges.unsqueeze(-2) <= end)  # [B, g, Q, E]
    logit = q_tilde @ _gather(key, edges).mT * cfg.scale  # [B, g, H, m, E]
    if decay is not None:  # all ages count from the last place that any query of the generation sees
        logit = logit - falls(decay, edges[..., -1:] - edges).unsqueeze(-2)
    return partials.attend(weight, shared, logit, seen[:, :, None], _gather(value, edges))


def _gather(x: Tensor, places: Tensor) -> Tensor:
    """x [B, T, H, D] at places [B, g, L] -> [B, g, H, L, D]; the caller masks places off the axis."""
    return accumulate(gather.by_row(x, places.clamp(0, x.shape[1] - 1))).transpose(2, 3)

"""A sliding window over `partials`: one group in, one group out, nothing subtracted, the same work at every step.

The window has N groups of r tokens each, N = n / r, and is cut as `cut` describes. A push adds the new group to the
running total of its block in every tier, and renews the middle of the landmarks that begin a new block. A read combines
the middle with the edges. Constant tables, indexed by the phase (the number of groups so far, mod N), say which tokens
and slots these read and write. Where fewer landmarks begin a block than at other phases, those that began last are
summed again, with the same result. So there are no branches, and the rows of a batch may be at different phases.

Slots: 0 identity, 1 the middle, then the totals of all tiers. The total of a block that is being overwritten has only
its new groups.

Cost of a push and a read, for r = 1 and blocks of L >= m tokens: 2 L m multiplications per column of the values for the
edges, 2 S − L for the middle of one landmark, where S is the length of a block of tier 1, and a few m for totals and
combines, which grow with the number of tiers, as log n. State: 2 + K₁ + K₂ + ... partials.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nystream.ops import partials, ring
from nystream.ops.constants import per_device
from nystream.ops.cut import Array, Cut, Events, cut, sizes
from nystream.ops.partials import FLOOR, Partial, select

IDENTITY, MIDDLE, TOTALS = 0, 1, 2


def slots(groups: int, update_size: int, landmarks: int) -> int:
    """Number of partials of a window."""
    return TOTALS + cut(groups, update_size, landmarks).totals


class Table(NamedTuple):
    """What a push and a read do at every phase.

    A push sums R landmarks: those that begin a block with the new group, and those that began before them.
    """

    landmark: Tensor  # [N, R]
    group: Tensor  # [N, R, P] the groups that join their middle, or the first one after the edges
    void: Tensor  # [N, R, P] where `group` is the latter
    end: Tensor  # [N, R] the newest group in the middle
    joins: Tensor  # [N, R, Q] the totals that join it, then identities
    join_age: Tensor  # [N, R, Q] groups from the end of each of those to the end of the middle
    total: Tensor  # [N, tiers] slots of the totals that the new group joins
    grown: Tensor  # [N, tiers] the same, or the identity where the new group is the first
    edge: Tensor  # [N, E] groups that are edges of some landmark
    other: Tensor  # [N, E, 1, m] landmarks of which they are not
    passed: Tensor  # [N, m] groups since the end of every landmark's middle
    first: Tensor  # [N, m] the first edge of every landmark, −N to N
    last: Tensor  # [N, m] the first group after it that is not


@per_device
def table(groups: int, update_size: int, landmarks: int) -> Table:
    """The table of a window of N = `groups` groups of `update_size` tokens, for m = `landmarks` landmarks."""
    c, m = cut(groups, update_size, landmarks), landmarks
    begins, place = c.begins(m), np.arange(groups)
    events, after = c.events(m), np.vstack([begins[1:], begins[:1] + groups])
    begin = events.begin
    group, void, joins = _middles(c, events)
    begun = np.searchsorted(begin, place, side="right")  # number of events so far
    most = int(np.diff(begun, prepend=0).max())
    event = (begun[:, None] - 1 - np.arange(most)) % len(begin)  # [N, R]
    total, grown, newest = [], [], [np.zeros(TOTALS, np.int64)]
    for tier in range(1, len(c.tiers) + 1):
        bounds = c.bounds(tier)
        index = np.searchsorted(bounds, place, side="right") - 1
        total.append(_slots_before(c, tier) + index)
        grown.append(np.where(bounds[index] == place, IDENTITY, total[-1]))
        newest.append(bounds[1:] - 1)
    join_age = (begin[:, None] - 1 - np.concatenate(newest)[joins]) % groups
    block = np.searchsorted(begins[:, 0], place, side="right") - 1
    own, before = begins[block], np.vstack([begins[-1:] - groups, begins[:-1]])[block]  # [N, m]
    started = own <= place[:, None]
    first, last = np.where(started, own, before), np.where(started, after[block], own)
    edge = first.min(1, keepdims=True) + np.arange(2 * c.longest_edges)  # [N, E]
    other = (edge[..., None] < first[:, None]) | (edge[..., None] >= last[:, None])
    columns = (
        events.landmark[event],
        group[event],
        void[event],
        (begin[event] - 1) % groups,
        joins[event],
        join_age[event],
        np.stack(total, 1) if total else np.zeros((groups, 0), np.int64),
        np.stack(grown, 1) if total else np.zeros((groups, 0), np.int64),
        edge % groups,
        other[:, :, None],
        place[:, None] + 1 - first,
        first,
        last,
    )
    return Table(*(torch.from_numpy(np.ascontiguousarray(column)) for column in columns))


def _slots_before(c: Cut, tier: int) -> int:
    return TOTALS + sum(c.tiers[: tier - 1])


def _middles(c: Cut, events: Events) -> tuple[Array, Array, Array]:
    """Groups [events, P], which of these places are void, and totals [events, Q] that join the middles."""
    spare = events.following % c.groups  # in the middle: the first group after the edges
    near, *far = c.middles(events)
    group, void = _listed(near, spare)
    joins = [
        np.where(none, IDENTITY, _slots_before(c, tier) + index)
        for tier, (index, none) in enumerate((_listed(runs, spare) for runs in far), 1)
    ]
    return group, void, np.concatenate([np.zeros((len(spare), 0), np.int64), *joins], 1)


def _listed(runs: Array, spare: Array) -> tuple[Array, Array]:
    """[events, P]: the items of two runs [events, 4], or `spare` in void places, and which places are void."""
    first, size = runs[:, 1:2] - runs[:, :1], sizes(runs)
    place = np.arange(max(1, size.max()))
    item = np.where(place < first, runs[:, :1] + place, runs[:, 2:3] + place - first)
    void = place >= size[:, None]
    return np.where(void, spare[:, None], item), void


def push(
    parts: Partial,
    ring_logit: Tensor,
    ring_value: Tensor,
    time: Tensor,
    logit: Tensor,
    value: Tensor,
    decay: Tensor | None = None,
) -> None:
    """Add a group, in place: logit [B, r, H, m], value [B, r, H, D]; `time` is the time before it.

    The rings do not have the group yet; the middles that are summed do not contain it.
    """
    r, heads, m = logit.shape[1:]
    groups = ring_logit.shape[1] // r
    t = table(groups, r, m, device=time.device)
    phase = (time // r) % groups
    if t.total.shape[1]:
        _join_totals(parts, t, phase, logit, value, decay)
    landmark, group = t.landmark[phase], t.group[phase]  # [B, R], [B, R, P]
    b, h = ring.rows(time)[:, None, None], torch.arange(heads, device=time.device)
    own = landmark[:, :, None, None]
    if r == 1:
        near = ring_logit[b[..., None], group[..., None], h, own].unsqueeze(3)  # [B, R, P, r, H]
    else:
        token = torch.arange(r, device=time.device)[:, None]
        near = ring_logit.unflatten(1, (-1, r))[b[..., None, None], group[..., None, None], token, h, own[..., None]]
    if decay is not None:
        age = (t.end[phase][..., None] + groups - group) % groups
        near = near - (_within_group(decay, r) + _by_groups(decay, age, r).unsqueeze(-3))[..., 0]
    near = near.masked_fill(t.void[phase][..., None, None], -torch.inf).flatten(2, 3)  # [B, R, P r, H]
    largest = near.amax(2).clamp(min=FLOOR)  # [B, R, H]
    far = (b[..., None], t.joins[phase][..., None], h, own)  # [B, R, Q, H]
    if t.joins.shape[-1]:
        above = parts.max[far]
        if decay is not None:
            above = above - _by_groups(decay, t.join_age[phase], r)[..., 0]
        largest = torch.maximum(largest, above.amax(2))
    # A void place repeats a group of the middle, so a NaN there is one that the middle has anyway.
    values = ring_value.unflatten(1, (-1, r))[b, group].to(logit.dtype).flatten(2, 3)  # [B, R, P r, H, D]
    weight = (near - largest.unsqueeze(2)).exp_().transpose(2, 3)  # [B, R, H, P r]
    summed = partials.with_ones((weight.unsqueeze(-2) @ values.transpose(2, 3)).squeeze(-2))  # [B, R, H, D + 1]
    summed[..., -1] = weight.sum(-1)
    if t.joins.shape[-1]:
        weight = (above - largest.unsqueeze(2)).exp_().transpose(2, 3)
        summed += (weight.unsqueeze(-2) @ parts.sum[far].transpose(2, 3)).squeeze(-2)
    into = (b, h, landmark[..., None])
    parts.max[:, MIDDLE].index_put_(into, largest)
    parts.sum[:, MIDDLE].index_put_(into, summed)


def _join_totals(parts: Partial, t: Table, phase: Tensor, logit: Tensor, value: Tensor, decay: Tensor | None) -> None:
    """Add a group to the totals of the blocks that it is in, in place."""
    r, b, into = logit.shape[1], ring.rows(phase)[:, None], t.total[phase]  # [B, tiers]
    if decay is not None:
        logit = logit - _within_group(decay, r)
    new = partials.of_tokens(logit.transpose(1, 2), value.transpose(1, 2))
    older = select(parts, b, t.grown[phase])
    if decay is not None:
        older = partials.aged(older, r * decay[:, None])
    grown = partials.combine(older, select(new, slice(None), None))
    parts.max.index_put_((b, into), grown.max)
    parts.sum.index_put_((b, into), grown.sum)


def read(
    parts: Partial,
    ring_logit: Tensor,
    ring_value: Tensor,
    time: Tensor,
    r: int,
    decay: Tensor | None = None,
) -> Tensor:
    """Δ_φ V [B, H, m, D] of the window; `time` is the time after the newest group, which is in the rings."""
    n, m = ring_logit.shape[1], ring_logit.shape[3]
    groups = n // r
    t = table(groups, r, m, device=time.device)
    b, place = ring.rows(time)[:, None], (time // r - 1) % groups
    group = t.edge[place]  # [B, E]
    logit, value = (x.unflatten(1, (-1, r))[b, group] for x in (ring_logit, ring_value))  # [B, E, r, H, .]
    if decay is not None:
        age = (place[:, None] + groups - group) % groups
        logit = logit - _within_group(decay, r) - _by_groups(decay, age, r).unsqueeze(-3)
    # All of these tokens are in the window, so no NaN among them needs to be hidden.
    logit, value = logit.masked_fill(t.other[place].unsqueeze(2), -torch.inf), value.to(logit.dtype)
    edges = partials.of_tokens(logit.flatten(1, 2).transpose(1, 2), value.flatten(1, 2).transpose(1, 2))
    middle = select(parts, slice(None), MIDDLE)
    if decay is not None:
        middle = partials.aged(middle, r * decay[:, None] * t.passed[place].unsqueeze(1))
    return partials.mean(partials.combine(edges, middle))


def rebuild(
    ring_logit: Tensor,
    ring_value: Tensor,
    time: Tensor,
    r: int,
    m: int,
    decay: Tensor | None = None,
    landmark: Tensor | None = None,
) -> Partial:
    """Compute all partials from the rings, in O(n m d). Void tokens have a logit of −inf.

    `ring_logit` has the m landmarks, or those that `landmark` [B, R] names.
    """
    groups = ring_logit.shape[1] // r
    c, t = cut(groups, r, m), table(groups, r, m, device=time.device)
    place = (time // r - 1) % groups  # of the newest group
    first, last = t.first[place], t.last[place]
    if landmark is not None:
        first, last = first.gather(1, landmark), last.gather(1, landmark)
    logit, value = ring_logit.unflatten(1, (-1, r)), ring_value.unflatten(1, (-1, r))  # [B, N, r, H, .]
    if decay is not None:
        logit = logit - _within_group(decay, r)
    middle = _rebuild_middle(logit, value, first, last, r, decay)
    identity = Partial(torch.full_like(middle.max, FLOOR), torch.zeros_like(middle.sum))
    parts = [select(part, slice(None), None) for part in (identity, middle)]
    for tier in range(1, len(c.tiers) + 1):
        bounds = torch.from_numpy(c.bounds(tier)).to(time.device)
        inside = torch.arange(int((bounds[1:] - bounds[:-1]).max()), device=time.device)
        at = bounds[:-1, None] + inside  # [K, S] the groups of every block
        real = at < bounds[1:, None]
        at = at.clamp(max=groups - 1)
        # The block that is being overwritten has its new groups only.
        own = (bounds[:-1] <= place[:, None]) & (place[:, None] < bounds[1:])  # [B, K]
        real = real & (~own[..., None] | (at <= place[:, None, None]))
        some_logit = logit[:, at]
        if decay is not None:
            end = torch.where(own, place[:, None], bounds[1:] - 1)
            some_logit = some_logit - _by_groups(decay, end[..., None] - at, r).unsqueeze(-3)
        parts.append(_of_groups(some_logit, value[:, at], real))
    return Partial(torch.cat([part.max for part in parts], 1), torch.cat([part.sum for part in parts], 1))


def _rebuild_middle(logit: Tensor, value: Tensor, first: Tensor, last: Tensor, r: int, decay: Tensor | None) -> Partial:
    """The middle of landmarks whose edges are the groups first ... last − 1 [B, R]."""
    groups = logit.shape[1]
    group = torch.arange(groups, device=logit.device)[:, None]
    edge = (group + groups - first[:, None]) % groups < (last - first)[:, None]  # [B, N, R]
    if decay is not None:
        age = (first[:, None] + 2 * groups - 1 - group) % groups
        logit = logit - (r * age)[:, :, None, None] * decay[:, None]
    # A landmark's own edges must not reach its middle, not even as a NaN times zero: values that are not finite are
    # replaced by zero, and make the weights NaN instead.
    bad = ~value.isfinite().all(-1, keepdim=True)
    logit = torch.where(bad, torch.nan, logit).masked_fill(edge[:, :, None, None], -torch.inf)
    value = value.masked_fill(bad, 0.0).to(logit.dtype)
    return partials.of_tokens(logit.flatten(1, 2).transpose(1, 2), value.flatten(1, 2).transpose(1, 2))


def _of_groups(logit: Tensor, value: Tensor, real: Tensor) -> Partial:
    """Partials over groups [B, ., L, r, H, .], of which `real` [B, ., L] exist.

    Values that do not exist are replaced, too: a weight of zero does not hide a NaN.
    """
    logit = logit.masked_fill(~real[..., None, None, None], -torch.inf)
    value = value.masked_fill(~real[..., None, None, None], 0.0).to(logit.dtype)
    return partials.of_tokens(logit.flatten(-4, -3).transpose(-3, -2), value.flatten(-4, -3).transpose(-3, -2))


def _within_group(decay: Tensor, r: int) -> Tensor:
    """[r, H, 1]: how far the logits of a group's tokens fall by the group's last token."""
    return torch.arange(r - 1, -1, -1, device=decay.device)[:, None, None] * decay[:, None]


def _by_groups(decay: Tensor, age: Tensor, r: int) -> Tensor:
    """[..., H, 1]: how far logits fall in `age` [...] groups."""
    return (r * age)[..., None, None] * decay[:, None]

"""Softmax-weighted sums as triples that combine without subtraction.

A set of tokens, seen by one landmark, is summed up by a triple: the largest logit c, the sum s of exp(l − c), and the
vector u of exp(l − c) v. Two triples of disjoint sets combine by rescaling both to the larger c. This is associative
and commutative and has an identity.

Everywhere in the code a triple is a partial sum, or partial: `Partial` here, the leaves `part_max` and `part_sum` in
states. s is stored as the last column of u, so a partial sum is a pair of tensors:

    max  [..., m]          c, never below FLOOR
    sum  [..., m, D + 1]   [u, s]

The identity has c = FLOOR, which is finite, because −inf − (−inf) is NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from nystream.ops.tracing import tracing

FLOOR = -1e30

# Logits whose differences are smaller than this can share one maximum: exp(±60) is well inside the range of float32.
SPREAD = 60.0


class Partial(NamedTuple):
    """A softmax-weighted sum over a set of tokens, not yet normalized."""

    max: Tensor
    sum: Tensor


def select(part: Partial, *index: Any) -> Partial:
    """The same entries of both tensors; `index` refers to dimensions that they share."""
    return Partial(part.max[index], part.sum[index])


def with_ones(value: Tensor) -> Tensor:
    """[v, 1]: the ones add up to s."""
    return pad(value, (0, 1), value=1.0)


def of_tokens(logit: Tensor, value: Tensor) -> Partial:
    """The partial sum of the tokens along the second-to-last dimension.

    logit [..., T, m], value [..., T, D] -> max [..., m], sum [..., m, D + 1]. A logit of −inf marks a void token.
    """
    # The result does not depend on c, so no gradient needs to flow through it.
    largest = logit.detach().amax(-2).clamp(min=FLOOR)
    weight = (logit - largest.unsqueeze(-2)).exp_()
    return Partial(largest, weight.mT @ with_ones(value))


def combine(a: Partial, b: Partial) -> Partial:
    """The partial sum of the union of two disjoint sets."""
    largest = torch.maximum(a.max, b.max)
    scale_a, scale_b = ((part.max - largest).exp().unsqueeze(-1) for part in (a, b))
    return Partial(largest, torch.addcmul(a.sum * scale_a, b.sum, scale_b))


def aged(part: Partial, fall: Tensor) -> Partial:
    """The partial sum with all its logits lowered by `fall`, which broadcasts to `max`."""
    return Partial(part.max - fall, part.sum)


def mean(part: Partial) -> Tensor:
    """u / s [..., m, D]: the softmax-weighted mean of the values; zero for the empty set."""
    s = part.sum[..., -1:]
    return part.sum[..., :-1] / torch.where(s == 0, torch.ones_like(s), s)


def attend(weight: Tensor, shared: Partial | None, logit: Tensor, seen: Tensor, value: Tensor) -> Tensor:
    """Σᵢ wᵢ · (softmax-weighted mean under landmark i), for queries that share most of their window.

    Every query of a block sees all tokens of `shared` and those of the E edge tokens that `seen` marks. The sum over
    landmarks is taken first, so no array of queries × m × D is formed.

    weight [..., Q, m], shared (max [..., 1 or Q, m], sum [..., m, D + 1]) or None, logit [..., m, E],
    seen [..., Q, E], value [..., E, D] -> [..., Q, D]. A query that does not see `shared` has a max of FLOOR there.
    """
    largest = logit.detach().amax(-1)
    if shared is not None:
        largest = torch.maximum(largest, shared.max.amax(-2))
    largest = largest.clamp(min=FLOOR)  # [..., m]
    smallest = logit.detach().masked_fill(logit == -torch.inf, torch.inf).amin(-1)
    if not tracing() and bool((largest - smallest < SPREAD).all()):
        return _attend_close(weight, shared, logit, seen, value, largest)
    return _attend_far(weight, shared, logit, seen, value)


def _attend_close(
    weight: Tensor, shared: Partial | None, logit: Tensor, seen: Tensor, value: Tensor, largest: Tensor
) -> Tensor:
    """One exponential per token, for logits so close together that no query's sum underflows."""
    share = (logit - largest.unsqueeze(-1)).exp_()  # [..., m, E]
    counted = seen.to(share.dtype)
    total = counted @ share.mT  # [..., Q, m]
    if shared is not None:
        rescale = (shared.max - largest.unsqueeze(-2)).exp_()
        total = total + rescale * shared.sum[..., -1].unsqueeze(-2)
    weight = _divided(weight, total)
    out = ((weight @ share) * counted) @ value  # [..., Q, E] @ [..., E, D]
    return out if shared is None else out + (weight * rescale) @ shared.sum[..., :-1]


def _attend_far(weight: Tensor, shared: Partial | None, logit: Tensor, seen: Tensor, value: Tensor) -> Tensor:
    """One exponential per query and token, relative to the query's own maximum: correct for any logits."""
    hidden = torch.zeros(seen.shape, dtype=logit.dtype, device=logit.device).masked_fill_(~seen, -torch.inf)
    edge = logit.unsqueeze(-3) + hidden.unsqueeze(-2)  # [..., Q, m, E]
    largest = edge.detach().amax(-1)
    if shared is not None:
        largest = torch.maximum(largest, shared.max)
    largest = largest.clamp(min=FLOOR)  # [..., Q, m]
    share = edge.sub_(largest.unsqueeze(-1)).exp_()  # in place, as this is the largest array of all
    total = share.sum(-1)
    if shared is not None:
        rescale = (shared.max - largest).exp_()
        total = total + rescale * shared.sum[..., -1].unsqueeze(-2)
    weight = _divided(weight, total)
    out = (weight.unsqueeze(-2) @ share).squeeze(-2) @ value  # [..., Q, E] @ [..., E, D]
    return out if shared is None else out + (weight * rescale) @ shared.sum[..., :-1]


def _divided(weight: Tensor, total: Tensor) -> Tensor:
    """w / s, or zero for a query that sees no token.

    The second factor is 1, and has the gradient by s. That of a plain quotient computes w / s² first, which overflows
    where s is below exp(−44).
    """
    total = torch.where(total == 0, torch.ones_like(total), total)
    constant = total.detach()
    return weight / constant * (constant / total)

"""The one algebra: softmax-weighted sums as triples that combine and never subtract.

A set of tokens, seen by one landmark row, is summed up by the largest logit c, the sum s of exp(l − c) and the vector
u of exp(l − c) v. Two triples of disjoint sets combine by rescaling both to the larger c: associative, commutative,
with an identity. Here s rides along as the last column of u, so a triple is a pair of tensors:

    top   [..., m]          c, never below FLOOR
    mass  [..., m, D + 1]   [u, s]

The identity has c = FLOOR, a large finite number, because −inf − (−inf) is not a number.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from nystream.ops.tracing import tracing

FLOOR = -1e30

# Logits that differ by less can share one reference: exp(−60) and its inverse are far from the ends of float32.
SPREAD = 60.0


class Partial(NamedTuple):
    """A softmax-weighted sum in the making."""

    top: Tensor
    mass: Tensor


def with_ones(value: Tensor) -> Tensor:
    """[v, 1]: the ones add up to s."""
    return pad(value, (0, 1), value=1.0)


def of_tokens(logit: Tensor, value: Tensor) -> Partial:
    """The triple of the tokens along the dimension before last.

    logit [..., T, m], value [..., T, D] -> top [..., m], mass [..., m, D + 1]. A logit of −inf marks a void token.
    """
    # The result does not depend on c, so no gradient need flow through it.
    top = logit.detach().amax(-2).clamp(min=FLOOR)
    weight = (logit - top.unsqueeze(-2)).exp_()
    return Partial(top, weight.mT @ with_ones(value))


def combine(a: Partial, b: Partial) -> Partial:
    """The triple of the union of two disjoint sets."""
    top = torch.maximum(a.top, b.top)
    of_a, of_b = ((part.top - top).exp().unsqueeze(-1) for part in (a, b))
    return Partial(top, torch.addcmul(a.mass * of_a, b.mass, of_b))


def merge(parts: Partial, dim: int) -> Partial:
    """`combine` along a whole dimension: negative, counted on `top`."""
    top = parts.top.amax(dim, keepdim=True)
    mass = (parts.mass * (parts.top - top).exp().unsqueeze(-1)).sum(dim - 1)
    return Partial(top.squeeze(dim), mass)


def mean(part: Partial) -> Tensor:
    """u / s [..., m, D]: the softmax-weighted mean of the values; zero for the empty set."""
    s = part.mass[..., -1:]
    return part.mass[..., :-1] / torch.where(s == 0, torch.ones_like(s), s)


def suffixes(parts: Partial) -> Partial:
    """Inclusive combines from each place to the end along the third dimension from the end of `top` [..., L, H, m].

    By doubling: log₂ L combines of the whole.
    """
    top, mass = parts
    length, reach = top.shape[-3], 1
    while reach < length:
        later = Partial(
            pad(top[..., reach:, :, :], (0, 0, 0, 0, 0, reach), value=FLOOR),
            pad(mass[..., reach:, :, :, :], (0, 0, 0, 0, 0, 0, 0, reach)),
        )
        top, mass = combine(Partial(top, mass), later)
        reach *= 2
    return Partial(top, mass)


def attend(weight: Tensor, shared: Partial | None, logit: Tensor, seen: Tensor, value: Tensor) -> Tensor:
    """Σᵢ wᵢ · (softmax-weighted mean under landmark i), for queries that share most of their window.

    Every query of a block sees all the tokens behind `shared` and, of E edge tokens, those that `seen` marks. The sum
    over landmarks is taken before the values are touched, so no array of queries x m x D is ever formed.

    weight [..., Q, m], shared (top [..., 1 or Q, m], mass [..., m, D + 1]) or None, logit [..., m, E],
    seen [..., Q, E], value [..., E, D] -> [..., Q, D]. A query from which `shared` is hidden has a top of FLOOR.
    """
    top = logit.detach().amax(-1)
    if shared is not None:
        top = torch.maximum(top, shared.top.amax(-2))
    top = top.clamp(min=FLOOR)  # [..., m]
    low = logit.detach().masked_fill(logit == -torch.inf, torch.inf).amin(-1)
    if not tracing() and bool((top - low < SPREAD).all()):
        return _attend_close(weight, shared, logit, seen, value, top)
    return _attend_far(weight, shared, logit, seen, value)


def _attend_close(
    weight: Tensor, shared: Partial | None, logit: Tensor, seen: Tensor, value: Tensor, top: Tensor
) -> Tensor:
    """One exponential for each token: no query's own top is so far below that of the block that sums underflow."""
    share = (logit - top.unsqueeze(-1)).exp_()  # [..., m, E]
    counted = seen.to(share.dtype)
    total = counted @ share.mT  # [..., Q, m]
    if shared is not None:
        rescale = (shared.top - top.unsqueeze(-2)).exp_()
        total = total + rescale * shared.mass[..., -1].unsqueeze(-2)
    weight = _divided(weight, total)
    out = ((weight @ share) * counted) @ value  # [..., Q, E] @ [..., E, D]
    return out if shared is None else out + (weight * rescale) @ shared.mass[..., :-1]


def _attend_far(weight: Tensor, shared: Partial | None, logit: Tensor, seen: Tensor, value: Tensor) -> Tensor:
    """An exponential for each query and token, against the query's own top: right for any logits."""
    hidden = torch.zeros(seen.shape, dtype=logit.dtype, device=logit.device).masked_fill_(~seen, -torch.inf)
    edge = logit.unsqueeze(-3) + hidden.unsqueeze(-2)  # [..., Q, m, E]
    top = edge.detach().amax(-1)
    if shared is not None:
        top = torch.maximum(top, shared.top)
    top = top.clamp(min=FLOOR)  # [..., Q, m]
    share = edge.sub_(top.unsqueeze(-1)).exp_()  # in place: this is the largest array of all
    total = share.sum(-1)
    if shared is not None:
        rescale = (shared.top - top).exp_()
        total = total + rescale * shared.mass[..., -1].unsqueeze(-2)
    weight = _divided(weight, total)
    out = (weight.unsqueeze(-2) @ share).squeeze(-2) @ value  # [..., Q, E] @ [..., E, D]
    return out if shared is None else out + (weight * rescale) @ shared.mass[..., :-1]


def _divided(weight: Tensor, total: Tensor) -> Tensor:
    """w / s; a query that sees nothing has a sum of zero and gets zero."""
    return weight / torch.where(total == 0, torch.ones_like(total), total)

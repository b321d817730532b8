"""Rings of the last n tokens: token number t of a stream is in slot (t − 1) mod n.

`ring` is [B, n, ...]. `time` [B] is the number of tokens that each row's stream has read, so rows may be at different
phases. Groups of r tokens that arrive together never wrap around, because r divides n. Remainders are taken of numbers
that are not negative: in ExecuTorch (1.5) the others have the sign of the dividend.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def rows(x: Tensor) -> Tensor:
    """[B]: indices of the rows of a batch."""
    return torch.arange(x.shape[0], device=x.device)


def read(ring: Tensor, time: Tensor, r: int) -> Tensor:
    """The group [B, r, ...] that the next `write` replaces: what leaves the window."""
    groups = ring.unflatten(1, (-1, r))
    return groups[rows(time), (time // r) % groups.shape[1]]


def write(ring: Tensor, time: Tensor, group: Tensor) -> None:
    """Replace the oldest group by `group` [B, r, ...], in place; `time` is the time before it."""
    groups = ring.unflatten(1, (-1, group.shape[1]))
    groups.index_put_((rows(time), (time // group.shape[1]) % groups.shape[1]), group.to(ring.dtype))


def newest_first(ring: Tensor, time: Tensor) -> Tensor:
    """The ring from its newest to its oldest token; void slots come last."""
    n = ring.shape[1]
    slots = (time[:, None] + n - 1 - torch.arange(n, device=time.device)) % n  # [B, n]
    return ring[rows(time)[:, None], slots]


def unroll(ring: Tensor, time: Tensor) -> Tensor:
    """The ring from its oldest to its newest token; void slots come first."""
    n = ring.shape[1]
    slots = (time[:, None] + torch.arange(n, device=time.device)) % n  # [B, n]
    return ring[rows(time)[:, None], slots]


def rolled(tokens: Tensor, time: Tensor) -> Tensor:
    """The inverse of `unroll`: the ring with these tokens [B, n, ...], oldest first."""
    return tokens[rows(time)[:, None], tokens.shape[1] - 1 - age(time, tokens.shape[1])]


def valid(time: Tensor, n: int) -> Tensor:
    """[B, n] bool: slots that have a token."""
    return torch.arange(n, device=time.device) < time[:, None]


def age(time: Tensor, n: int) -> Tensor:
    """[B, n]: how many tokens have come after the one in each slot."""
    return (time[:, None] + n - 1 - torch.arange(n, device=time.device)) % n


def roll_on(ring: Tensor, ext: Tensor, lengths: Tensor, time: Tensor, void: float = 0.0) -> Tensor:
    """The ring after a piece of a stream.

    `ext` [B, n + T, ...] is the unrolled ring followed by the piece, of which row b has `lengths[b]` tokens; `time` is
    the time after it. Slots without a token of the current stream are filled with `void`.
    """
    n = ring.shape[1]
    ages = age(time, n)
    tokens = ext[rows(time)[:, None], n + lengths[:, None] - 1 - ages]
    has_token = (ages < time[:, None]).reshape(*ages.shape, *[1] * (ring.dim() - 2))
    return torch.where(has_token, tokens.to(ring.dtype), void)


def carry_on(rings: Sequence[tuple[Tensor, Tensor, float]], lengths: Tensor, time: Tensor) -> list[Tensor]:
    """`roll_on` without an extended axis, because a token that stays in the window stays in its slot.

    Args:
        rings: Each ring [B, n, ...], the piece [B, T, ...] of the same stream, and what fills slots without a token.
        lengths: [B], tokens of the piece.
        time: [B], the time after it.
    """
    n = rings[0][0].shape[1]
    ages = age(time, n)
    places = lengths[:, None] - 1 - ages  # in the piece; negative for what was in the ring before
    has_token, is_new = ages < time[:, None], places >= 0
    row, places = rows(time)[:, None], places.clamp(min=0)
    out = []
    for ring, piece, void in rings:
        shape = (*ages.shape, *[1] * (ring.dim() - 2))
        tokens = torch.where(is_new.reshape(shape), piece[row, places].to(ring.dtype), ring)
        out.append(torch.where(has_token.reshape(shape), tokens, void).contiguous())
    return out

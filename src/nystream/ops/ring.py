"""A ring of the last n tokens: token number t of a stream lies in slot (t − 1) mod n.

`ring` is [B, n, ...]; `count` [B] is how many tokens each row has seen, so rows may be at different phases.
Groups of r tokens that arrive together never wrap, because r divides n.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rows(count: Tensor) -> Tensor:
    """[B]: the batch index that goes with one slot per row."""
    return torch.arange(count.shape[0], device=count.device)


def read(ring: Tensor, count: Tensor, r: int) -> Tensor:
    """The group [B, r, ...] that the next `write` replaces: what leaves the window."""
    groups = ring.unflatten(1, (-1, r))
    return groups[rows(count), (count // r) % groups.shape[1]]


def write(ring: Tensor, count: Tensor, group: Tensor) -> None:
    """Put `group` [B, r, ...] where the oldest group was, in place. `count` is the count before the group."""
    groups = ring.unflatten(1, (-1, group.shape[1]))
    groups.index_put_((rows(count), (count // group.shape[1]) % groups.shape[1]), group.to(ring.dtype))


def unroll(ring: Tensor, count: Tensor) -> Tensor:
    """The ring in order of age, oldest first; void slots, if any, come first."""
    n = ring.shape[1]
    slots = (count[:, None] + torch.arange(n, device=count.device)) % n  # [B, n]
    return ring[rows(count)[:, None], slots]


def valid(count: Tensor, n: int) -> Tensor:
    """[B, n] bool: the slots that hold a token."""
    return torch.arange(n, device=count.device) < count[:, None]


def roll_on(ring: Tensor, ext: Tensor, lengths: Tensor, count: Tensor, void: float = 0.0) -> Tensor:
    """The ring after a piece of a stream.

    `ext` [B, n + T, ...] is the unrolled ring followed by the piece, of which row b has `lengths[b]` tokens;
    `count` is the count after it. Slots without a token of the current stream are filled with `void`.
    """
    n = ring.shape[1]
    age = (count[:, None] - 1 - torch.arange(n, device=count.device)) % n  # [B, n]
    tokens = ext[rows(count)[:, None], n + lengths[:, None] - 1 - age]
    held = (age < count[:, None]).reshape(*age.shape, *[1] * (ring.dim() - 2))
    return torch.where(held, tokens.to(ring.dtype), void)

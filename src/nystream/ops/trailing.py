"""Sums over the last tokens of every token of a stream, without subtraction.

A difference of cumulative sums would keep what a NaN or an outlier has done to them for ever. Here sums of 2ᵏ tokens
are added to sums of 2ᵏ earlier ones, so that a sum is made of its own tokens alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


def trailing_sums(x: Tensor, time: Tensor, length: int) -> Tensor:
    """Sum the last `length` tokens up to each token, or those that its stream has: [B, T, c].

    Args:
        x: [B, T, c], of any streams one after another.
        time: [B, T], the number of each token in its stream, from 1; 0 or less where there is no token.
        length: The number of tokens, at least 1.
    """
    total, reach = None, 0  # the sum over the newest `reach` tokens
    doubled, width = x, 1  # the sum over the newest `width` tokens, a power of two
    while True:
        if length & width:
            total = doubled if total is None else total + _earlier(doubled, time, reach)
            reach += width
        if total is not None and reach == length:
            return total
        doubled = doubled + _earlier(doubled, time, width)
        width *= 2


def _earlier(x: Tensor, time: Tensor, count: int) -> Tensor:
    """x of the token that came `count` tokens before, or 0 if the stream had none."""
    shifted = torch.nn.functional.pad(x, (0, 0, count, 0))[:, : x.shape[1]]
    return torch.where((time > count)[..., None], shifted, 0.0)

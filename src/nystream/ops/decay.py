"""Decay: recent tokens weigh more.

Head h lowers the logit of a token by λ_h for every token that has come after it, so that within the window its weight
falls by the factor exp(−λ_h) per token. A softmax does not change if all its logits change by the same amount, so
only differences of ages matter: every sum may count ages from a time of its own, near its own tokens, and is lowered
by λ_h times the difference of these times when it is combined with another. No number grows with the length of the
stream, and none with the window where it matters: what is very old has no weight.

The rates are learned. Attention without positions cannot tell an old token from a new one; with a decay it can, and
heads with different rates look back over different spans.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SHORTEST = 2.5  # span of the fastest head at first, in tokens


def initial(heads: int, window: int) -> Tensor:
    """[H]: logits of the rates at first, whose spans 1 / λ go from a few tokens to two windows in equal ratios."""
    fastest, slowest = math.log(1 / SHORTEST), math.log(1 / (2 * max(window, 2)))
    share = torch.linspace(0, 1, heads) if heads > 1 else torch.full((1,), 0.5)
    return torch.special.logit(torch.exp(fastest + share * (slowest - fastest)))


def falls(decay: Tensor, age: Tensor) -> Tensor:
    """λ_h · age: [..., T] -> [..., H, T]. Rates [B, H] differ by row, for age [1 or B, ..., T]."""
    if decay.dim() == 2:
        decay = decay.reshape(decay.shape[0], *[1] * (age.dim() - 2), decay.shape[1])
    return decay.unsqueeze(-1) * age.unsqueeze(-2)

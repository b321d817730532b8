"""The exponential average of weights over updates, which is often better than the last weights.

Update k (from 1) moves the average a to d a + (1 − d) w, with the new weights w and d = min(average, k / (k + 9)). The
second term is smaller at first, so that the average soon forgets the initial weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

AVERAGE = "average."


def move(averages: Iterable[Tensor], weights: Iterable[Tensor], average: float, update: int) -> None:
    """Move averages, in place, to what they are after an update, counted from 1."""
    decay = min(average, update / (update + 9))
    get_ema_multi_avg_fn(decay)(list(averages), list(weights), update)


@contextmanager
def replaced(weights: Iterable[Tensor], by: Iterable[Tensor]) -> Iterator[None]:
    """Replace the values of weights, and restore them on exit, bit by bit."""
    weights = list(weights)
    own = [x.detach().clone() for x in weights]
    try:
        _copy(by, weights)
        yield
    finally:
        _copy(own, weights)


@torch.no_grad()
def _copy(values: Iterable[Tensor], weights: Iterable[Tensor]) -> None:
    for x, value in zip(weights, values, strict=True):
        x.copy_(value)

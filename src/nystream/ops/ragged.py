"""Rows of different lengths in one tensor. Padding may have any value, even NaN, and is replaced by zeros."""

from __future__ import annotations

import torch
from torch import Tensor


def keep_first(x: Tensor, lengths: Tensor) -> Tensor:
    """x [B, T, W] with zeros after the first `lengths` [B] tokens."""
    return torch.where((_places(x) < lengths[:, None])[..., None], x, 0.0)


def keep_last(x: Tensor, lengths: Tensor) -> Tensor:
    """x [B, T, W] with zeros before the last `lengths` [B] tokens."""
    return torch.where((_places(x) >= x.shape[1] - lengths[:, None])[..., None], x, 0.0)


def _places(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1], device=x.device)

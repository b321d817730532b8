"""Accumulators are float32 at least, whatever the dtype of the model."""

from __future__ import annotations

import torch
from torch import Tensor


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which logits, sums and inverses of a model in `dtype` are kept."""
    return torch.promote_types(dtype, torch.float32)


def accumulate(x: Tensor) -> Tensor:
    return x.to(accumulator(x.dtype))

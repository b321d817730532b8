"""Precision: accumulators are at least float32, and Γ is inverted in float64."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

NO_FLOAT64 = {"mps"}  # devices that cannot compute in float64


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the logits, sums and inverses of a model in `dtype`."""
    return torch.promote_types(dtype, torch.float32)


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Disable autocast: it may choose the dtype of the projections, but not that of sums and inverses."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def accumulate(x: Tensor) -> Tensor:
    return x.to(accumulator(x.dtype))


def wide(x: Tensor) -> Tensor:
    """x in float64, moved to the CPU if its device has no float64."""
    return x.to("cpu", torch.float64) if x.device.type in NO_FLOAT64 else x.double()

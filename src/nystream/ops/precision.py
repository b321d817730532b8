"""Precision: accumulators are at least float32, and Γ is inverted in float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch import Tensor

from nystream.ops.tracing import tracing

_rounded: ContextVar[bool] = ContextVar("rounded", default=False)

NO_FLOAT64 = {"mps"}  # devices that cannot compute in float64


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the logits, sums and inverses of a model in `dtype`."""
    return torch.promote_types(dtype, torch.float32)


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Disable autocast: it may choose the dtype of the projections, but not that of sums and inverses."""
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return nullcontext()
    disabled = torch.autocast(kind, enabled=False)
    return disabled if tracing() else _remembered(disabled, torch.get_autocast_dtype(kind) == torch.bfloat16)


@contextmanager
def _remembered(disabled: torch.autocast, rounded: bool) -> Iterator[None]:
    token = _rounded.set(rounded)
    try:
        with disabled:
            yield
    finally:
        _rounded.reset(token)


def rounded() -> bool:
    """True inside `full_precision` if projections were cast to bfloat16, which has fewer digits than TensorFloat-32."""
    return _rounded.get()


def accumulate(x: Tensor) -> Tensor:
    return x.to(accumulator(x.dtype))


def wide(x: Tensor) -> Tensor:
    """x in float64, moved to the CPU if its device has no float64."""
    return x.to("cpu", torch.float64) if x.device.type in NO_FLOAT64 else x.double()

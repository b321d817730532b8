"""Gradients that can be computed, but not differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]
REMEDY = "compute the outputs inside `with nystream.ops.fused.kernels('never'):`"


def once(function: Callable[..., Gradients], *tensors: Tensor | None) -> Gradients:
    """`function(*tensors)`, where differentiating the result is an error that says what to do instead."""
    if any(x is not None and _batched(x) for x in tensors):
        raise RuntimeError(f"the fused kernels of steps() do not support batched gradients; {REMEDY}")
    if not torch.is_grad_enabled():
        return function(*tensors)
    return cast(Gradients, _Once.apply(function, *tensors))  # type: ignore[no-untyped-call]


def _batched(x: Tensor) -> bool:
    """Whether x stands for several tensors, of `torch.func.vmap` or `torch.autograd.grad(is_grads_batched=True)`."""
    return torch._C._functorch.is_batchedtensor(x) or torch._C._functorch.is_legacy_batchedtensor(x)


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Gradients], *tensors: Tensor | None) -> Gradients:
        return function(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(f"the fused kernels of steps() have no second derivatives; {REMEDY}")

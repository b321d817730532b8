"""Gradients that can be computed, but not differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


def once(function: Callable[..., Gradients], *tensors: Tensor | None) -> Gradients:
    """`function(*tensors)`, where differentiating the result is an error that says what to do instead."""
    if not torch.is_grad_enabled():
        return function(*tensors)
    return cast(Gradients, _Once.apply(function, *tensors))  # type: ignore[no-untyped-call]


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Gradients], *tensors: Tensor | None) -> Gradients:
        return function(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(
            "the fused kernels of steps() have no second derivatives; compute the outputs that are differentiated "
            "twice inside `with nystream.ops.fused.kernels('never'):`"
        )

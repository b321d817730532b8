"""Gradients that can be computed, but not differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


class Once(torch.autograd.Function):
    """`function(*tensors)`, where differentiating the result is an error that says what to do instead."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Gradients], *tensors: Tensor | None) -> Gradients:
        return function(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(
            "the fused kernels of steps() have no second derivatives; compute the outputs that are differentiated "
            "twice inside `with nystream.ops.fused.kernels('never'):`"
        )

"""Functions of a batch under `torch.func.vmap`: the mapped dimension becomes part of the batch.

A function that branches on values to save work cannot do so while `vmap` runs it, and would have to take its slowest
path. Folded, it sees ordinary tensors of more rows. Its intermediate values are not kept for the backward pass, but
computed again, which saves most of the memory that training many models at once would need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nystream.config import AttentionConfig
from nystream.ops.attention.common import Fixed
from nystream.ops.precision import full_precision
from nystream.ops.timeline import Timeline
from nystream.ops.tracing import transforming

Batched = Callable[..., Tensor]  # tensors with the batch first, or None -> a tensor with the batch first


def fold(function: Batched, *tensors: Tensor | None) -> Tensor:
    """`function(*tensors)`; inside `torch.func` transforms, with all mapped dimensions folded into the batch."""
    if not transforming():
        return function(*tensors)
    out: Tensor = _Folded.apply(function, *tensors)  # type: ignore[no-untyped-call]
    return out


def fold_outputs(
    outputs: Batched,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Any,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    when: Timeline,
    decay: Tensor | None,
) -> Tensor:
    """`outputs` of a variant over a piece, folded; landmarks and rates, which rows share, are given to each row."""
    if not transforming():
        return outputs(q, k, v, state, cfg, fixed, when, **({} if decay is None else {"decay": decay}))
    rows = q.shape[0]
    landmarks = [x.expand(rows, *x.shape) for x in fixed or ()]
    rates = None if decay is None else decay.expand(rows, -1)
    leaves = len(state)

    def of_rows(q: Tensor, k: Tensor, v: Tensor, rates: Tensor | None, *rest: Tensor) -> Tensor:
        old, times = type(state)(*rest[:leaves]), Timeline(*rest[leaves : leaves + len(when)])
        each = Fixed(*rest[leaves + len(when) :]) if fixed is not None else None
        return outputs(q, k, v, old, cfg, each, times, **({} if rates is None else {"decay": rates}))

    return fold(of_rows, q, k, v, rates, *state, *when, *landmarks)


class _Folded(torch.autograd.Function):
    @staticmethod
    def forward(function: Batched, *tensors: Tensor | None) -> Tensor:
        return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        wanted = tuple(ctx.needs_input_grad[1:])
        again = _Gradient.apply(ctx.function, wanted, gradient, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        gradients = iter(again)
        return None, *(next(gradients) if needed else None for needed in wanted)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], function: Batched, *tensors: Tensor | None) -> tuple[Tensor, int]:
        rows = _rows(info.batch_size, in_dims[1:], tensors)
        return fold(function, *rows).unflatten(0, (info.batch_size, -1)), 0


class _Gradient(torch.autograd.Function):
    """The gradients of those arguments that need one; the function is computed again."""

    @staticmethod
    def forward(
        function: Batched, wanted: tuple[bool, ...], gradient: Tensor, *tensors: Tensor | None
    ) -> tuple[Tensor, ...]:
        leaves = [
            x.detach().requires_grad_() if x is not None and needed else x
            for x, needed in zip(tensors, wanted, strict=True)
        ]
        inputs = [x for x, needed in zip(leaves, wanted, strict=True) if x is not None and needed]
        with torch.enable_grad(), full_precision(gradient):  # as the first time, even if backward runs under autocast
            return torch.autograd.grad(function(*leaves), inputs, gradient, materialize_grads=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None: ...

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError("second derivatives are not supported inside torch.func transforms")

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[Any, ...],
        function: Batched,
        wanted: tuple[bool, ...],
        gradient: Tensor,
        *tensors: Tensor | None,
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        rows = _rows(info.batch_size, in_dims[2:], (gradient, *tensors))
        gradients = _Gradient.apply(function, wanted, *rows)  # type: ignore[no-untyped-call]
        return tuple(x.unflatten(0, (info.batch_size, -1)) for x in gradients), (0,) * len(gradients)


def _rows(size: int, dims: tuple[Any, ...], tensors: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """The tensors with the mapped dimension, of this size, flattened into their first one."""
    stacked = (
        x if x is None else x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, dims, strict=True)
    )
    return [x if x is None else x.flatten(0, 1) for x in stacked]

"""Constant tables, which depend on sizes only: built once and cached per device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T", bound=tuple[Tensor, ...])


def per_device(build: Callable[..., T]) -> Callable[..., T]:
    """Cache `build(*sizes)`, a NamedTuple of tensors, per device: `table(*sizes, device=...)`.

    `init_state` requests every table that a step needs, so a traced step finds a real tensor here, which becomes a
    constant of its graph. Tensors that are made during a trace, and fake tensors, must not outlive it: they are not
    cached.
    """
    cache: dict[tuple[Any, ...], T] = {}

    def table(*sizes: int, device: torch.device) -> T:
        key = (*sizes, device)
        if key in cache:
            return cache[key]
        # The table must be made of ordinary tensors, whatever modes are active during the first call.
        with torch.inference_mode(False), torch.device("cpu"):
            columns = build(*sizes)
            # Copied: part of a larger tensor would be exported with all of it, and an axis of size 1 that comes from
            # NumPy may have a stride of 0, which ExecuTorch rejects.
            copies = (column.clone(memory_format=torch.contiguous_format).to(device) for column in columns)
            table_on_device: T = type(columns)(*copies)
        if not torch.compiler.is_compiling() and all(type(column) is Tensor for column in table_on_device):
            cache[key] = table_on_device
        return table_on_device

    return table

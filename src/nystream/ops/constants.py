"""Tables that depend on sizes alone: built once, kept per device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T", bound=tuple[Tensor, ...])


def per_device(build: Callable[..., T]) -> Callable[..., T]:
    """Cache `build(*sizes)`, a NamedTuple of tensors, and hand it out on a device: `table(*sizes, device=...)`.

    `init_state` asks for every table that a step will need. So a traced step finds a real tensor here, which becomes a
    constant of its graph; a tensor that is made during a trace, or a fake one, must not outlive it and is not kept.
    """
    held: dict[tuple[Any, ...], T] = {}

    def table(*sizes: int, device: torch.device) -> T:
        key = (*sizes, device)
        if key in held:
            return held[key]
        # Whatever mode the first caller is in, the table outlives it: an ordinary tensor, made on the CPU.
        with torch.inference_mode(False), torch.device("cpu"):
            columns = build(*sizes)
            made: T = type(columns)(*(column.to(device) for column in columns))
        if not torch.compiler.is_compiling() and all(type(column) is Tensor for column in made):
            held[key] = made
        return made

    return table

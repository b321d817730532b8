"""The floor of a step: the time to read the weights once, and to read the weights and the state.

A step must read every weight at least once. For the compiled pool, these are the packed weights of its kernels,
without what was folded into others (fixed landmarks into the projections of queries and keys). For a pool in torch,
they are the weights of the model.

The bandwidth depends on where the weights are. A model of a megabyte stays in the cache of a core, which is much
faster than main memory. So the floor is measured by a compiled loop that sums an array of exactly that size, warm, on
one core. No step can be faster on that core unless it reads less.

A step with fixed landmarks uses a small part of the state, and can be faster than reading all of it. So the targets
refer to the lower floor, that of the weights alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nystream.lab.bench.timing import TimedCall
from nystream.layers.attention import MultiheadAttention
from nystream.models.stream_model import StreamModel


def weights(model: StreamModel, backend: Any) -> tuple[str, int]:
    """What a step of the pool reads and never writes, and its size in bytes."""
    packed: int | None = getattr(backend, "weight_bytes", None)
    if packed is not None:
        return "the packed weights of the kernel", packed
    return "the weights of the model", model_bytes(model)


def model_bytes(model: StreamModel) -> int:
    """Weights, landmarks, Γ†, and one row of the positions."""
    attentions = (module for module in model.modules() if isinstance(module, MultiheadAttention))
    inverses = [attention.gamma_pinv for attention in attentions if attention.config.fixed]
    table = getattr(model.positions, "table", None)
    tensors = (*model.parameters(), *model.encoder.buffers(), *inverses)
    return sum(x.nbytes for x in tensors if x is not table) + (0 if table is None else table[0].nbytes)


def read_jobs(sizes: dict[str, int]) -> dict[str, TimedCall]:
    """One job per number of bytes: read an array of that size once."""
    read = reader()
    return {name: TimedCall(read, ((np.ones(max(count // 8, 1), np.int64),),)) for name, count in sizes.items()}


def reader() -> Callable[[Any], object]:
    """A compiled function that reads every word of an int64 array.

    Integers, because their sum may be taken in any order; by index, because LLVM vectorizes that loop, but not one over
    the elements, which is three times slower than the memory.
    """
    from numba import njit

    def total(words):  # type: ignore[no-untyped-def]
        result = np.int64(0)
        for place in range(words.shape[0]):
            result += words[place]
        return result

    compiled: Callable[[Any], object] = njit(total)
    compiled(np.ones(8, np.int64))
    return compiled

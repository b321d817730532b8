"""The floor under a step: the time to read the weights once, and the same with the state.

A step multiplies every weight that it reads by one number, so it must at least read them. For the compiled pool those
are the weights as its kernels hold them: what is folded into others beforehand (fixed landmarks into the projections
of queries and keys) is not there any more. For a pool in torch they are those of the model.

How fast that goes depends on where they live. A model of a megabyte lives in a core's cache, far faster than main
memory, so the bandwidth that counts is that of reading as many bytes again and again: a compiled loop adds up the words
of an array of exactly that size, warm, on one core, and the median of many passes is taken. No step can be faster on
that core unless it reads less.

The state is the harder to count: a step with fixed landmarks touches a small part of it (that is its point), and may
well be faster than reading all of it. So two floors are measured, the weights alone and the weights with the whole
state, and what is promised is held against the lower one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nystream.lab.bench.timing import TimedCall, measure
from nystream.layers.attention import MultiheadAttention
from nystream.models.stream_model import StreamModel

PACKED, HELD = "the packed weights of the kernel", "the weights of the model"


def weights(model: StreamModel, backend: Any) -> tuple[str, int]:
    """What a step of the pool reads and never writes, and how many bytes that is."""
    packed: int | None = getattr(backend, "weight_bytes", None)
    return (HELD, held_bytes(model)) if packed is None else (PACKED, packed)


def held_bytes(model: StreamModel) -> int:
    """Weights, landmarks, Γ†, and one row of the positions."""
    attentions = (module for module in model.modules() if isinstance(module, MultiheadAttention))
    inverses = [attention.gamma_pinv for attention in attentions if attention.config.fixed]
    table = getattr(model.positions, "table", None)
    tensors = (*model.parameters(), *model.encoder.buffers(), *inverses)
    return sum(x.nbytes for x in tensors if x is not table) + (0 if table is None else table[0].nbytes)


def read_jobs(sizes: dict[str, int]) -> dict[str, TimedCall]:
    """One job for every number of bytes: read an array of that size once."""
    read = reader()
    return {name: TimedCall(read, ((np.ones(max(count // 8, 1), np.int64),),)) for name, count in sizes.items()}


def read_seconds(nbytes: int, rounds: int = 50) -> float:
    """Median seconds to read so many bytes that were read just before."""
    return measure(read_jobs({"read": nbytes}), rounds)["read"].median


def reader() -> Callable[[Any], object]:
    """Reads every word of an array of int64, compiled.

    Whole numbers, because their sum may be taken in any order; by index, because LLVM makes vectors of that loop, and
    not of one over the elements, which reads three times more slowly than the memory can give. To read one word of
    every cache line takes as long as to read all of them: nothing is waited for but the memory.
    """
    from numba import njit

    def total(words):  # type: ignore[no-untyped-def]
        held = np.int64(0)
        for place in range(words.shape[0]):
            held += words[place]
        return held

    compiled: Callable[[Any], object] = njit(total)
    compiled(np.ones(8, np.int64))
    return compiled

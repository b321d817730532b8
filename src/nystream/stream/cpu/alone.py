"""The step of one attention without its projections, to be measured and tested by itself."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from nystream.layers.attention import MultiheadAttention
from nystream.stream.cpu import exchange
from nystream.stream.cpu import plan as p
from nystream.stream.cpu.attention import Fixed, Mixed, attention
from nystream.stream.cpu.memory import (
    Rows,
    Scratch,
    block_at,
    doubles_at,
    floats_at,
    ints_at,
    model_at,
    pointer_to,
    wide_block_at,
)
from nystream.stream.cpu.pack import aligned, packed
from nystream.stream.cpu.rows import copy
from nystream.stream.cpu.simd import cached
from nystream.stream.cpu.step import DIGEST

Array = np.ndarray[Any, Any]

FLOAT = np.dtype(np.float32)


class AttentionKernel:
    """One stream of an attention without its four projections.

    q, k, v and the output are in the order of the kernels' lanes, as a packed projection would give them; `lanes` and
    `heads` convert to it and back.
    """

    def __init__(self, attn: MultiheadAttention) -> None:
        if attn.config.update_size > 1:
            raise ValueError(f"update_size={attn.config.update_size}, but an attention alone takes one token at a time")
        self._packed = packed(attn, fold=False)
        self._shape = (attn.config.num_heads, attn.config.head_dim)
        self._width = p.width(*self._shape)
        self._state = aligned(self._packed.plan.state_size)
        exchange.write(self._state, self._packed, attn.init_state(1))
        self._scratch = self._packed.scratch(4 * self._width)
        self._steps = partial(
            _entry(attn.config.fixed, self._packed.features.wide),
            self._packed.address,
            self._scratch.ctypes.data,
            self._state.ctypes.data,
        )

    @property
    def bytes_per_stream(self) -> int:
        return self._state.nbytes

    def lanes(self, x: Array) -> Array:
        """[E] in the order of the heads -> [width] in the order of the lanes."""
        return p.to_lanes(x.reshape(self._shape))

    def heads(self, x: Array) -> Array:
        """[width] in the order of the lanes -> [E] in the order of the heads."""
        return p.from_lanes(x, *self._shape).reshape(-1)

    def step(self, q: Array, k: Array, v: Array) -> Array:
        """The output row of the next token."""
        y = np.empty(self._width, FLOAT)
        self._steps(1, q, k, v, y)
        return y

    def repeat(self, q: Array, k: Array, v: Array, times: int) -> None:
        """Take `times` steps without returning to Python, to time them."""
        self._steps(times, q, k, v, np.empty(self._width, FLOAT))


@cache
def _entry(fixed: bool, wide: bool) -> Any:
    digest = DIGEST

    @cached
    def step(plan_at: int, room: int, address: int, times: int, q: Any, k: Any, v: Any, y: Any) -> None:
        plan, width = model_at(plan_at), y.shape[0]
        block = wide_block_at(plan.blocks) if wide else block_at(plan.blocks)
        w = floats_at(plan.weights)
        z = floats_at(room + 8 * plan.scratch_doubles)
        out, scratch = z + 3 * width, Scratch(z + 4 * width, doubles_at(room))
        for _ in range(times if len(digest) > 0 else 0):
            copy(pointer_to(q), z, width)
            copy(pointer_to(k), z + width, width)
            copy(pointer_to(v), z + 2 * width, width)
            s, kind = floats_at(address), Fixed(0) if fixed else Mixed(0)
            attention(kind, block, s, s, ints_at(address)[0], w, Rows(z, 0), Rows(out, 0), scratch)
            copy(out, pointer_to(y), width)
            ints_at(address)[0] += 1

    return step

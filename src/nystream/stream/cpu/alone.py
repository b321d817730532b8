"""One attention by itself, on q, k and v that are given: what is left of a step when the projections are taken away.

It is there to be measured beside other attentions, and to test the kernels without a model around them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import carray

from nystream.layers.attention import MultiheadAttention
from nystream.stream.cpu import exchange
from nystream.stream.cpu import plan as p
from nystream.stream.cpu.attention import attention
from nystream.stream.cpu.pack import aligned, packed
from nystream.stream.cpu.rows import copy
from nystream.stream.cpu.simd import cached, floats_at, load_count, store_count
from nystream.stream.cpu.step import DIGEST, memory

Array = np.ndarray[Any, Any]

FLOAT = np.dtype(np.float32)


class AttentionKernel:
    """One stream of an attention, without its four projections.

    q, k and v come in the order of the kernels' lanes, as a packed projection would give them; `lanes` and `heads` go
    there and back.
    """

    def __init__(self, attn: MultiheadAttention) -> None:
        if attn.config.update_size > 1:
            raise ValueError(f"update_size={attn.config.update_size}, but this takes one token at a time")
        held = packed(attn, fold=False)
        self._shape = (attn.config.num_heads, attn.config.head_dim)
        self._width = p.width(*self._shape)
        self._block = aligned(int(held.plan[p.SIZE]))
        exchange.write(self._block, held.plan, attn.init_state(1))
        room = held.scratch(4 * self._width)
        self._steps = partial(_step, held.plan, room.ctypes.data, self._block.ctypes.data)
        self._memory = held, room

    @property
    def bytes_per_stream(self) -> int:
        return self._block.nbytes

    def lanes(self, x: Array) -> Array:
        """[E] in the order of the heads -> [width] in the order of the lanes."""
        return p.to_lanes(x.reshape(self._shape))

    def heads(self, x: Array) -> Array:
        """The inverse."""
        return p.from_lanes(x, *self._shape).reshape(-1)

    def step(self, q: Array, k: Array, v: Array) -> Array:
        """The row of one new token."""
        y = np.empty(self._width, FLOAT)
        self._steps(1, q, k, v, y)
        return y

    def repeat(self, q: Array, k: Array, v: Array, times: int) -> None:
        """So many steps without Python in between."""
        self._steps(times, q, k, v, np.empty(self._width, FLOAT))


def _entry(digest: str) -> Any:
    @cached
    def step(plan: Any, room: int, address: int, times: int, q: Any, k: Any, v: Any, y: Any) -> None:
        width = y.shape[0]
        w, z, d = memory(plan, room, 4 * width + plan[p.SHARED])
        s = carray(floats_at(address), (plan[p.SIZE],))
        for _ in range(times if len(digest) > 0 else 0):
            time = load_count(s, 0)
            copy(q, 0, z, 0, width)
            copy(k, 0, z, width, width)
            copy(v, 0, z, 2 * width, width)
            attention(s, w, plan, p.MODEL, time, 1, z, 0, 0, 3 * width, 4 * width, d)
            copy(z, 3 * width, y, 0, width)
            store_count(s, 0, time + 1)

    return step


_step = _entry(DIGEST)

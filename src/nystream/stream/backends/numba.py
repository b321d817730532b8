"""The CPU backend: a step of the whole model in one compiled call.

Every stream has one block of memory, cut from slabs that are allocated as streams come and never move. Many streams
are taken a few at a time, so that their rows share the weights, and the pieces are shared out among threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nystream.layers.attention import MultiheadAttention
from nystream.stream.cpu import exchange, step
from nystream.stream.cpu import plan as p
from nystream.stream.cpu.pack import aligned, packed
from nystream.stream.crew import Crew
from nystream.stream.errors import room_for

Array = np.ndarray[Any, Any]

SLAB = 1 << 24  # bytes of a slab, unless one stream needs more
SHARING = 16  # streams that share one reading of the weights
WORTH_SHARING = 1 << 23  # multiplications of a batch from which on another thread is woken: that takes as long


class NumbaBackend:
    """States of many streams of a model that `cpu.support` has nothing against."""

    name = "numba"

    def __init__(self, model: Any, capacity: int) -> None:
        with room_for("the compiled copy of the weights"):
            self._packed = packed(model)
        self._plan = self._packed.plan
        self._configs = (model.config,) if isinstance(model, MultiheadAttention) else model.config.blocks
        self._grouped = model.config.update_size > 1
        self._size = int(self._plan[p.SIZE])
        with room_for(f"a stream with window={model.config.window}, {4 * self._size:,} bytes"):
            self._fresh = aligned(self._size)
            self._like = model.init_state(1)
            exchange.write(self._fresh, self._plan, self._like)
        self.bytes_per_stream, self.weight_bytes = self._fresh.nbytes, self._packed.weight_bytes
        self.spoiled: set[int] = set()
        self._spare: list[Array] = []
        self._blocks: dict[int, Array] = {}
        self._own: dict[int, Array] = {}  # the address of each, as an array of one
        self._addresses = np.zeros(0, np.int64)  # and of all
        self._held: list[Array] = []  # memory that the kernels know by its address
        self._push = self._with_room(1)
        self._workers: list[Callable[..., bool]] = []
        self._crew = Crew()
        self.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._compile()

    def grow(self, capacity: int) -> None:
        """Nothing to do: a slot has no memory until it is used."""

    def clear(self, slot: int) -> None:
        self._block(slot)[...] = self._fresh
        self.spoiled.discard(slot)

    def push(self, slot: int, x: Array, y: Array) -> bool:
        if self._grouped:
            x, y = x.reshape(-1), y.reshape(-1)
        taken: bool = self._push(1, self._own[slot], 0, 1, x, y)
        return taken

    def push_many(self, slots: Array, x: Array, y: Array) -> bool:
        x, y, total = x.reshape(-1), y.reshape(-1), len(slots)
        if not step.all_finite(x):
            return False
        threads = 1 if total * self._packed.weights.size < WORTH_SHARING else self.threads
        share = min(SHARING, -(-total // (4 * threads)) * 4)
        pieces = range(0, total, share)
        addresses, workers = self._addresses[slots], self._with_rooms(min(threads, len(pieces)))

        def work(push: Callable[..., bool], low: int) -> None:
            if not push(1, addresses, low, min(low + share, total), x, y):
                raise ValueError("X has changed while it was being pushed, and is no longer finite")

        try:
            self._crew.share([partial(work, push) for push in workers], iter(pieces))
        except BaseException:
            self.spoiled.update(slots.tolist())  # some have moved on without an answer, and which is not known
            raise
        return True

    def time(self, slot: int) -> int:
        return int(self._block(slot)[:2].view(np.int64)[0])

    def read(self, slot: int) -> Any:
        return exchange.read(self._block(slot), self._plan, self._like, self._configs)

    def write(self, slot: int, state: Any) -> None:
        exchange.write(self._block(slot), self._plan, state)
        step.rebuild(self._plan, self._own[slot])
        self.spoiled.discard(slot)

    def repeat(self, slot: int, x: Array, y: Array, times: int) -> None:
        """The kernel of `push` so many times over, without Python in between: to be timed."""
        self._push(times, self._own[slot], 0, 1, x.reshape(-1), y.reshape(-1))

    def _compile(self) -> None:
        """Call every kernel once, to no effect: who makes a pool waits for the compiler, not its first token."""
        nothing, address = aligned(0), np.array([self._fresh.ctypes.data])
        self._push(0, address, 0, 0, nothing, nothing)
        step.all_finite(nothing)
        step.rebuild(self._plan, address)

    def _with_rooms(self, count: int) -> list[Callable[..., bool]]:
        """The kernel, so many times, each with room for a piece of a batch."""
        while len(self._workers) < count:
            self._workers.append(self._with_room(SHARING))
        return self._workers[:count]

    def _with_room(self, streams: int) -> Callable[..., bool]:
        """The kernel, with scratch memory of its own to step so many streams together."""
        room = self._packed.room(streams * int(self._plan[p.TOGETHER]))
        self._held.append(room)
        return partial(step.push, self._plan, room.ctypes.data)

    def _block(self, slot: int) -> Array:
        """A stream's memory; the first use of a slot cuts it from a slab."""
        held = self._blocks.get(slot)
        if held is None:
            if not self._spare:
                many = max(1, SLAB // self.bytes_per_stream)
                with room_for(f"{many} more streams of {self.bytes_per_stream:,} bytes each"):
                    self._spare = list(aligned(many * self._size).reshape(many, self._size))
            if slot >= len(self._addresses):
                larger = np.zeros(2 * slot + 16, np.int64)
                larger[: len(self._addresses)] = self._addresses
                self._addresses = larger
            held = self._blocks[slot] = self._spare.pop()
            self._addresses[slot] = held.ctypes.data
            self._own[slot] = self._addresses[slot : slot + 1].copy()
        return held

"""The CPU backend: one compiled call per step of the whole model.

Each stream has one block of memory, allocated in slabs as streams are opened, and never moved. `push_many` steps a few
streams at a time, so that their rows share each load of the weights, and distributes these chunks among threads.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from nystream.layers.attention import MultiheadAttention
from nystream.stream.cpu import exchange, step
from nystream.stream.cpu.pack import aligned, packed
from nystream.stream.crew import Crew
from nystream.stream.errors import room_for

Array = np.ndarray[Any, Any]

SLAB_BYTES = 1 << 24  # unless one stream needs more
STREAMS_PER_CHUNK = 16  # streams that share one reading of the weights
MIN_PARALLEL_WORK = 1 << 23  # multiplications in a batch that take about as long as waking up a thread


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause the garbage collector, which takes a tenth of the time to compile and finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class NumbaBackend:
    """States of many streams of a model that the kernels support (`cpu.support`)."""

    name = "numba"
    pads = False

    def __init__(self, model: Any, capacity: int, weights: str = "float32", ring_dtype: str = "float32") -> None:
        with room_for("the compiled copy of the weights"):
            self._packed = packed(model, weights=weights, rings=ring_dtype)
        self._kernels = step.entries(self._packed.features)
        self._configs = (model.config,) if isinstance(model, MultiheadAttention) else model.config.blocks
        self._grouped = model.config.update_size > 1
        self._size = self._packed.plan.state_size
        with room_for(f"a stream with window={model.config.window}, {4 * self._size:,} bytes"):
            self._fresh = aligned(self._size)
            self._like = model.init_state(1)
            exchange.write(self._fresh, self._packed, self._like)
        self.bytes_per_stream, self.weight_bytes = self._fresh.nbytes, self._packed.weight_bytes
        self._multiplications = self._packed.multiplications
        self.spoiled: set[int] = set()
        self._spare: list[Array] = []
        self._blocks: dict[int, Array] = {}
        self._own_address: dict[int, Array] = {}  # of each slot, as an array of one
        self._addresses = np.zeros(0, np.int64)  # of all slots
        self._rooms: list[Array] = []  # scratch memory, which the kernels know by its address
        self._push = self._with_room(1)
        self._workers: list[Callable[..., bool]] = []
        self._crew = Crew()
        self.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._compile()

    def grow(self, capacity: int) -> None:
        """Do nothing: a slot has no memory until it is used."""

    def clear(self, slot: int) -> None:
        self._block(slot)[...] = self._fresh
        self.spoiled.discard(slot)

    def push(self, slot: int, x: Array, y: Array) -> bool:
        if self._grouped:
            x, y = x.reshape(-1), y.reshape(-1)
        accepted: bool = self._push(1, self._own_address[slot], 0, 1, x, y)
        return accepted

    def push_many(self, slots: Array, x: Array, y: Array) -> bool:
        x, y, total = x.reshape(-1), y.reshape(-1), len(slots)
        if not step.all_finite(x):
            return False
        threads = 1 if total * self._multiplications < MIN_PARALLEL_WORK else self.threads
        share = min(STREAMS_PER_CHUNK, -(-total // (4 * threads)) * 4)
        chunks = range(0, total, share)
        addresses, workers = self._addresses[slots], self._with_rooms(min(threads, len(chunks)))

        def work(push: Callable[..., bool], low: int) -> None:
            if not push(1, addresses, low, min(low + share, total), x, y):
                raise ValueError("X was changed while it was being pushed, and is no longer finite")

        try:
            self._crew.share([partial(work, push) for push in workers], iter(chunks))
        except BaseException:
            self.spoiled.update(slots.tolist())  # some of them have taken the step, and it is not known which
            raise
        return True

    def time(self, slot: int) -> int:
        return exchange.time(self._block(slot))

    def read(self, slot: int) -> Any:
        return exchange.read(self._block(slot), self._packed, self._like, self._configs)

    def write(self, slot: int, state: Any) -> None:
        block = self._block(slot)
        exchange.write(block, self._packed, state)
        self._kernels.rebuild(self._packed.address, self._rooms[0].ctypes.data, block.ctypes.data)
        self.spoiled.discard(slot)

    def repeat(self, slot: int, x: Array, y: Array, times: int) -> None:
        """Run the kernel of `push` `times` times without returning to Python, to time it."""
        self._push(times, self._own_address[slot], 0, 1, x.reshape(-1), y.reshape(-1))

    def _compile(self) -> None:
        """Call the kernels of a push once, with no effect, so that compiling does not delay the first token."""
        nothing, address = aligned(0), np.array([self._fresh.ctypes.data])
        with _without_collections():
            self._push(0, address, 0, 0, nothing, nothing)
            step.all_finite(nothing)

    def _with_rooms(self, count: int) -> list[Callable[..., bool]]:
        """The kernel for each of `count` threads, with scratch memory for a chunk of a batch."""
        while len(self._workers) < count:
            self._workers.append(self._with_room(STREAMS_PER_CHUNK))
        return self._workers[:count]

    def _with_room(self, streams: int) -> Callable[..., bool]:
        """The kernel with its own scratch memory to step `streams` streams at once."""
        room = self._packed.room(streams * self._packed.plan.update_size)
        self._rooms.append(room)
        return partial(self._kernels.push, self._packed.address, room.ctypes.data)

    def _block(self, slot: int) -> Array:
        """The memory of a stream, allocated when its slot is first used."""
        block = self._blocks.get(slot)
        if block is None:
            if not self._spare:
                count = max(1, SLAB_BYTES // self.bytes_per_stream)
                with room_for(f"{count} more streams of {self.bytes_per_stream:,} bytes each"):
                    self._spare = list(aligned(count * self._size).reshape(count, self._size))
            if slot >= len(self._addresses):
                larger = np.zeros(2 * slot + 16, np.int64)
                larger[: len(self._addresses)] = self._addresses
                self._addresses = larger
            block = self._blocks[slot] = self._spare.pop()
            self._addresses[slot] = block.ctypes.data
            self._own_address[slot] = self._addresses[slot : slot + 1].copy()
        return block

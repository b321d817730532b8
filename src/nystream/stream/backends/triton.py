"""The GPU backend: the states of all streams on the device, one launch of a graph per step.

An id of −1 in `push_many` is padding: its row is skipped, and its output is zero. So a batch of a fixed size can carry
any number of streams.

Tokens are checked on the device. If one is not finite, the kernels skip all rows of the batch, and set a flag. `push`
waits for this flag, which is copied to the host after the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nystream.ops.tracing import capturing
from nystream.stream.errors import room_for
from nystream.stream.gpu.graphs import Graphs
from nystream.stream.gpu.model import Streams

Array = np.ndarray[Any, Any]


class TritonBackend:
    """States of many streams of a model that the kernels support (`gpu.support`)."""

    name = "triton"
    pads = True

    def __init__(self, model: Any, capacity: int, ring_dtype: str = "float32") -> None:
        weight = next(model.parameters())
        self._device, self._dtype = weight.device, weight.dtype
        # A bfloat16 model has bfloat16 keys and values: storing them as such loses nothing.
        self.ring_dtype = torch.bfloat16 if torch.bfloat16 in (self._dtype, getattr(torch, ring_dtype)) else self._dtype
        with self._changing():
            try:
                with room_for(f"{capacity:,} streams with window={model.config.window}"):
                    self._streams = Streams(model, capacity, self.ring_dtype)
            except MemoryError as error:
                hint = "a pool grows as streams are opened, so a smaller capacity is enough"
                raise MemoryError(f"capacity={capacity}: {error}; {hint}") from error
            self._graphs = Graphs(self._streams)
        self.bytes_per_stream = self._streams.bytes_per_stream
        self.spoiled: set[int] = set()
        # Slots that may be different from new streams. The last one is for padding.
        self._used = np.zeros(capacity + 1, np.bool_)
        self._marked: Array | None = None  # the slots of the last push, which are marked as used

    def grow(self, capacity: int) -> None:
        self._graphs.forget()  # first: whatever happens next, no graph writes to tensors that are gone
        with self._changing(), room_for(f"{capacity:,} streams of {self.bytes_per_stream:,} bytes each"):
            self._streams.grow(capacity)
        self._used = np.concatenate([self._used, np.zeros(capacity + 1 - len(self._used), np.bool_)])

    def clear(self, slot: int) -> None:
        if self._used[slot]:
            self.spoiled.add(slot)  # until all of it is cleared
            with self._changing(), room_for("the state of a new stream"):
                self._streams.clear(slot)
            self._used[slot] = False
            self._marked = None
        self.spoiled.discard(slot)

    def push(self, slot: int, x: Array, y: Array) -> bool:
        r = self._streams.update_size
        return self.push_many(np.array([slot]), x.reshape(1, r, -1), y.reshape(1, r, -1))

    def push_many(self, slots: Array, x: Array, y: Array) -> bool:
        out = self.push_tensor(slots, torch.from_numpy(x))
        if out is None:
            return False
        torch.from_numpy(y).copy_(out)
        return True

    def push_tensor(self, slots: Array, x: Tensor) -> Tensor | None:
        """`push_many` for x [S, r, input_dim], on any device; returns a new tensor on that of the model, or None."""
        if capturing():
            raise RuntimeError("a pool cannot be pushed while a CUDA graph is captured; it has graphs of its own")
        with self._stepping():
            with room_for(f"a step of {len(slots):,} streams"):
                step = self._graphs.prepared(slots, x)
            if slots is not self._marked:  # a pool that pushes the same streams again passes the same array
                self._used[slots] = True
                self._marked = slots
            try:
                return step()
            except BaseException:
                self.spoiled.update(slots[slots >= 0].tolist())
                raise

    def time(self, slot: int) -> int:
        return int(self._streams.time[slot])

    def read(self, slot: int) -> Any:
        with self._stepping():
            return self._streams.read(slot)

    def write(self, slot: int, state: Any) -> None:
        self._used[slot] = True
        with self._changing():
            self._streams.write(slot, state)
        self.spoiled.discard(slot)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """`_stepping`, and wait for the device: the next push may come from another thread, on another CUDA stream."""
        with self._stepping():
            yield
            if self._device.type == "cuda":
                torch.cuda.current_stream(self._device).synchronize()

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        """On the model's device, make ordinary tensors, in its own precision, whatever modes are enabled."""
        device = self._device
        with ExitStack() as modes:  # entering all of them would take longer than the rest of what the host does
            if device.type == "cuda" and torch.cuda.current_device() != device.index:
                modes.enter_context(torch.cuda.device(device))
            if torch.is_inference_mode_enabled():
                modes.enter_context(torch.inference_mode(False))
            if torch.is_grad_enabled():  # after inference mode, whose end enables it
                modes.enter_context(torch.no_grad())
            if torch.is_autocast_enabled(device.type):
                modes.enter_context(torch.autocast(device.type, enabled=False))
            yield

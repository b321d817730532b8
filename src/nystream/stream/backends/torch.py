"""`model.step` on one batched state: every variant, stack, dtype and device.

Streams in adjacent slots are stepped in place, through views. Others are gathered, stepped and copied back, which
copies their rings twice; if that is slower, each run of adjacent slots is stepped separately.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nystream.state as states
from nystream.stream.errors import room_for

# A call of `step` takes about as long as copying this many bytes there and back.
BYTES_PER_CALL = 2_000_000


class TorchBackend:
    """The states of all streams as the rows of one state."""

    name = "torch"
    pads = False

    def __init__(self, model: Any, capacity: int) -> None:
        self._model = model
        weight = next(model.parameters())
        self._device, self._dtype = weight.device, weight.dtype
        with _ordinary():
            with room_for(f"a stream with window={model.config.window}"):
                self._fresh = model.init_state(1)
            try:
                self._state = _room(self._fresh, capacity)
            except MemoryError as error:
                hint = "a pool grows as streams are opened, so a smaller capacity is enough"
                raise MemoryError(f"capacity={capacity}: {error}; {hint}") from error
        self.bytes_per_stream = states.nbytes(self._fresh)
        self.spoiled: set[int] = set()

    def grow(self, capacity: int) -> None:
        with _ordinary():
            larger = _room(self._fresh, capacity)
            for (_, new), (_, old) in zip(states.named_leaves(larger), states.named_leaves(self._state), strict=True):
                new[: old.shape[0]] = old
        self._state = larger

    def clear(self, slot: int) -> None:
        self.write(slot, self._fresh)

    def push(self, slot: int, x: np.ndarray, y: np.ndarray) -> bool:
        r = self._model.config.update_size
        with self._stepping():
            tokens = self._tokens(x.reshape(1, r, -1))
            if tokens is None:
                return False
            self._in_place(slot, tokens, torch.from_numpy(y.reshape(1, r, -1)))
        return True

    def push_many(self, slots: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
        order = slots.argsort()
        ascending = slots[order]
        starts = np.flatnonzero(np.diff(ascending, prepend=-2) != 1)
        ends = [*starts[1:].tolist(), slots.size]
        with self._stepping():
            tokens = self._tokens(x)
            if tokens is None:
                return False
            if len(starts) > 1 and len(starts) * BYTES_PER_CALL > slots.size * self.bytes_per_stream:
                self._gathered(torch.from_numpy(slots).to(self._device), tokens, torch.from_numpy(y))
                return True
            index = torch.from_numpy(order)
            tokens, out = tokens[index.to(self._device)], torch.empty(y.shape, dtype=torch.from_numpy(y).dtype)
            for start, end in zip(starts.tolist(), ends, strict=True):
                try:
                    self._in_place(int(ascending[start]), tokens[start:end], out[start:end])
                except BaseException:
                    # Earlier runs have taken the step, but their outputs are lost.
                    self.spoiled.update(ascending[:end].tolist())
                    raise
            torch.from_numpy(y)[index] = out
        return True

    def time(self, slot: int) -> int:
        return int(self._state.time[slot])

    def read(self, slot: int) -> Any:
        with _ordinary():
            return states.map_state(lambda leaf: leaf[slot : slot + 1].to("cpu", copy=True), self._state)

    def write(self, slot: int, state: Any) -> None:
        with _ordinary():
            for (_, leaf), (_, new) in zip(states.named_leaves(self._state), states.named_leaves(state), strict=True):
                leaf[slot : slot + 1] = new
        self.spoiled.discard(slot)

    def _tokens(self, x: np.ndarray) -> Tensor | None:
        """x [S, r, input_dim] in the model's dtype and on its device, or None if it is not finite there."""
        tokens = torch.from_numpy(x).to(self._device, self._dtype)
        return tokens if bool(tokens.isfinite().all()) else None

    def _in_place(self, slot: int, tokens: Tensor, out: Tensor) -> None:
        """Step the rows that start at `slot`."""
        end = slot + tokens.shape[0]
        try:
            rows = states.map_state(lambda leaf: leaf[slot:end], self._state)
            out.copy_(self._model.step(tokens, rows, inplace=True)[0])
        except BaseException:
            self.spoiled.update(range(slot, end))
            raise

    def _gathered(self, slots: Tensor, tokens: Tensor, out: Tensor) -> None:
        """Step copies of the rows, then copy them back; an error before that leaves the rows unchanged."""
        rows = states.map_state(lambda leaf: leaf[slots], self._state)
        y, rows = self._model.step(tokens, rows, inplace=True)
        out.copy_(y)
        try:
            for (_, leaf), (_, new) in zip(states.named_leaves(self._state), states.named_leaves(rows), strict=True):
                leaf[slots] = new
        except BaseException:
            self.spoiled.update(slots.tolist())
            raise

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        """Step without a graph and in the model's own precision, whatever modes the caller has enabled."""
        with torch.inference_mode(), torch.autocast(self._device.type, enabled=False):
            yield


@contextmanager
def _ordinary() -> Iterator[None]:
    """Make ordinary tensors, which every mode can read and write, whatever mode the caller is in."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def _room(fresh: Any, capacity: int) -> Any:
    """A state of `capacity` rows, uninitialized, so that unused memory is not touched."""
    size = states.nbytes(fresh)
    with room_for(f"{capacity:,} streams of {size:,} bytes each"):
        if capacity * size > sys.maxsize:  # torch would raise an obscure error
            raise MemoryError(f"{capacity * size:,} bytes is more than a process can address")
        return states.map_state(lambda leaf: leaf.new_empty(capacity, *leaf.shape[1:]), fresh)

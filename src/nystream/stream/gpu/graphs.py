"""CUDA graphs of a step, one for every power of two of rows, so that a step of many small launches costs one launch.

A graph is captured when a batch first needs it. Before that, the step runs once on rows that are all skipped: it
compiles the kernels and initializes the libraries of torch, and changes no stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.model import Streams

Array = np.ndarray[Any, Any]

_capture = threading.Lock()  # a process can capture one graph at a time


@dataclass
class Graph:
    """A captured step, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    slots: Tensor
    x: Tensor
    y: Tensor
    accepted: Tensor
    known: Array | None = None  # the slots of the last completed step

    def load(self, slots: Array, x: Tensor) -> None:
        """Copy what the step reads; slots only if they are not those of the last step."""
        rows = len(slots)
        if slots is not self.known:
            self.known = None
            # Asynchronous: the array is never written to, and is kept until the copy is done.
            self.slots[:rows].copy_(torch.from_numpy(slots), non_blocking=True)
            if rows < len(self.slots):
                self.slots[rows:] = -1
        self.x[:rows].copy_(x)


class Graphs:
    """The step of `Streams` as graphs, or called directly where there is no GPU."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._dtype = next(streams.model.parameters()).dtype
        self._graphs: dict[int, Graph] = {}
        self._on_gpu = streams.device.type == "cuda"
        # All graphs are captured on one stream, from one pool of memory, so that they use the same memory.
        self._side = torch.cuda.Stream(streams.device) if self._on_gpu else None
        self._memory: Any = None
        # The flag of the last step, in pinned memory, to which copies are asynchronous.
        self._accepted = torch.empty((), dtype=torch.bool, device="cpu", pin_memory=self._on_gpu)
        self._done = torch.cuda.Event() if self._on_gpu else None  # with the last step

    def forget(self) -> None:
        """Drop all graphs, because the tensors of the states are new ones."""
        self._graphs.clear()
        self._memory = None  # that of graphs that are gone cannot be used again

    def prepared(self, slots: Array, x: Tensor) -> Callable[[], Tensor | None]:
        """`Streams.step` with these slots and tokens, as a call that needs no more memory.

        No stream changes until then. The call returns the outputs, a new tensor, when the step is done, or None if a
        token was not finite.

        Args:
            slots: int64 [rows]. Not to be written to later, as the same array again is known to be the same slots.
            x: The tokens [rows, r, input_dim], of any dtype and on any device.
        """
        if not self._on_gpu:
            device = self._streams.device
            return partial(self._stepped, torch.from_numpy(slots).to(device), x.to(device, self._dtype))
        size = power_of_two(len(slots))
        if size not in self._graphs:
            with _capture:
                self._graphs[size] = self._captured(size, x.shape[1:])
        graph = self._graphs[size]
        graph.load(slots, x)
        return partial(self._replayed, graph, slots, torch.empty_like(graph.y[: len(slots)]))

    def _stepped(self, slots: Tensor, x: Tensor) -> Tensor | None:
        y, accepted = self._streams.step(slots, x)
        return y if accepted else None

    def _replayed(self, graph: Graph, slots: Array, y: Tensor) -> Tensor | None:
        assert self._done is not None
        graph.graph.replay()
        y.copy_(graph.y[: len(y)])
        self._accepted.copy_(graph.accepted, non_blocking=True)
        self._done.record()
        self._done.synchronize()
        graph.known = slots
        return y if self._accepted else None

    def _captured(self, size: int, token: torch.Size) -> Graph:
        device, side = self._streams.device, self._side
        assert side is not None
        slots = torch.full((size,), -1, device=device)
        x = torch.zeros(size, *token, dtype=self._dtype, device=device)
        # Not on the side stream: what cuBLAS allocates for that stream must be memory of the graphs, which keep it.
        self._streams.step(slots, x)
        current = torch.cuda.current_stream(device)
        # Memory of a capture that fails cannot be used again: for torch, the capture may not be over.
        memory, self._memory = self._memory or torch.cuda.graph_pool_handle(), None
        graph = torch.cuda.CUDAGraph()
        # The outer block selects the current stream again even if the capture fails.
        with (
            torch.cuda.stream(current),
            torch.cuda.graph(graph, pool=memory, stream=side, capture_error_mode="thread_local"),
        ):
            y, accepted = self._streams.step(slots, x)
        self._memory = memory
        return Graph(graph, slots, x, y, accepted)

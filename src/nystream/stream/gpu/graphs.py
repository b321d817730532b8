"""CUDA graphs of a step, one for every power of two of rows, so that a step of many small launches costs one.

A graph is captured when a batch first needs it. Before that, the step runs once on rows that are all skipped: it
compiles the kernels and initializes the libraries of torch, and changes no stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.model import Streams

_capture = threading.Lock()  # a process can capture one graph at a time


class Graph(NamedTuple):
    """A captured step, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    slots: Tensor
    x: Tensor
    y: Tensor
    accepted: Tensor


class Graphs:
    """The step of `Streams` as graphs, or called directly where there is no GPU."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._graphs: dict[int, Graph] = {}
        self._on_gpu = streams.device.type == "cuda"
        # All graphs are captured on one stream, from one pool of memory, so that they use the same memory.
        self._side = torch.cuda.Stream(streams.device) if self._on_gpu else None
        self._memory: Any = None

    def forget(self) -> None:
        """Drop all graphs, because the tensors of the states are new ones."""
        self._graphs.clear()
        self._memory = None  # that of graphs that are gone cannot be used again

    def prepared(self, slots: Tensor, x: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
        """`Streams.step` with these arguments, as a call that needs no more memory. Changes no stream until then.

        The outputs are new tensors.
        """
        if not self._on_gpu:
            return partial(self._streams.step, slots, x)
        rows, size = len(slots), power_of_two(len(slots))
        if size not in self._graphs:
            with _capture:
                self._graphs[size] = self._captured(size, x)
        graph = self._graphs[size]
        graph.slots[:rows] = slots
        graph.slots[rows:] = -1
        graph.x[:rows] = x
        y = torch.empty_like(graph.y[:rows])

        def step() -> tuple[Tensor, Tensor]:
            graph.graph.replay()
            return y.copy_(graph.y[:rows]), graph.accepted

        return step

    def _captured(self, size: int, x: Tensor) -> Graph:
        device, side = self._streams.device, self._side
        assert side is not None
        slots, tokens = torch.full((size,), -1, device=device), x.new_zeros(size, *x.shape[1:])
        current = torch.cuda.current_stream(device)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side):
                self._streams.step(slots, tokens)
        finally:
            current.wait_stream(side)  # what was launched reads the slots, whose memory is free if the step fails
        # Memory of a capture that fails cannot be used again: for torch, the capture may not be over.
        memory, self._memory = self._memory or torch.cuda.graph_pool_handle(), None
        graph = torch.cuda.CUDAGraph()
        # The outer block selects the current stream again even if the capture fails.
        with (
            torch.cuda.stream(current),
            torch.cuda.graph(graph, pool=memory, stream=side, capture_error_mode="thread_local"),
        ):
            y, accepted = self._streams.step(slots, tokens)
        self._memory = memory
        return Graph(graph, slots, tokens, y, accepted)

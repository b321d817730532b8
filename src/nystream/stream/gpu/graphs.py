"""CUDA graphs of a step, one for every power of two of rows, so that a step of many small launches costs one.

A graph is captured when a batch first needs it. Before that, the step runs once on rows that are all skipped: it
compiles the kernels and initializes the libraries of torch, and changes no stream.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.model import Streams


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
        self._pool = torch.cuda.graph_pool_handle() if streams.device.type == "cuda" else None

    def forget(self) -> None:
        """Drop all graphs, because the tensors of the states are new ones."""
        self._graphs.clear()

    def step(self, slots: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """`Streams.step`; the outputs are new tensors."""
        if self._pool is None:
            return self._streams.step(slots, x)
        rows, size = len(slots), power_of_two(len(slots))
        if size not in self._graphs:
            self._graphs[size] = self._captured(size, x)
        graph = self._graphs[size]
        graph.slots[:rows] = slots
        graph.slots[rows:] = -1
        graph.x[:rows] = x
        graph.graph.replay()
        return graph.y[:rows].clone(), graph.accepted

    def _captured(self, size: int, x: Tensor) -> Graph:
        device = self._streams.device
        slots, tokens = torch.full((size,), -1, device=device), x.new_zeros(size, *x.shape[1:])
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            self._streams.step(slots, tokens)
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=side, capture_error_mode="thread_local"):
            y, accepted = self._streams.step(slots, tokens)
        return Graph(graph, slots, tokens, y, accepted)

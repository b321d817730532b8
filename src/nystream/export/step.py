"""The step of a model as a graph: one block, or a deep stack, of newest-row variants.

Every state is read before it is written, or read from what was written: the graph gives the same numbers whether a next
state is a copy or the same memory as the state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.export.attention import attention
from nystream.export.clock import Clock
from nystream.export.dense import Layers, values
from nystream.export.graph import Array, Graph
from nystream.export.path import Path
from nystream.export.span import Span
from nystream.export.states import STREAMS, State


class Step:
    """The parts of a model's step, from which graphs are built."""

    def __init__(self, model: Any, weights: str) -> None:
        self.model, self.config, self.weights = model, model.config, weights
        prefix = "encoder." if model._looks_back else ""
        self.attentions = [
            attention(block.attention, str(place), f"{prefix}blocks.{place}")
            for place, block in enumerate(model.encoder.blocks)
        ]
        self.path = None if self.config.linear is None else Path(model.linear)

    @property
    def states(self) -> list[State]:
        """The states of a stream, in the order of the inputs."""
        states = [State("time", (), "int64", leaf="time")]
        for block in self.attentions:
            states += block.states
        return states if self.path is None else states + self.path.states

    def add(self, g: Graph, clock: Clock | Span, x: str, y: str) -> None:
        """Add the model to a graph: tokens x [rows, input_dim] and outputs `y` [rows, output_dim], a row per token."""
        layers, scaled, features = Layers(g, self.weights), self._scaled(g, x), None
        if self.path is not None:
            features = clock.features(self.path, scaled, *_names(self.path.states))
        rows = self._embedded(layers, clock, scaled, features)
        for block, part in zip(self.model.encoder.blocks, self.attentions, strict=True):
            attended = layers.norm(rows, block.norm1) if block.pre_norm else rows
            out = clock.attend(part, part.project(layers, attended), *_names(part.states))
            rows = self._finished(layers, block, rows, out)
        if self.config.final_norm:
            rows = layers.norm(rows, self.model.encoder.norm)
        self._head(layers, rows, features, y)

    def _scaled(self, g: Graph, x: str) -> str:
        scaler = self.model.input_scaler
        mean, scale = (values(p).astype(np.float32) for p in (scaler.mean, scaler.scale))
        x = g.Sub(x, mean) if mean.any() else x
        return g.Div(x, scale) if (scale != 1).any() else x

    def _embedded(self, layers: Layers, clock: Clock | Span, x: str, features: str | None) -> str:
        """Input projection and positions, [rows, E]."""
        model, g = self.model, layers.g
        weight, bias = values(model.input_proj.weight), values(model.input_proj.bias)
        offset: Array | str = bias
        if model.positions.kind != "none":
            table = (values(model.positions.table) + bias).astype(np.float32)
            offset = g.Gather(table, clock.positions(model.positions.num_positions))
        rows = layers.affine(x, weight, offset)
        if features is not None and self.config.linear.embedded:
            assert self.path is not None
            path = self.path.output(layers, features)
            rows = layers.affine(path, values(model.linear_embed.weight), rows)
        return rows

    def _finished(self, layers: Layers, block: Any, x: str, out: str) -> str:
        """The rest of a block: output projection, feed-forward, residuals and norms."""
        g, pre = layers.g, block.pre_norm
        x = g.Add(layers.linear(out, block.attention.out_proj, light=True), x)
        x = x if pre else layers.norm(x, block.norm1)
        inner = layers.linear(layers.norm(x, block.norm2) if pre else x, block.linear1, light=True)
        inner = layers.activation(inner, self.config.activation)
        y = g.Add(layers.linear(inner, block.linear2, light=True), x)
        return y if pre else layers.norm(y, block.norm2)

    def _head(self, layers: Layers, rows: str, features: str | None, name: str) -> None:
        """Head, linear path, and the scaler that restores the user's units, folded into both."""
        scaler, head = self.model.output_scaler, self.model.head
        scale = values(scaler.scale)
        bias: Array | str = values(head.bias) * scale + values(scaler.mean)
        if features is not None:
            assert self.path is not None
            bias = self.path.output(layers, features, scale, bias)
        layers.affine(rows, values(head.weight) * scale[:, None], bias, name=name)


def step_graph(step: Step) -> Graph:
    """The graph of one step."""
    g, config, r = Graph(), step.config, step.config.update_size
    x = declare(g, step, [] if r == 1 else [r])
    clock = Clock(g, "state_time", "next_state_time", r)
    if r == 1:
        step.add(g, clock, x, "y")
    else:
        rows = g.fresh("answers")
        step.add(g, clock, g.Reshape(x, [-1, config.input_dim]), rows)
        g.Reshape(rows, [-1, r, config.output_dim], name="y")
    return g


def declare(g: Graph, step: Step, between: list[int | str]) -> str:
    """Declare inputs and outputs; `between` are the axes of x and y between streams and numbers."""
    x = g.input("x", "float32", [STREAMS, *between, step.config.input_dim])
    g.output("y", "float32", [STREAMS, *between, step.config.output_dim])
    for state in step.states:
        shape: list[int | str] = [STREAMS, *state.shape]
        g.input(state.input, state.dtype, shape)
        g.output(state.output, state.dtype, shape)
    return x


def _names(states: list[State]) -> tuple[list[str], list[str]]:
    """The names of states, and of what they become."""
    return [state.input for state in states], [state.output for state in states]

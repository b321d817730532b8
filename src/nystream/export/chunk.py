"""The graph that reads T tokens of every stream in one call.

Fixed landmarks and full attention are computed for all tokens at once: every token has a softmax over its own window,
of the tokens in the ring and those of the piece. Continual landmarks change from token to token, so their graph repeats
the step (`repeat`). Long windows have none: for them, steps in place are faster than what would copy the rings.
"""

from __future__ import annotations

from typing import Any

from nystream.export.attention.continual import Continual
from nystream.export.attention.tiers import TieredFixed
from nystream.export.graph import Graph
from nystream.export.repeat import repeated
from nystream.export.span import Span
from nystream.export.step import Step, declare, step_graph

MOST = 64  # tokens per call: the softmax of a piece takes memory in proportion to its square


def has_chunk(step: Step) -> bool:
    """Whether there is such a graph for a model."""
    return not any(isinstance(part, TieredFixed) for part in step.attentions)


def max_chunk(step: Step) -> int | None:
    """The largest number of tokens per call; None for any number."""
    if _repeats(step):
        return None
    r = step.config.update_size
    return min(-(-MOST // r) * r, *(cfg.window for cfg in step.config.blocks))


def chunk_model(step: Step, metadata: dict[str, str]) -> Any:
    """The graph of T tokens, with its metadata."""
    if _repeats(step):
        return repeated(step_graph(step).model("step", metadata), step.config)
    g, config = Graph(), step.config
    x = declare(g, step, ["tokens"])
    span = Span(g, x, "state_time", "next_state_time", config.update_size)
    rows = g.fresh("answers")
    step.add(g, span, g.Reshape(x, [-1, config.input_dim]), rows)
    shape = g.Concat(g.Shape(x, start=0, end=2), [config.output_dim], axis=0)
    g.Reshape(rows, shape, name="y")
    return g.model("chunk", metadata)


def _repeats(step: Step) -> bool:
    return any(isinstance(part, Continual) for part in step.attentions)

"""The tensors in which a graph keeps the streams, and the leaves of `StreamModel.init_state` they correspond to.

A graph has its own layout, in which a step needs the fewest operators. Snapshots have the leaves, so that streams can
move between a graph and a pool.
"""

from __future__ import annotations

from typing import Any, NamedTuple

STREAMS = "streams"  # the name of the first dimension


class State(NamedTuple):
    """One tensor of the state of a graph, [streams, *shape]."""

    name: str  # without its prefix, "state_"
    shape: tuple[int, ...]
    dtype: str = "float32"
    initial: float = 0.0  # of every number, in a new stream
    leaf: str = ""  # the leaf with the same numbers; none for what can be computed from other states
    axes: tuple[int, ...] = ()  # the axes of the state in the order of the leaf, whose first axis may be divided in two
    rolled: bool = False  # whether the leaf is a ring, and the state in order of time
    edges: str = ""  # the state with the block of this ring that is being overwritten
    totals: dict[str, Any] | None = None  # for the totals of a window: what they are computed from

    @property
    def input(self) -> str:
        return f"state_{self.name}"

    @property
    def output(self) -> str:
        return f"next_state_{self.name}"

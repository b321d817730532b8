"""One attention of a model: the states of all its streams, and its step.

Every leaf of a state is a tensor [capacity, ...]: a leaf of `init_state`, in the layout of the kernels, with rings
rotated by r · slot (`nystream.stream.gpu.blocks`). Partials are those of the kernels, which are a cache of the rings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nystream.layers.attention import MultiheadAttention
from nystream.stream.gpu.blocks import Blocks
from nystream.stream.gpu.launch import Call, Plan

RINGS = ("ring_logit", "ring_key", "ring_value")
ROUNDED = ("ring_key", "ring_value")  # rings that `ring_dtype` may make smaller


class Attention(ABC):
    """What the attentions of all variants have in common. `leaves` are the tensors of all streams, by name."""

    cut: Blocks
    leaves: dict[str, Tensor]

    def __init__(self, module: MultiheadAttention, ring_dtype: torch.dtype) -> None:
        self.module, self.config, self.ring_dtype = module, module.config, ring_dtype
        self.fresh = module.init_state(1)
        weight = module.q_proj.weight
        self.device, self.dtype = weight.device, weight.dtype
        self.rates = None if module.decay is None else module.decay.detach().float()

    @property
    def plan_key(self) -> tuple[Any, ...]:
        """Attentions with the same key share their plans."""
        return self.cut, self.config.record.kernel, self.config.landmarks

    @abstractmethod
    def plan(self, call: Call, *, advance: bool) -> Plan:
        """The plan of a step; with `advance`, the time of the streams is advanced."""

    @abstractmethod
    def step(self, x: Tensor, call: Call, plan: Callable[[], Plan]) -> Tensor:
        """Step x [rows, r, E], and return the rows before the output projection, [rows, r, E]."""

    def void(self) -> dict[str, Tensor]:
        """The leaves of a new stream, [1, ...]."""
        leaves = {
            name: leaf for name, leaf in self.fresh._asdict().items() if name not in ("time", "part_max", "part_sum")
        }
        return {
            name: self.stored(name, leaf.to(self.ring_dtype) if name in ROUNDED else leaf)
            for name, leaf in leaves.items()
        }

    def stored(self, name: str, leaf: Tensor) -> Tensor:
        """A leaf of a state as the kernels store it."""
        return leaf

    def plain(self, name: str, leaf: Tensor) -> Tensor:
        """A leaf that the kernels store, as in a state."""
        return leaf

    def grow(self, capacity: int) -> dict[str, Tensor]:
        """The leaves with more slots; those that are added have new streams."""
        larger = {}
        for name, leaf in self.void().items():
            old = self.leaves[name]
            larger[name] = old.new_empty(capacity, *leaf.shape[1:])
            larger[name][: len(old)] = old
            larger[name][len(old) :] = leaf
        return larger

    def allocate(self, capacity: int) -> None:
        """Make room for `capacity` new streams."""
        self.leaves = {name: leaf.repeat(capacity, *[1] * (leaf.dim() - 1)) for name, leaf in self.void().items()}

    def clear(self, slot: int) -> None:
        """Start a new stream."""
        for name, leaf in self.void().items():
            self.leaves[name][slot : slot + 1] = leaf

    def read(self, slot: int, time: Tensor) -> dict[str, Tensor]:
        """The leaves of a stream except its partials, in the layout and dtypes of `init_state(1)`, on the CPU."""
        state = {"time": time}
        for name, like in self.fresh._asdict().items():
            if name in self.leaves and name not in state:
                leaf = self.plain(name, self.leaves[name][slot : slot + 1].to("cpu", like.dtype, copy=True))
                state[name] = leaf.roll(-self._turn(slot), 1) if name in RINGS else leaf
        return state

    def write(self, slot: int, state: Any) -> None:
        """Set the leaves of a stream except its partials from a state of one row."""
        for name, leaf in state._asdict().items():
            if name in self.leaves:
                leaf = leaf.roll(self._turn(slot), 1) if name in RINGS else leaf
                self.leaves[name][slot : slot + 1] = self.stored(name, leaf).to(self.device)

    def _turn(self, slot: int) -> int:
        return slot * self.cut.r % self.cut.n

    def _projected(self, layer: Any, x: Tensor) -> Tensor:
        """[rows, r, E], contiguous, as the kernels read it."""
        return layer(x).to(self.dtype).contiguous()

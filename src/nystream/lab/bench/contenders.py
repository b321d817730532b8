"""nystream's own contenders, and what a contender is: something that takes in one token a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

import nystream.state as states
from nystream import variants
from nystream.models.stream_model import StreamModel

FAMILIES = {name: variants.get(name).family for name in ("co-fixed-single", "co-cont-single", "co-full-single")}


class Contender(ABC):
    """One stream of one model, somewhere in its middle.

    `arguments` puts a token into the form that the contender is used with, outside of what is timed; `step` is what is
    timed; `output` reads what it returned.
    """

    name: str
    blocks: int
    bytes_per_stream: int

    def arguments(self, x: Tensor) -> tuple[Any, ...]:
        """What `step` takes for the token x [input_dim]."""
        return (x[None].contiguous(),)

    @abstractmethod
    def step(self, *arguments: Any) -> Any:
        """Take in one token."""

    def output(self, y: Any) -> Tensor | None:
        """[output_dim], or None where the contender holds its output back."""
        return y[0]

    def fill(self, x: Tensor) -> None:
        """Take in tokens [T, input_dim] whose outputs nobody asks for."""
        for token in x:
            self.step(*self.arguments(token))


class Stepped(Contender):
    """`model.step(inplace=True)`, in eager torch."""

    def __init__(self, model: StreamModel) -> None:
        self.name = f"nystream torch, {FAMILIES[model.config.blocks[-1].variant]}"
        self.model, self.blocks, self.state = model, len(model.encoder.blocks), model.init_state(1)
        self.bytes_per_stream = states.nbytes(self.state)

    def step(self, x: Tensor) -> Tensor:
        y, self.state = self.model.step(x, self.state, inplace=True)
        return y

    def fill(self, x: Tensor) -> None:
        self.state = self.model.advance(x[None], self.state)


class Pooled(Contender):
    """`StreamPool.push`."""

    def __init__(self, model: StreamModel, backend: str = "auto") -> None:
        from nystream.stream import StreamPool

        self.pool = StreamPool(model, capacity=1, backend=backend)
        self.backend, self.blocks = self.pool.backend, len(model.encoder.blocks)
        self.name = f"nystream pool, {FAMILIES[model.config.blocks[-1].variant]}"
        self.stream = self.pool.open()
        self.bytes_per_stream = int(self.pool.bytes_per_stream)

    def arguments(self, x: Tensor) -> tuple[Any, ...]:
        return (self.stream, x.numpy())

    def step(self, stream: Any, x: Any) -> Any:
        return self.pool.push(stream, x)

    def output(self, y: Any) -> Tensor:
        return torch.from_numpy(y)

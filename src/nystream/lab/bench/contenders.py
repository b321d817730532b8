"""The interface of a contender, which reads one token per step, and nystream's own contenders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

import nystream.state as states
from nystream import variants
from nystream.lab.bench.timing import TimedCall
from nystream.models.stream_model import StreamModel

FAMILIES = {name: variants.get(name).family for name in ("co-fixed-single", "co-cont-single", "co-full-single")}


class Contender(ABC):
    """One stream to time. Converting a token (`arguments`) and a result (`output`) is not timed."""

    name: str
    blocks: int = 1
    bytes_per_stream: int

    def arguments(self, x: Tensor) -> tuple[Any, ...]:
        """The arguments of `step` for the token x [input_dim]."""
        return (x[None].contiguous(),)

    @abstractmethod
    def step(self, *arguments: Any) -> Any:
        """Read one token."""

    def output(self, y: Any) -> Any:
        """[output_dim], or None if there is no output yet."""
        return y[0]

    def fill(self, x: Tensor) -> None:
        """Read tokens [T, input_dim] without returning their outputs."""
        for token in x:
            self.step(*self.arguments(token))

    @property
    def timed(self) -> Any:
        """The function that is timed."""
        return self.step

    def job(self, feed: Tensor) -> TimedCall:
        """A timed call that steps over these tokens in turn."""
        return TimedCall(self.timed, [self.arguments(x) for x in feed])


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

    def __init__(self, model: StreamModel, backend: str = "auto", weights: str = "float32") -> None:
        from nystream.stream import StreamPool

        self.pool = StreamPool(model, capacity=1, backend=backend, weights=weights)
        self.backend, self.blocks = self.pool.backend, len(model.encoder.blocks)
        family = FAMILIES[model.config.blocks[-1].variant]
        self.name = f"nystream pool, {family if weights == 'float32' else weights}"  # both would not fit into a table
        self.stream = self.pool.open()
        self.bytes_per_stream = int(self.pool.bytes_per_stream)

    def arguments(self, x: Tensor) -> tuple[Any, ...]:
        return (self.stream, x.numpy())

    def step(self, stream: Any, x: Any) -> Any:
        return self.pool.push(stream, x)

    def output(self, y: Any) -> Tensor:
        return torch.from_numpy(y)

"""What `fit`, `predict`, `evaluate` and `distilled` need of a model: the methods and parts of a `StreamModel`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from nystream.layers.scaler import Scaler


class Window(Protocol):
    @property
    def window(self) -> int: ...


class Shape(Protocol):
    """The fields of a config that training reads; `ModelConfig` explains them."""

    @property
    def input_dim(self) -> int: ...

    @property
    def output_dim(self) -> int: ...

    @property
    def update_size(self) -> int: ...

    @property
    def num_positions(self) -> int | None: ...

    @property
    def stack(self) -> str: ...

    @property
    def cascade(self) -> bool: ...

    @property
    def window(self) -> int: ...

    @property
    def blocks(self) -> Sequence[Window]: ...  # their windows say when a stream is warmed up

    def to_dict(self) -> dict[str, Any]: ...


class Trainable(Protocol):
    """A module that can be trained: `StreamModel`, or one with the same methods and parts.

    The state is a NamedTuple of tensors, batch first. `head.weight` has the device and the dtype of the model.
    """

    @property
    def config(self) -> Shape: ...

    @property
    def head(self) -> nn.Linear: ...

    @property
    def input_scaler(self) -> Scaler: ...

    @property
    def output_scaler(self) -> Scaler: ...

    def forward(self, x: Tensor, offset: int | Tensor = 0, *, lengths: Tensor | None = None) -> Tensor: ...

    def init_state(self, batch_size: int = 1) -> Any: ...

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]: ...

    def steps(
        self, x: Tensor, state: Any, *, lengths: Tensor | None = None, offset: int | Tensor = 0
    ) -> tuple[Tensor, Any]: ...

    def outputs(self, x: Tensor, state: Any, *, lengths: Tensor | None = None, offset: int | Tensor = 0) -> Tensor: ...

    def advance(self, x: Tensor, state: Any, *, lengths: Tensor | None = None) -> Any: ...

    def save_pretrained(self, save_directory: str | os.PathLike[str]) -> Any: ...

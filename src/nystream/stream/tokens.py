"""The tokens that a pool takes: their shape and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream import inputs


class Tokens:
    """Converts what is pushed to arrays, or says what is wrong with it."""

    def __init__(self, config: Any, dtype: np.dtype[Any]) -> None:
        group = () if config.update_size == 1 else (config.update_size,)
        self._width = "input_dim" if hasattr(config, "input_dim") else "embed_dim"
        self.shape: tuple[int, ...] = (*group, getattr(config, self._width))
        self.dtype = dtype

    def one(self, x: Any) -> np.ndarray:
        """`x` of `push`, as backends take it."""
        array = inputs.numbers("x", x)
        if array.shape != self.shape:
            hint = "; push_many takes several streams at once" if array.shape[1:] == self.shape else ""
            raise ValueError(f"x is {list(array.shape)}, but push needs {list(self.shape)} ({self._sizes()}){hint}")
        return inputs.behaved(array, self.dtype)

    def many(self, X: Any, count: int) -> np.ndarray:
        """`X` of `push_many`, as backends take it."""
        if type(X) is np.ndarray and X.dtype is self.dtype and X.shape == (count, *self.shape) and X.flags.carray:
            return X
        array = inputs.numbers("X", X)
        if not count and array.shape == (0,):  # an empty list has no width
            array = array.reshape(0, *self.shape)
        self.check(array, count)
        return inputs.behaved(array, self.dtype)

    def check(self, X: Any, count: int) -> None:
        """Raise unless `X`, an array or a tensor, has one row of the right shape for each of `count` streams."""
        if tuple(X.shape[1:]) != self.shape:
            need = f"[S, {', '.join(map(str, self.shape))}]"
            raise ValueError(f"X is {list(X.shape)}, but push_many needs {need} (S streams, {self._sizes()})")
        if X.shape[0] != count:
            raise ValueError(f"sids has {count} ids, but X has {X.shape[0]} rows; every stream needs one row")

    def _sizes(self) -> str:
        """The names of the sizes in a shape, for messages."""
        group = f"update_size={self.shape[0]}, " if len(self.shape) == 2 else ""
        return f"{group}{self._width}={self.shape[-1]}"

"""Tokens as a pool takes them, and what is wrong with those that it would reject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.data.reader import RecordError, Token
from nystream.data.stream_states import TokenBatch
from nystream.models import StreamModel


class Inputs:
    """What a model takes.

    Args:
        model: The model.
    """

    def __init__(self, model: StreamModel) -> None:
        self._together, self._width = model.config.update_size, model.config.input_dim
        self._names = model.info.inputs
        self._dtype = next(model.parameters()).dtype

    def groups(self, tokens: Sequence[Token]) -> list[tuple[list[Token], NDArray[Any]]]:
        """Return the tokens that are pushed together, with the array to push: [input_dim], or [r, input_dim]."""
        if not tokens:
            return []
        r, width = self._together, self._width
        if len(tokens) % r:
            raise RecordError(f"{len(tokens)} tokens, but the model takes {r} at a time", "together")
        for token in tokens:
            if token.x.shape != (width,):
                raise RecordError(f"a token is {list(token.x.shape)}, but the model takes [{width}]")
        x = tokens[0].x[None] if len(tokens) == 1 else np.stack([token.x for token in tokens])  # [tokens, input_dim]
        if x.dtype != np.float32:
            with np.errstate(over="ignore"):
                x = x.astype(np.float32)
        return [(list(tokens[at : at + r]), x[at] if r == 1 else x[at : at + r]) for at in range(0, len(tokens), r)]

    def require_finite(self, pushes: Sequence[NDArray[Any]]) -> None:
        """Raise before anything is taken in, if the pool would reject a part of it."""
        bad = ~self.is_finite(np.concatenate([push.reshape(-1, self._width) for push in pushes])).all(0)
        if bad.any():
            place = int(bad.argmax())
            name = self._names[place] if self._names else f"number {place + 1}"
            raise RecordError(f"{name!r} is NaN, Inf or too large for {str(self._dtype).removeprefix('torch.')}")

    def accepted(self, batch: TokenBatch) -> TokenBatch | None:
        """Return the tokens of a batch that the pool will accept; None if there are none."""
        if batch.x.shape[1] != self._together:
            return None
        finite = self.is_finite(batch.x.reshape(len(batch.x), -1))
        if finite.all():
            return batch
        batch = batch.where(np.flatnonzero(finite.all(1)))
        return batch if len(batch.places) else None

    def is_finite(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which numbers are finite in the model's dtype: half precision has a smaller range than float32."""
        if self._dtype in (torch.float32, torch.float64):
            return np.isfinite(x)
        return torch.from_numpy(x).to(self._dtype).isfinite().numpy()

"""What a reader remembers of many streams: one row of an array for each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.records import Records

Slots = NDArray[np.int64]


class TokenBatch(NamedTuple):
    """The next tokens of several streams, from one record of each."""

    places: NDArray[np.int64]  # [S], of the records among those given
    x: NDArray[np.float32]  # [S, r, input_dim]
    time: NDArray[np.datetime64] | None = None  # [S], in microseconds
    base: NDArray[np.float64] | None = None  # [S, targets]: what a predicted change is added to
    values: NDArray[np.float64] | None = None  # [S, columns], of the rows of a table
    scale: NDArray[np.float64] | None = None  # [S, targets]: the unit of a predicted change; None for the user's

    def where(self, chosen: NDArray[np.int64]) -> TokenBatch:
        """Return the tokens of some of the streams, given their numbers in the batch."""
        return TokenBatch(*(None if part is None else part[chosen] for part in self))  # type: ignore[arg-type]


class StreamStates(ABC):
    """The states of a live reader for many streams, by slot.

    `load` and `store` exchange one state with the reader, which has the rules. `batch` and `advance` are a faster way
    for the usual record, one that is complete and in time: they must lead to the same tokens and states.

    Args:
        dtype: Of the row of a stream.
    """

    def __init__(self, dtype: Any) -> None:
        self.rows = np.zeros(0, np.dtype(dtype, align=True))  # [slots]

    def grow(self, slots: int) -> None:
        """Make room for so many slots."""
        rows = np.zeros(slots, self.rows.dtype)
        rows[: len(self.rows)] = self.rows
        self.rows = rows

    @abstractmethod
    def load(self, slot: int) -> Any:
        """Return the state of a stream, for the reader."""

    @abstractmethod
    def store(self, slot: int, state: Any) -> None:
        """Replace the state of a stream with one from the reader."""

    @abstractmethod
    def batch(self, slots: Slots, records: Records) -> TokenBatch | None:
        """Return the tokens of the usual records among those given, one for each of S different slots; None if there
        are none. No state changes."""

    @abstractmethod
    def advance(self, slots: Slots, batch: TokenBatch) -> None:
        """Change the states of streams as the records of a batch do; `slots` [S] are those of the batch."""


class ObjectStates(StreamStates):
    """States of any reader, as objects."""

    def __init__(self) -> None:
        super().__init__([("state", object)])

    def load(self, slot: int) -> Any:
        return self.rows["state"][slot]

    def store(self, slot: int, state: Any) -> None:
        self.rows["state"][slot] = state

    def batch(self, slots: Slots, records: Records) -> None:
        return None

    def advance(self, slots: Slots, batch: TokenBatch) -> None:
        raise NotImplementedError("states that are objects have no batches")

"""What turns a user's records into tokens. It is saved with the model, so that a stream speaks the user's language.

A reader is found out once, from training data: which columns there are, their categories, how far apart rows lie. Its
live half then reads one record after another, and says what it had to fill.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

Policy = Literal["fail", "fill", "skip"]  # what is done about a field or a row that is missing

# kind -> module that defines READER, a subclass of Reader
KINDS = {
    "table": "nystream.data.table_reader",
    "frames": "nystream.data.frames",
    "audio": "nystream.data.sounds",
}


class RecordError(ValueError):
    """A record that cannot be read; whoever reads it is as before."""


class Token(NamedTuple):
    """One token of a stream."""

    x: NDArray[np.float32]  # [input_dim], in the user's units
    time: np.datetime64 | None = None
    filled: tuple[str, ...] = ()  # columns that were missing and were filled
    gap: bool = False  # the whole row was missing: a gap in time that was filled
    base: NDArray[np.float32] | None = None  # [output_dim]: what a forecast of a change is added to


class LiveReader(ABC):
    """Reads one record after another. What it remembers is a value that can be saved and put back."""

    @abstractmethod
    def read(self, record: Any) -> list[Token]:
        """The tokens of a record: none where it is skipped, several where a gap is filled.

        RecordError, and nothing remembered, where the record cannot be read.
        """

    @abstractmethod
    def memory(self) -> dict[str, Any]:
        """What it remembers, in what JSON can hold."""

    @abstractmethod
    def remember(self, memory: dict[str, Any]) -> None:
        """The inverse of `memory`."""


class Reader(ABC):
    """How records become tokens."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Of the columns of a token, one for each of the model's `input_dim`."""

    @abstractmethod
    def live(self, missing: Policy = "fail", gaps: Policy = "fail") -> LiveReader:
        """A reader of live records.

        Args:
            missing: a field that is empty: an error, filled with its last value, or a reason to skip the record.
            gaps: rows that are missing in time: an error, filled with the last values, or passed over.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All of it, in what JSON can hold, with its `kind`."""

    @classmethod
    @abstractmethod
    def from_dict(cls, fields: dict[str, Any]) -> Reader:
        """The inverse of `to_dict`; what is not known is refused."""


def check_policy(name: str, policy: str) -> None:
    """Refuse a policy that there is not."""
    if policy not in get_args(Policy):
        raise ValueError(f"{name}={policy!r} is not known; it must be one of {', '.join(get_args(Policy))}")


def reader_from_dict(fields: dict[str, Any]) -> Reader:
    """The reader that `to_dict` wrote, of whatever kind."""
    kind = fields.get("kind")
    if kind not in KINDS:
        raise ValueError(f"reader is of kind {kind!r}, but this version knows {', '.join(KINDS)}")
    found: Reader = import_module(KINDS[kind]).READER.from_dict(fields)
    return found

"""What turns a user's records into tokens. It is saved with the model, so that a stream speaks the user's language.

A reader is found out once, from training data: which columns there are, their categories, how far apart rows lie. Its
live half then reads one record after another, and says what it had to fill.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

Policy = Literal["fail", "fill", "skip"]  # what is done about a field or a row that is missing

MISSING = "--missing fill would take the last value, --missing skip leave the record out"
SHOWN = 40  # characters of a field that a message shows

# kind -> module that defines READER, a subclass of Reader
KINDS = {
    "table": "nystream.data.table_reader",
    "frames": "nystream.data.frames",
    "audio": "nystream.data.sounds",
}


class RecordError(ValueError):
    """A record that cannot be read; whoever reads it is as before.

    Args:
        message: what is wrong with it.
        kind: the same for all records that are wrong in the same way, by which reports count them; the message itself
            unless told, for one that does not repeat what the record holds.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or message


class Token(NamedTuple):
    """One token of a stream."""

    x: NDArray[np.float32]  # [input_dim], in the user's units
    time: np.datetime64 | None = None
    filled: tuple[str, ...] = ()  # columns that were missing and were filled
    gap: bool = False  # the whole row was missing: a gap in time that was filled
    base: NDArray[np.float64] | None = None  # [output_dim]: what a forecast of a change is added to


class LiveReader(ABC):
    """Reads one record after another.

    Attributes:
        state: all that it remembers. It is replaced, never changed: whoever holds an old one can put it back.
        note: what there is to say of the last record: why it was left out, how its time has jumped.
        note_kind: the same for all notes that say the same of other records, as `RecordError.kind`.
        lost: how many records the last one has left out for good: itself, or one that waited for it.
        zoned: whether the times of its tokens are those of UTC; not where they are of a clock on some wall.
    """

    state: Any
    note: str = ""
    note_kind: str = ""
    lost: int = 0
    zoned: bool = False

    @abstractmethod
    def read(self, record: Any) -> list[Token]:
        """The tokens of a record: none where it is left out, several where a gap is filled.

        RecordError, and nothing remembered, where the record cannot be read.
        """

    @abstractmethod
    def memory(self) -> dict[str, Any]:
        """The state, in what JSON can hold."""

    @abstractmethod
    def remember(self, memory: dict[str, Any]) -> None:
        """The inverse of `memory`."""

    @abstractmethod
    def check(self, columns: Sequence[str] | None, width: int) -> None:
        """Refuse, with a ValueError, a source whose every record would be refused.

        Args:
            columns: those of a table; None where records are plain numbers.
            width: how many there are.
        """

    def ahead(self, time: np.datetime64, rows: int) -> np.datetime64 | None:
        """When the row that many after one of `time` is due; None where that cannot be known."""
        return None


class Reader(ABC):
    """How records become tokens."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Of the columns of a token, one for each of the model's `input_dim`."""

    @abstractmethod
    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> LiveReader:
        """A reader of live records.

        Args:
            missing: a field that is empty: an error, filled with its last value, or a reason to skip the record; as in
                training unless told.
            gaps: rows that are missing in time: an error, filled with the last values, or passed over; as in training
                unless told.
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


def no_gaps(gaps: Policy | None) -> None:
    """Refuse a policy for gaps where records have no time."""
    if gaps not in (None, "fail"):
        check_policy("gaps", gaps)
        raise ValueError(f"gaps={gaps!r}: records have no time, so gaps in it cannot be seen")


def blank(field: Any) -> str:
    """What a field without a value is: empty, nan, or another way to write that."""
    text = "" if field is None else str(field).strip()
    if not text:
        return "empty"
    return "nan" if text.lower() == "nan" else f"{shown(field)}, which counts as empty"


def shown(field: Any) -> str:
    """A field in a message, not all of it if it is long."""
    try:
        text = repr(field)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def reader_from_dict(fields: dict[str, Any]) -> Reader:
    """The reader that `to_dict` wrote, of whatever kind."""
    kind = fields.get("kind")
    if kind not in KINDS:
        raise ValueError(f"reader is of kind {kind!r}, but this version knows {', '.join(KINDS)}")
    found: Reader = import_module(KINDS[kind]).READER.from_dict(fields)
    return found

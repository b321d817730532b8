"""Readers turn records into tokens. A reader is saved with its model, so that a live stream takes the same records as
the training data.

A reader is determined once, from training data: its columns, their categories, the time step. Its live part then reads
one record at a time and reports what it had to fill in.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import fields_of

if TYPE_CHECKING:
    from nystream.data.stream_states import StreamStates

Policy = Literal["fail", "fill", "skip"]  # for missing fields, and for missing rows

MISSING_HINT = "`missing='fill'` repeats the last value, `missing='skip'` drops the record"
EMPTY = ("", "na", "n/a", "nan", "nat", "null", "none", "-", "?")  # fields that count as empty
MAX_SHOWN = 40  # characters of a field in a message

# kind -> module and name of the subclass of Reader
KINDS = {
    "table": ("nystream.data.table_reader", "TableReader"),
    "frames": ("nystream.data.frames", "FramesReader"),
    "audio": ("nystream.data.sounds", "SoundReader"),
}


class RecordError(ValueError):
    """A record that cannot be read. The reader is unchanged.

    Args:
        message: What is wrong with it.
        kind: The same for all records with the same problem, so that reports can count them; by default the message,
            which must then not repeat the record's values.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or message


class ReaderError(RecordError):
    """A record on which the reader failed for a reason that it does not know; the reader is unchanged."""


class Token(NamedTuple):
    """One token of a stream."""

    x: NDArray[np.float32]  # [input_dim], in the user's units
    time: np.datetime64 | None = None
    filled: tuple[str, ...] = ()  # columns that were missing and were filled in
    gap: bool = False  # the whole row was missing: the token fills a gap in time
    base: NDArray[np.float64] | None = None  # [targets]: what a predicted change is added to
    scale: NDArray[np.float64] | None = None  # [targets]: the unit of a predicted change; None for the user's


class LiveReader(ABC):
    """Reads one record at a time.

    Attributes:
        state: Everything it remembers. It is replaced, never modified, so an earlier state can be restored.
        note: A remark about the last record: why it was dropped, or how its time jumped.
        note_kind: The same for all notes of the same kind, as `RecordError.kind`.
        lost: The number of records that were dropped by the last call: the record itself, or one held back before.
        zoned: Whether the times of its tokens are in UTC; otherwise they are local times without a time zone.
        timezone: The time zone in which times are printed; they are then in UTC. "" for none.
        missing: What it does about missing fields; None if it has no such policy.
        gaps: What it does about rows missing in time, likewise.
    """

    state: Any
    note: str = ""
    note_kind: str = ""
    lost: int = 0
    zoned: bool = False
    timezone: str = ""
    missing: Policy | None = None
    gaps: Policy | None = None

    @abstractmethod
    def read(self, record: Any) -> list[Token]:
        """Return the tokens of a record: none if it is dropped, several if a gap is filled.

        Raises RecordError if the record cannot be read; the state is then unchanged.
        """

    @abstractmethod
    def memory(self) -> dict[str, Any]:
        """Return the state, as JSON-compatible values."""

    @abstractmethod
    def remember(self, memory: dict[str, Any]) -> None:
        """Restore the state that `memory` returned."""

    @abstractmethod
    def check(self, columns: Sequence[str] | None, width: int) -> None:
        """Raise ValueError if every record of a source would be rejected.

        Args:
            columns: The column names of a table; None if records are plain numbers.
            width: The number of columns.
        """

    def states(self) -> StreamStates:
        """Return room for the states of many streams, without any yet."""
        from nystream.data.stream_states import ObjectStates

        return ObjectStates()

    def ahead(self, time: np.datetime64, rows: int) -> np.datetime64 | None:
        """Return when the row that many rows after `time` is due; None if that is unknown."""
        return None


@dataclass(frozen=True)
class Reader(ABC):
    """How records become tokens."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the numbers of a token, one for each of the model's `input_dim`."""

    @abstractmethod
    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> LiveReader:
        """Return a reader of live records.

        Args:
            missing: For an empty field: raise an error, repeat the last value, or skip the record; by default as in
                training.
            gaps: For rows missing in time: raise an error, repeat the last values, or ignore the gap; by default as in
                training.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return all settings and the `kind`, as JSON-compatible values."""
        return {"kind": self.kind, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Create a reader from the result of `to_dict`; unknown fields are an error."""
        return cls(**fields_of(cls, {name: value for name, value in fields.items() if name != "kind"}, "reader"))


def check_policy(name: str, policy: str) -> None:
    """Raise if this is not a policy."""
    if policy not in get_args(Policy):
        raise ValueError(f"{name}={policy!r} is not known; it must be one of {', '.join(get_args(Policy))}")


def reject_gaps(gaps: Policy | None) -> None:
    """Raise if a policy for gaps is given for records without times."""
    if gaps not in (None, "fail"):
        check_policy("gaps", gaps)
        raise ValueError(f"gaps={gaps!r}: records have no time, so gaps cannot be detected")


def is_empty(field: Any) -> bool:
    """Whether a field has no value."""
    if isinstance(field, str):
        return field.strip().lower() in EMPTY
    return field is None or (isinstance(field, float) and math.isnan(field))


def empty_text(field: Any) -> str:
    """Describe a field without a value: empty, nan, or as it is written."""
    text = "" if field is None else str(field).strip()
    if not text:
        return "empty"
    return "nan" if text.lower() == "nan" else f"{shown(field)}, which counts as empty"


def shown(field: Any) -> str:
    """Return a field for a message, shortened if it is long."""
    try:
        text = repr(field)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def reader_from_dict(fields: dict[str, Any]) -> Reader:
    """Create the reader that `to_dict` described, of any kind."""
    kind = fields.get("kind")
    if kind not in KINDS:
        raise ValueError(f"reader is of kind {kind!r}, but this version knows {', '.join(KINDS)}")
    module, name = KINDS[kind]
    reader: Reader = getattr(import_module(module), name).from_dict(fields)
    return reader

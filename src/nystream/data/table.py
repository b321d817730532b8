"""Tables as they come: a CSV or Parquet file, its fields still as they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nystream.data import clock

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
SEPARATORS = (",", ";", "\t", "|")
NOTHING = ("", "na", "n/a", "nan", "nat", "null", "none", "-", "?")  # ways to say that a field is empty


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named fields. `first_line` is the number of the first row in the file, for messages."""

    name: str
    frame: pl.DataFrame
    first_line: int = 1

    def __len__(self) -> int:
        return self.frame.height

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    def line(self, row: int) -> str:
        """A row, as a user finds it in the file."""
        return f"line {row + self.first_line}" if self.first_line > 1 else f"row {row + 1}"

    def values(self, name: str) -> list[Any]:
        """A column as Python's own: text, numbers, times; None where a field is empty."""
        return [None if empty(value) else value for value in self._column(name).to_list()]

    def raw(self, name: str, row: int) -> Any:
        """One field, as it was written."""
        return self._column(name)[row]

    def numbers(self, name: str, decimal: str = ".") -> tuple[NDArray[np.float64], int | None]:
        """[N], NaN where a field is empty; and the first row that is no number, if there is one."""
        if (name, decimal) not in self._numbers:
            self._numbers[name, decimal] = _as_numbers(self._column(name), decimal)
        return self._numbers[name, decimal]

    def times(self, name: str, form: str) -> NDArray[Any]:
        """[N] datetime64 in microseconds, NaT where a field is empty."""
        if (name, form) not in self._times:
            found = []
            for row, value in enumerate(self.values(name)):
                try:
                    found.append(np.datetime64("NaT", "us") if value is None else clock.parse(value, form))
                except (ValueError, OverflowError) as error:
                    where = f"{self.name}, {self.line(row)}"
                    raise ValueError(f"{where}: {name!r} is {value!r}, which is not a time: {error}") from error
            self._times[name, form] = np.array(found, "datetime64[us]")
        return self._times[name, form]

    def is_text(self, name: str) -> bool:
        import polars as pl

        return self._column(name).dtype in (pl.String, pl.Categorical, pl.Enum)

    def is_time(self, name: str) -> bool:
        return self._column(name).dtype.is_temporal()

    def records(self) -> Iterator[dict[str, Any]]:
        """Row after row, as a live source gives them."""
        return self.frame.iter_rows(named=True)

    def _column(self, name: str) -> pl.Series:
        if name not in self._named:
            raise ValueError(f"{self.name} has no column {name!r}; it has {listed(self.names)}")
        return self._named[name]

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], tuple[NDArray[np.float64], int | None]]:
        return {}

    @cached_property
    def _times(self) -> dict[tuple[str, str], NDArray[Any]]:
        return {}

    @cached_property
    def _named(self) -> dict[str, pl.Series]:
        return {column.name: column for column in self.frame.get_columns()}


def read_table(path: str | Path) -> Table:
    """The table in a CSV file (commas, semicolons, tabs or bars; one line of names) or a Parquet file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} must end in one of {', '.join(SUFFIXES)}")
    pl = require()
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            table = Table(path.name, pl.read_parquet(path))
        else:
            table = Table(path.name, _read_csv(path), first_line=2)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if not len(table) or not table.names:
        raise ValueError(f"{path} has no rows")
    return table


def separator_of(path: Path) -> str:
    """What stands between the fields of a CSV file: what its first line has the most of."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        first = file.readline()
    return max(SEPARATORS, key=first.count)


def header_of(path: Path, separator: str) -> list[str]:
    """The names in the first line of a CSV file, which must be names."""
    import csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = [name.strip() for name in next(csv.reader(file, delimiter=separator), [])]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error}") from error
    if not any(names):
        raise ValueError(f"{path} is empty: it needs a first line with the names of its columns")
    if all(_is_number(name) for name in names):
        raise ValueError(f"{path} begins with numbers, but its first line must have the names of its columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path} has several columns named {listed(twice)}; each needs a name of its own")
    return names


def empty(value: Any) -> bool:
    """Whether a field holds nothing."""
    if isinstance(value, str):
        return value.strip().lower() in NOTHING
    return value is None or (isinstance(value, float) and np.isnan(value))


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names for a message, not all of them if they are many."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def counted(count: int, what: str) -> str:
    """So many of them."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def require() -> Any:
    """polars, or what to do where it is missing."""
    try:
        import polars
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading tables needs polars: pip install 'nystream[data]'", name="polars") from error
    return polars


def _read_csv(path: Path) -> pl.DataFrame:
    separator = separator_of(path)
    names = header_of(path, separator)
    # As text: what a column is, the reader decides, by the same rules as for a live record.
    frame: pl.DataFrame = require().read_csv(path, separator=separator, infer_schema=False)
    frame.columns = names
    return frame


def _as_numbers(column: pl.Series, decimal: str) -> tuple[NDArray[np.float64], int | None]:
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy(), None
    if column.dtype != pl.String:
        return np.full(len(column), np.nan), 0
    text = column.str.strip_chars()
    there = ~(text.str.to_lowercase().is_in(NOTHING) | text.is_null())
    if decimal == ",":
        # A point would be one of thousands, or a slip; neither is guessed at.
        text = text.str.replace_all(".", "?", literal=True).str.replace(",", ".", literal=True)
    found = text.set(~there, None).cast(pl.Float64, strict=False)
    wrong = (there & found.is_null()).to_numpy()
    return found.fill_null(np.nan).to_numpy(), int(wrong.argmax()) if wrong.any() else None


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True

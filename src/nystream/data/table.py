"""Tables as they come: a CSV or Parquet file, its fields still as they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nystream.data import clock, numbers
from nystream.data.csv_file import read_csv, separator_of
from nystream.progress import track

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
NOTHING = ("", "na", "n/a", "nan", "nat", "null", "none", "-", "?")  # ways to say that a field is empty
MANY = 50_000  # rows that take a noticeable time
NAT = np.iinfo(np.int64).min  # no time, among microseconds


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named fields.

    Args:
        name: of the file, for messages.
        frame: the fields.
        first_line: the number of the first row in the file.
        separator: what stands between fields in the file; "" where nothing does.
        show: a progress bar: True, False, or None for one on a terminal.
    """

    name: str
    frame: pl.DataFrame
    first_line: int = 1
    separator: str = ""
    show: bool | None = False

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

    def sample(self, name: str, most: int) -> list[Any]:
        """The first fields of a column that are not empty, as in `values`."""
        return list(islice((value for value in self._column(name) if not empty(value)), most))

    def raw(self, name: str, row: int) -> Any:
        """One field, as it was written."""
        return self._column(name)[row]

    def numbers(self, name: str, decimal: str = ".") -> tuple[NDArray[np.float64], int | None]:
        """[N], NaN where a field is empty; and the first row that is no number, if there is one."""
        if (name, decimal) not in self._numbers:
            self._numbers[name, decimal] = _as_numbers(self._column(name), decimal)
        return self._numbers[name, decimal]

    def texts(self, name: str) -> pl.Series:
        """The fields of a column of text that are not empty, without spaces around them."""
        text = self._column(name).cast(require().String).str.strip_chars()
        return text.filter(_there(text))

    def times(self, name: str, form: str) -> NDArray[Any]:
        """[N] datetime64 in microseconds, NaT where a field is empty."""
        if (name, form) not in self._times:
            values = self.values(name)
            found = np.empty(len(values), np.int64)
            with self.each_row("reading times, rows") as rows:
                for row in rows:
                    found[row] = self._time(name, row, values[row], form)
            self._times[name, form] = found.view("datetime64[us]")
        return self._times[name, form]

    @contextmanager
    def each_row(self, what: str) -> Iterator[Iterator[int]]:
        """The numbers of the rows, with progress where there are many."""
        count = len(self)
        with track(what, count, self.show if count > MANY else False) as advance:

            def rows() -> Iterator[int]:
                for start in range(0, count, MANY):
                    some = range(start, min(start + MANY, count))
                    yield from some
                    advance(len(some))

            yield rows()

    def zoned(self, name: str, form: str) -> bool:
        """Whether the times of a column name a zone: all of them do, or none."""
        self.times(name, form)
        return self._zoned.get((name, form), False)

    def is_text(self, name: str) -> bool:
        import polars as pl

        return self._column(name).dtype in (pl.String, pl.Categorical, pl.Enum)

    def is_truth(self, name: str) -> bool:
        import polars as pl

        return self._column(name).dtype == pl.Boolean

    def is_time(self, name: str) -> bool:
        return self._column(name).dtype.is_temporal()

    def records(self) -> Iterator[dict[str, Any]]:
        """Row after row, as a live source gives them."""
        return self.frame.iter_rows(named=True)

    def _time(self, name: str, row: int, value: Any, form: str) -> int:
        if value is None:
            return NAT
        where = f"{self.name}, {self.line(row)}"
        try:
            found, zoned = clock.instant(value, form)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{where}: {name!r} is {value!r}, which is not a time: {error}") from error
        if self._zoned.setdefault((name, form), zoned) is not zoned:
            raise ValueError(f"{where}: {name!r} is {value!r}, but times must either all name a zone, or none")
        return found

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
    def _zoned(self) -> dict[tuple[str, str], bool]:
        return {}

    @cached_property
    def _named(self) -> dict[str, pl.Series]:
        return {column.name: column for column in self.frame.get_columns()}


def read_table(path: str | Path, show: bool | None = False) -> Table:
    """The table in a CSV file (commas, semicolons, tabs or bars; one line of names) or a Parquet file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from nystream.data import read_table
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "load.csv"
        ...     written = path.write_text("time;load\\n2024-01-01;1,5\\n2024-01-02;-\\n")
        ...     table = read_table(path)
        >>> len(table), table.names, table.values("load")
        (2, ('time', 'load'), ['1,5', None])
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} must end in one of {', '.join(SUFFIXES)}")
    pl = require()
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            table = Table(path.name, pl.read_parquet(path), show=show)
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    else:
        separator = separator_of(path)
        table = Table(path.name, read_csv(path, separator), 2, separator, show)
    if not len(table) or not table.names:
        raise ValueError(f"{path} has no rows")
    return table


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


def _as_numbers(column: pl.Series, decimal: str) -> tuple[NDArray[np.float64], int | None]:
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy(), None
    if column.dtype != pl.String:
        return np.full(len(column), np.nan), 0
    text = column.str.strip_chars()
    there = _there(text)
    found = numbers.values(text.set(~there, None), decimal)
    wrong = (there & found.is_null()).to_numpy()
    return found.fill_null(np.nan).to_numpy(), int(wrong.argmax()) if wrong.any() else None


def _there(text: pl.Series) -> pl.Series:
    """Which of the fields are not empty."""
    return ~(text.str.to_lowercase().is_in(NOTHING) | text.is_null())

"""Tables: the rows of a CSV or Parquet file, with fields as they are written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nystream import extras
from nystream.config.checks import whole
from nystream.data import numbers
from nystream.data.csv_edges import MAX_FOOTER, lines_after
from nystream.data.csv_file import file_separator, read_csv
from nystream.data.reader import EMPTY, is_empty
from nystream.data.timestamps.clock import join_time
from nystream.data.timestamps.parse import parse_time
from nystream.progress import track

if TYPE_CHECKING:
    import polars as pl

PARQUET = (".parquet", ".pq")
SUFFIXES = (".csv", ".tsv", ".txt", *PARQUET)
PROGRESS_ROWS = 50_000  # from which a progress bar is useful
NAT = np.iinfo(np.int64).min  # NaT in microseconds


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named fields.

    Args:
        name: Name of the file, for messages.
        frame: The fields.
        first_line: Line number of the first row in the file.
        separator: Separator of the file; "" if it has none.
        show: Whether to show a progress bar; None for only on a terminal.
        turned: Whether the rows are in reverse order of those in the file.
        numbers_in_file: [N], the numbers of the rows in the file, from 0; None if they are all of its rows.
        line_of: Where a row is, given its number, if the table was not read from a single file.
    """

    name: str
    frame: pl.DataFrame
    first_line: int = 1
    separator: str = ""
    show: bool | None = False
    turned: bool = False
    numbers_in_file: NDArray[np.int64] | None = None
    line_of: Callable[[int], str] | None = None
    _numbers: dict[tuple[str, str], tuple[NDArray[np.float64], int | None]] = field(init=False, default_factory=dict)
    _times: dict[tuple[str, str, str | None], tuple[NDArray[Any], bool]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return self.frame.height

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    def line(self, row: int) -> str:
        """Return where a row is in the file."""
        row = len(self) - 1 - row if self.turned else row
        row = row if self.numbers_in_file is None else int(self.numbers_in_file[row])
        if self.line_of is not None:
            return self.line_of(row)
        return f"line {row + self.first_line}" if self.first_line > 1 else f"row {row + 1}"

    def footer(self, row: int, unusable: Callable[[int], bool]) -> str:
        """Return a hint on a footer, if this is one of the last lines of a CSV file, all of which are unusable."""
        upwards = range(len(self)) if self.turned else range(len(self) - 1, -1, -1)
        last = list(takewhile(unusable, upwards[: 2 * MAX_FOOTER]))
        if self.first_line == 1 or row not in last or len(last) == len(self):
            return ""
        # Empty lines are rows here, but are not counted by skip_end.
        return lines_after(sum(any(field is not None for field in self.frame.row(other)) for other in last))

    def turn(self) -> Table:
        """Return the table with its rows in reverse order."""
        table = dataclasses.replace(self, frame=self.frame.reverse(), turned=not self.turned)
        table._times.update({key: (times[::-1], zoned) for key, (times, zoned) in self._times.items()})
        return table

    def chosen(self, name: str, frame: pl.DataFrame, numbers: NDArray[np.int64]) -> Table:
        """Return a table of some rows, given their fields and numbers; what was parsed before is not parsed again."""
        table = dataclasses.replace(self, name=name, frame=frame, numbers_in_file=numbers)
        for key, (values, wrong) in self._numbers.items():
            if wrong is None:
                table._numbers[key] = values[numbers], None
        table._times.update({key: (times[numbers], zoned) for key, (times, zoned) in self._times.items()})
        return table

    def values(self, name: str) -> list[Any]:
        """Return a column as Python values: text, numbers, times; None for empty fields."""
        return [None if is_empty(value) else value for value in self._column(name).to_list()]

    def sample(self, name: str, count: int) -> list[Any]:
        """Return the first non-empty fields of a column."""
        return list(islice((value for value in self._column(name) if not is_empty(value)), count))

    def raw(self, name: str, row: int) -> Any:
        """Return one field as it is written."""
        return self._column(name)[row]

    def numbers(self, name: str, decimal: str = ".") -> tuple[NDArray[np.float64], int | None]:
        """Return a column as numbers [N], NaN for empty fields, and the first row that is not a number, if any."""
        if (name, decimal) not in self._numbers:
            self._numbers[name, decimal] = _as_numbers(self._column(name), decimal)
        return self._numbers[name, decimal]

    def texts(self, name: str) -> pl.Series:
        """Return the non-empty fields of a column of text, stripped."""
        text = self._column(name).cast(require().String).str.strip_chars()
        return text.filter(_not_empty(text))

    def time_fields(self, name: str, clock: str | None = None) -> list[Any]:
        """Return times as they are written; `clock` is the column of the time of day, if `name` has dates only."""
        if clock is None:
            return self.values(name)
        return [join_time(day, time) for day, time in zip(self.values(name), self.values(clock), strict=True)]

    def times(self, name: str, time_format: str, clock: str | None = None) -> NDArray[Any]:
        """Return times [N] in microseconds, NaT for empty fields; columns as in `time_fields`."""
        return self._parsed_times(name, time_format, clock)[0]

    def bad_time(self, row: int, name: str | None, clock: str | None, error: Exception, hint: str = "") -> ValueError:
        """Return the error that a row has no valid time; columns as in `time_fields`."""
        assert name is not None
        fields = [self.raw(column, row) for column in (name, clock) if column is not None]
        value = fields[0] if clock is None else join_time(*fields)
        where = f"{self.name}, {self.line(row)}: {joined_names(name, clock)}"
        return ValueError(f"{where} is {value!r}, which is not a time: {error}{hint}")

    def zoned(self, name: str, time_format: str, clock: str | None = None) -> bool:
        """Whether the times of a column have a time zone; either all have one, or none has."""
        return self._parsed_times(name, time_format, clock)[1]

    @contextmanager
    def each_row(self, what: str) -> Iterator[Iterator[int]]:
        """Provide the row numbers, with a progress bar if there are many."""
        count = len(self)
        with track(what, count, self.show if count > PROGRESS_ROWS else False) as advance:

            def rows() -> Iterator[int]:
                for start in range(0, count, PROGRESS_ROWS):
                    block = range(start, min(start + PROGRESS_ROWS, count))
                    yield from block
                    advance(len(block))

            yield rows()

    def is_text(self, name: str) -> bool:
        import polars as pl

        return self._column(name).dtype in (pl.String, pl.Categorical, pl.Enum)

    def is_boolean(self, name: str) -> bool:
        import polars as pl

        return self._column(name).dtype == pl.Boolean

    def is_time(self, name: str) -> bool:
        return self._column(name).dtype.is_temporal()

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as records, as a live source does."""
        return self.frame.iter_rows(named=True)

    def _parsed_times(self, name: str, time_format: str, clock: str | None) -> tuple[NDArray[Any], bool]:
        if (name, time_format, clock) not in self._times:
            values, times, table_zoned = self.time_fields(name, clock), np.full(len(self), NAT), None
            with self.each_row("reading times, rows") as rows:
                for row in rows:
                    value = values[row]
                    if value is None:
                        continue
                    try:
                        times[row], zoned = parse_time(value, time_format)
                    except (ValueError, OverflowError) as error:
                        footer = self.footer(row, lambda other: not _is_time(values[other], time_format))
                        raise self.bad_time(row, name, clock, error, footer) from error
                    if table_zoned is None:
                        table_zoned = zoned
                    elif table_zoned is not zoned:
                        raise ValueError(
                            f"{self.name}, {self.line(row)}: {joined_names(name, clock)} is {value!r}, but either "
                            f"all times must have a time zone, or none"
                        )
            self._times[name, time_format, clock] = times.view("datetime64[us]"), bool(table_zoned)
        return self._times[name, time_format, clock]

    def _column(self, name: str) -> pl.Series:
        if name not in self.frame.columns:
            raise ValueError(f"{self.name} has no column {name!r}; it has {listed(self.names)}")
        return self.frame[name]


def read_table(path: str | Path, show: bool | None = False, skip_lines: int = 0, skip_end: int = 0) -> Table:
    """Read a CSV file (separated by commas, semicolons, tabs or bars, with one header line) or a Parquet file.

    Args:
        path: The file.
        show: Whether to show a progress bar later on; None for only on a terminal.
        skip_lines: The number of lines before the header of a CSV file.
        skip_end: The number of lines after the data of a CSV file, without empty ones.

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
    whole("skip_lines", skip_lines)
    whole("skip_end", skip_end)
    pl = require()
    if path.suffix.lower() in PARQUET:
        for name, count in (("skip_lines", skip_lines), ("skip_end", skip_end)):
            if count:
                raise ValueError(f"{name}={count} is for CSV files, but {path} is a Parquet file")
        try:
            table = Table(path.name, pl.read_parquet(path), show=show)
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    else:
        separator = file_separator(path, skip_lines)
        frame = read_csv(path, separator, skip_lines, skip_end)
        table = Table(path.name, frame, 2 + skip_lines, separator, show)
    if not len(table) or not table.names:
        raise ValueError(f"{path} has no rows")
    return table


def joined_names(time: str | None, clock: str | None = None) -> str:
    """Return the quoted name of the time column, or those of the date and the time of day."""
    return repr(time) if clock is None else f"{time!r} and {clock!r}"


def listed(names: Sequence[str]) -> str:
    """Return quoted names for a message, the first ones if there are many."""
    return shortened(list(map(repr, names)), 8)


def shortened(parts: Sequence[str], limit: int, separator: str = ", ", count: int | None = None) -> str:
    """Join the first parts and say how many more there are; `count` is their number, if not all are given."""
    more = (len(parts) if count is None else count) - limit
    end = f"{separator if separator == '; ' else ' '}and {more} more" if more > 0 else ""
    return separator.join(parts[:limit]) + end


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the singular or plural."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def require() -> Any:
    """Import polars; if it is missing, say how to install it."""
    return extras.require("reading tables", "polars")


def _as_numbers(column: pl.Series, decimal: str) -> tuple[NDArray[np.float64], int | None]:
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy(), None
    if column.dtype != pl.String:
        return np.full(len(column), np.nan), 0
    text = column.str.strip_chars()
    filled = _not_empty(text)
    values = numbers.parse_column(text.set(~filled, None), decimal)
    wrong = (filled & values.is_null()).to_numpy()
    return values.fill_null(np.nan).to_numpy(), int(wrong.argmax()) if wrong.any() else None


def _is_time(value: Any, time_format: str) -> bool:
    try:
        parse_time(value, time_format)
    except (ValueError, OverflowError):
        return False
    return True


def _not_empty(text: pl.Series) -> pl.Series:
    return ~(text.str.to_lowercase().is_in(EMPTY) | text.is_null())

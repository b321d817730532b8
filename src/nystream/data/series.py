"""Several series in one source: a long table with a column that names them, or one table for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import is_empty
from nystream.data.table import SUFFIXES, Table, counted, listed, read_table, require
from nystream.data.table_reader import TableReader

FILE = "file"  # stands for the column, if each file is a series


@dataclass(frozen=True, eq=False)
class SeriesTables:
    """The tables of several series.

    Attributes:
        column: The column that names the series, or FILE.
        series: The names of the series, in the order in which they begin in the source.
        tables: The rows of each, in the order of the source.
        whole: All rows.
        rows: [N], the numbers in `whole` of the rows of all tables, one table after another.
    """

    column: str
    series: tuple[str, ...]
    tables: tuple[Table, ...]
    whole: Table
    rows: NDArray[np.int64]

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, as of a table."""
        return self.whole.names

    @property
    def longest(self) -> Table:
        return max(self.tables, key=len)

    @property
    def note(self) -> str:
        """How many series there are, and how long they are."""
        lengths = [len(table) for table in self.tables]
        if len(lengths) == 1:
            return f"1 series, {self.series[0]!r}"
        least, most = min(lengths), max(lengths)
        each = f"{counted(least, 'row')} each" if least == most else f"{least:,} to {counted(most, 'row')} each"
        return f"{len(lengths):,} series by {self.column!r}, {each}"

    def chosen(self, places: Sequence[int]) -> SeriesTables:
        """Return some of the series."""
        ends = np.cumsum([len(table) for table in self.tables])
        rows = [self.rows[ends[place] - len(self.tables[place]) : ends[place]] for place in places]
        return dataclasses.replace(
            self,
            series=tuple(self.series[place] for place in places),
            tables=tuple(self.tables[place] for place in places),
            rows=np.concatenate(rows),
        )

    def first_rows(self, counts: Sequence[int]) -> tuple[Table, int]:
        """Return all rows, the first ones of every series before all others, and the number of these first ones."""
        first, others, end = [], [], 0
        for table, count in zip(self.tables, counts, strict=True):
            first.append(self.rows[end : end + count])
            others.append(self.rows[end + count : end + len(table)])
            end += len(table)
        numbers = np.concatenate([*first, *others])
        return self.whole.chosen(self.whole.name, self.whole.frame[numbers], numbers), sum(map(len, first))

    def starts(self) -> NDArray[np.int64]:
        """Return the place of the first row of each series among the rows of all tables."""
        lengths = np.array([len(table) for table in self.tables])
        return np.cumsum(lengths) - lengths


def series_in(table: Table, column: str) -> SeriesTables:
    """The series of a long table; their rows may be mixed, but those of each must be in order."""
    if column not in table.names:
        raise ValueError(f"series={column!r}: {table.name} has no such column; it has {listed(table.names)}")
    pl = require()
    field = table.frame[column]
    keys = field.cast(pl.String).str.strip_chars() if table.is_text(column) else field.cast(pl.String)
    empty = next((row for row, key in enumerate(keys) if is_empty(key)), None) if _may_be_empty(keys) else None
    if empty is not None:
        raise ValueError(f"{table.name}, {table.line(empty)}: {column!r} is empty, so the series of the row is unknown")
    numbered = table.frame.with_columns(keys.alias(column)).with_row_index("\0row")
    names, tables, rows = list[str](), list[Table](), list[NDArray[np.int64]]()
    for (name,), part in numbered.partition_by(column, maintain_order=True, as_dict=True).items():
        numbers = part.drop_in_place("\0row").to_numpy().astype(np.int64)
        names.append(str(name))
        tables.append(table.chosen(f"{table.name}, series {name!r}", part, numbers))
        rows.append(numbers)
    return SeriesTables(column, tuple(names), tuple(tables), table, np.concatenate(rows))


def _may_be_empty(keys: object) -> bool:
    """Whether some key is empty: that is found in all distinct ones, which are few."""
    return any(map(is_empty, keys.unique().to_list()))  # type: ignore[attr-defined]


def join_files(tables: Sequence[Table], names: Sequence[str], source: str) -> SeriesTables:
    """Tables that are one series each; all must have the columns of the first."""
    pl = require()
    first = tables[0]
    if FILE in first.names:
        raise ValueError(f"{first.name} has a column {FILE!r}, but that stands for the file of a series; rename it")
    frames = []
    for table in tables:
        if missing := [name for name in first.names if name not in table.names]:
            raise ValueError(f"{table.name} has no column {listed(missing)}, but {first.name} does; all files need it")
        frames.append(table.frame.select(first.names))
    try:
        frame = pl.concat(frames, how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        name, other = _different(tables)
        raise ValueError(
            f"{other.name}: column {name!r} is {_kind(other, name)}, but {_kind(first, name)} in {first.name}"
        ) from None
    ends = np.cumsum([len(table) for table in tables])

    def line_of(row: int) -> str:
        place = int(np.searchsorted(ends, row, side="right"))
        return f"{tables[place].line(row - int(ends[place]) + len(tables[place]))} of {tables[place].name}"

    whole = Table(source, frame, separator=first.separator, show=first.show, line_of=line_of)
    return SeriesTables(FILE, tuple(names), tuple(tables), whole, np.arange(len(whole)))


def _different(tables: Sequence[Table]) -> tuple[str, Table]:
    """A column of which a table has another type than the first one has, and that table."""
    first, *others = tables
    for name in first.names:
        for other in others:
            if other.is_text(name) != first.is_text(name) or other.is_time(name) != first.is_time(name):
                return name, other
    return first.names[0], others[0]


def _kind(table: Table, name: str) -> str:
    return "text" if table.is_text(name) else "times" if table.is_time(name) else "numbers"


def table_files(folder: Path) -> dict[str, Path]:
    """The tables of a folder and its subfolders, by name without the suffix, in order."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() in SUFFIXES)
    # Text beside other tables is about them, such as a README.txt.
    paths = [path for path in paths if path.suffix.lower() != ".txt"] or paths
    shown = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    return _named({path.relative_to(folder).with_suffix("").as_posix(): path for path in shown}, shown)


def _named(found: dict[str, Path], paths: Sequence[Path]) -> dict[str, Path]:
    if len(found) < len(paths):
        twice = next((path for path in paths if path not in found.values()), paths[-1])
        raise ValueError(f"{twice} and another table have the same name but for the suffix, so their series would too")
    return found


def read_tables(
    paths: Sequence[Path], series: str = "", show: bool | None = False, skip_lines: int = 0, skip_end: int = 0
) -> Table | SeriesTables:
    """Read a table, several tables, or a folder of them.

    One table without the name of a `series` column is a single series. Of several, each is a series, unless the column
    is given: the table is then in several files.
    """
    if len(paths) > 1 or paths[0].is_dir():
        joined = _read_files(paths, show, skip_lines, skip_end)
        return series_in(joined.whole, series) if series else joined
    table = read_table(paths[0], show, skip_lines, skip_end)
    return series_in(table, series) if series else table


def read_series(
    paths: Sequence[Path], column: str, show: bool | None = False, skip_lines: int = 0, skip_end: int = 0
) -> SeriesTables:
    """Read tables as series by a column; without it, each of them is one."""
    if len(paths) == 1 and not paths[0].is_dir():
        return as_series(read_table(paths[0], show, skip_lines, skip_end), column)
    joined = _read_files(paths, show, skip_lines, skip_end)
    return series_in(joined.whole, column) if column in joined.names else joined


def read_for(
    reader: TableReader, paths: Sequence[Path], show: bool | None = False, skip_lines: int = 0, skip_end: int = 0
) -> Table | SeriesTables:
    """Read a table, or series, for the reader of a trained model."""
    if reader.series is not None:
        return read_series(paths, reader.series, show, skip_lines, skip_end)
    if len(paths) > 1 or paths[0].is_dir():
        what = "a folder" if paths[0].is_dir() else f"{len(paths)} tables"
        raise ValueError(f"the model was trained on one series, so it reads one table, but {paths[0]} is {what}")
    return read_table(paths[0], show, skip_lines, skip_end)


def as_series(table: Table, column: str) -> SeriesTables:
    """A table as series by a column; without it, the table is one."""
    return (
        series_in(table, column) if column in table.names else join_files([table], [Path(table.name).stem], table.name)
    )


def _read_files(paths: Sequence[Path], show: bool | None, skip_lines: int, skip_end: int) -> SeriesTables:
    """Read a folder of tables, or several tables: one series each."""
    if len(paths) == 1:
        named, source = table_files(paths[0]), paths[0].name
    else:
        named, source = _named({path.stem: path for path in paths}, paths), f"{len(paths)} tables"
    tables = [read_table(path, show, skip_lines, skip_end) for path in named.values()]
    return join_files(tables, list(named), source)

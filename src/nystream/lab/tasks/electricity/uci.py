"""UCI ElectricityLoadDiagrams20112014: 370 customers in Portugal, every 15 minutes, 2011 to 2014.

`LD2011_2014.txt` (unpacked from the archive at UCI, 710 MB) has one row per quarter of an hour:

    "";"MT_001";"MT_002";"MT_003"
    "2011-01-01 00:15:00";0;0;77,3241525629886

Fields are separated by semicolons, numbers have decimal commas, the unit is kilowatts. A time is the end of its
quarter of an hour in local time: the hour skipped in March is in the file, with zeros, and the hour that occurs twice
in October is there once, with the sum of both.

Customers who joined late have zeros before. These stay zero in `values`, so that a total is that of the customers so
far, as in the paper, and `known` is false up to the customer's first value other than zero. `late="drop"` drops such
customers.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import numpy as np

from nystream.config.checks import one_of
from nystream.lab.tasks.electricity.series import Series
from nystream.progress import track

FILE = "LD2011_2014.txt"
STEP = timedelta(minutes=15)
MEGABYTE = 1_000_000
LARGEST = float(np.finfo(np.float32).max)


def load(
    path: str | Path,
    customers: Sequence[str] | None = None,
    years: Sequence[int] | None = None,
    late: Literal["keep", "drop"] = "keep",
    progress: bool | None = None,
) -> Series:
    """Read the series from the file, or from the folder that contains it, row by row: only what is selected is stored.

    Args:
        path: The text file or its folder.
        customers: Names, in the order of the result; all by default.
        years: Consecutive years; all by default. Reading stops after the last.
        late: "keep" or "drop" customers who joined after the first row that is read.
        progress: True for a bar, False for none, None for a bar if standard error is a terminal.
    """
    path = Path(path)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist; path must be {FILE} or its folder")
    one_of("late", late, ("keep", "drop"))
    wanted = None if years is None else sorted(set(years))
    if wanted is not None and (not wanted or wanted != list(range(wanted[0], wanted[-1] + 1))):
        raise ValueError(f"years={years!r} must be consecutive years, at least one")
    rows = _Rows(file, progress)
    columns = _columns(file, rows.names, customers)
    values, times = array("f"), array("q")
    first_known = np.full(len(columns), -1)  # rows, counted from the first that is kept; 0 if before it
    waiting = set(range(len(columns)))
    with closing(rows.read()) as lines:
        for number, time, fields in lines:
            year = (time - STEP).year
            if wanted is not None and year > wanted[-1]:
                break
            row = _numbers(file, number, fields, rows.names, columns)
            for j in [j for j in waiting if row[j]]:
                first_known[j] = len(times)
                waiting.discard(j)
            if wanted is None or year >= wanted[0]:
                values.extend(row)
                times.append(int((time - datetime(1970, 1, 1)).total_seconds()))
    if not times:
        raise ValueError(f"{file} has no row" + ("" if wanted is None else f" of the years {wanted}"))
    first_known[first_known < 0] = len(times)
    kept = np.frombuffer(values, np.float32).reshape(len(times), len(columns))
    stamps = np.frombuffer(times, np.int64).astype("datetime64[s]")
    known = np.arange(len(times))[:, None] >= first_known
    series = Series(kept, stamps, tuple(rows.names[j] for j in columns), known)
    if late == "keep" or known[0].all():
        return series
    early = [name for name, joined in zip(series.names, known[0], strict=True) if joined]
    if not early:
        raise ValueError(f"late='drop' leaves no customer of {file}: all joined after {stamps[0]}")
    return series.select(early)


class _Rows:
    """The names in the header, and the rows, which are checked to be complete and in order of time."""

    def __init__(self, file: Path, progress: bool | None) -> None:
        self.file, self.progress = file, progress
        with file.open("rb") as opened:
            if opened.read(2) == b"PK":
                raise ValueError(f"{file} is a zip archive; unpack it and give the text file")
            opened.seek(0)
            header = _text(opened.readline()).removeprefix("\xef\xbb\xbf").split(";")
        if len(header) < 2:
            raise _bad(file, 1, "the header has one field, but fields must be separated by semicolons")
        self.names = [name.strip('"') for name in header[1:]]
        if header[0].strip('"') or not all(self.names):
            raise _bad(file, 1, "the header must be an empty field and then a name for every customer")
        if len(set(self.names)) != len(self.names):
            raise _bad(file, 1, "the header has a customer more than once")

    def read(self) -> Generator[tuple[int, datetime, list[str]], None, None]:
        """Line number, time and fields of every row."""
        size, read, last = self.file.stat().st_size, 0, None
        total = -(-size // MEGABYTE)
        with self.file.open("rb") as opened, track(f"{self.file.name}, megabytes", total, self.progress) as advance:
            for number, raw in enumerate(opened, 1):
                before, read = read, read + len(raw)
                if whole := -(-read // MEGABYTE) - -(-before // MEGABYTE):
                    advance(whole)
                line = _text(raw)
                if number == 1 or not line:
                    continue
                fields = line.split(";")
                if len(fields) != len(self.names) + 1:
                    raise _bad(self.file, number, f"{len(fields)} fields, but the header has {len(self.names) + 1}")
                time = _time(self.file, number, fields[0])
                if last is not None and time - last != STEP:
                    raise _bad(self.file, number, f"{time} comes after {last}, but must be 15 minutes later")
                last = time
                yield number, time, fields


def _columns(file: Path, names: Sequence[str], customers: Sequence[str] | None) -> list[int]:
    if customers is None:
        return list(range(len(names)))
    if isinstance(customers, str) or not customers:
        raise ValueError(f"customers={customers!r} must be a list of names, at least one")
    place = {name: j for j, name in enumerate(names)}
    if missing := [name for name in customers if name not in place]:
        raise _bad(file, 1, f"the header has no column {', '.join(missing)}; it has {names[0]} to {names[-1]}")
    return [place[name] for name in customers]


def _time(file: Path, number: int, field: str) -> datetime:
    try:
        return datetime.strptime(field.strip('"'), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        why = f'the first field is {field!r}, but must be a time such as "2011-01-01 00:15:00"'
        raise _bad(file, number, why) from None


def _numbers(file: Path, number: int, fields: list[str], names: Sequence[str], columns: Sequence[int]) -> list[float]:
    """The values of the chosen columns; the first field of a row is its time."""
    values = []
    for j in columns:
        try:
            value = float(fields[j + 1].replace(",", "."))
        except ValueError:
            value = -1.0
        if not 0 <= value <= LARGEST:
            why = f"{names[j]} is {fields[j + 1]!r}, but must be a number of at least 0, such as 77,32"
            raise _bad(file, number, why)
        values.append(value)
    return values


def _text(line: bytes) -> str:
    return line.decode("latin-1").rstrip("\r\n")


def _bad(file: Path, number: int, why: str) -> ValueError:
    return ValueError(f"{file}, line {number}: {why}")

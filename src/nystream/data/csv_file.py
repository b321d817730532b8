"""CSV files: a header line, then rows of fields, all read as text."""

from __future__ import annotations

import codecs
import csv
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nystream.data.csv_edges import SEPARATORS, contents, find_header, lines_after, lines_before

if TYPE_CHECKING:
    import polars as pl


def read_csv(path: Path, separator: str, skip_lines: int = 0, skip_end: int = 0) -> pl.DataFrame:
    """Read all fields as text: the type of a column is decided by the same rules as for live records.

    Args:
        path: The file.
        separator: As `file_separator` returns it.
        skip_lines: The number of lines before the header.
        skip_end: The number of lines after the data, without empty ones.
    """
    import polars as pl

    names = read_header(path, separator, skip_lines)
    try:
        frame = pl.read_csv(contents(path, skip_lines, skip_end), separator=separator, infer_schema=False)
    except pl.exceptions.NoDataError:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    except pl.exceptions.PolarsError as error:
        _check_row_lengths(path, separator, len(names), skip_lines)
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    frame.columns = names
    return frame


def file_separator(path: Path, skip_lines: int = 0) -> str:
    """Return the separator of a CSV file, from its header."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return find_separator(next(islice(file, skip_lines, None), ""))


def find_separator(header: str) -> str:
    """Return the separator that is most frequent in the first line, outside of quotes."""
    return max(SEPARATORS, key=re.sub('"[^"]*"', "", header).count)


def repeated(names: list[str]) -> list[str]:
    """Return the names that appear more than once, sorted."""
    return sorted({name for name in names if names.count(name) > 1})


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_header(path: Path, separator: str, skip_lines: int = 0) -> list[str]:
    """Return the column names in the first line that is not skipped; ValueError if it cannot be a header."""
    if (header := find_header(path, skip_lines)) is not None:
        raise ValueError(lines_before(path, header))
    names = [name.strip() for name in next(_rows(path, separator, skip_lines), (0, []))[1]]
    after = f" after `skip_lines={skip_lines}`" if skip_lines else ""
    if not any(names):
        raise ValueError(f"{path} is empty{after}: it needs a first line with the names of its columns")
    if names[0].startswith(("#", "sep=")):
        raise ValueError(
            f"{path} begins with {names[0]!r}{after}, but must begin with the names of its columns; if that line does "
            f"not have them, `skip_lines={skip_lines + 1}` skips it"
        )
    numbers = [is_number(name.replace(",", ".")) for name in names]
    if all(numbers) or any(number and "." in name for number, name in zip(numbers, names, strict=True)):
        raise ValueError(f"{path} begins with numbers{after}, but its first line must have the names of its columns")
    if duplicates := repeated(names):
        listing = ", ".join(map(repr, duplicates[:8]))
        raise ValueError(f"{path} has several columns named {listing}; column names must be unique")
    return names


def _check_row_lengths(path: Path, separator: str, width: int, skip_lines: int) -> None:
    problem, others = "", 0  # the number of lines at the end that do not have as many fields as the header
    for line, fields in _rows(path, separator, skip_lines):
        if any(field.strip() for field in fields):
            others = 0 if len(fields) == width else others + 1
        if len(fields) > width and not problem:
            problem = (
                f"{path}, line {line} has {len(fields)} fields, but the first line names {width} columns; the first "
                f"line must name all columns, and fields that contain {separator!r} need quotes"
            )
    if problem:
        raise ValueError(problem + lines_after(others))


def _rows(path: Path, separator: str, skip_lines: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of every row, with the number of its last line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(islice(file, skip_lines, None), delimiter=separator)
            for fields in reader:
                yield reader.line_num + skip_lines, fields
    except UnicodeDecodeError as error:
        with path.open("rb") as binary:
            utf16 = binary.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding, name = "UTF-16" if utf16 else "WINDOWS-1252", shlex.quote(path.name)
        raise ValueError(
            f"{path} is not text in UTF-8; save it as UTF-8, or: iconv -f {encoding} -t UTF-8 {name} > utf8.csv"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read: {error}") from error

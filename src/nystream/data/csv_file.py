"""CSV files: a header line, then rows of fields, all read as text."""

from __future__ import annotations

import codecs
import csv
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = (",", ";", "\t", "|")


def read_csv(path: Path, separator: str) -> pl.DataFrame:
    """Read all fields as text: the type of a column is decided by the same rules as for live records."""
    import polars as pl

    names = read_header(path, separator)
    try:
        frame = pl.read_csv(path, separator=separator, infer_schema=False)
    except pl.exceptions.NoDataError:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    except pl.exceptions.PolarsError as error:
        _check_row_lengths(path, separator, len(names))
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    frame.columns = names
    return frame


def file_separator(path: Path) -> str:
    """Return the separator of a CSV file."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return find_separator(file.readline())


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


def read_header(path: Path, separator: str) -> list[str]:
    """Return the column names in the first line of a CSV file; ValueError if it cannot be a header."""
    names = [name.strip() for name in next(_rows(path, separator), (0, []))[1]]
    if not any(names):
        raise ValueError(f"{path} is empty: it needs a first line with the names of its columns")
    plain = f"{shlex.quote(path.name)} > plain.csv"
    if names[0].startswith("#"):
        raise ValueError(
            f"{path} begins with {names[0]!r}, but must begin with the names of its columns; if that line does not "
            f"have them, remove it: grep -v '^#' {plain}"
        )
    if names[0].startswith("sep="):
        raise ValueError(
            f"{path} begins with {names[0]!r}, but must begin with the names of its columns: tail -n +2 {plain}"
        )
    numbers = [is_number(name.replace(",", ".")) for name in names]
    if all(numbers) or any(number and "." in name for number, name in zip(numbers, names, strict=True)):
        raise ValueError(f"{path} begins with numbers, but its first line must have the names of its columns")
    if duplicates := repeated(names):
        listing = ", ".join(map(repr, duplicates[:8]))
        raise ValueError(f"{path} has several columns named {listing}; column names must be unique")
    return names


def _check_row_lengths(path: Path, separator: str, width: int) -> None:
    for line, fields in _rows(path, separator):
        if len(fields) > width:
            raise ValueError(
                f"{path}, line {line} has {len(fields)} fields, but the first line names {width} columns; the first "
                f"line must name all columns, and fields that contain {separator!r} need quotes"
            )


def _rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of every row, with the number of its last line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator)
            for fields in reader:
                yield reader.line_num, fields
    except UnicodeDecodeError as error:
        with path.open("rb") as binary:
            utf16 = binary.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding, name = "UTF-16" if utf16 else "WINDOWS-1252", shlex.quote(path.name)
        raise ValueError(
            f"{path} is not text in UTF-8; save it as UTF-8, or: iconv -f {encoding} -t UTF-8 {name} > utf8.csv"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read: {error}") from error

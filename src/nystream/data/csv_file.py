"""CSV files: one line of names, then rows of fields, all as text."""

from __future__ import annotations

import codecs
import csv
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = (",", ";", "\t", "|")


def read_csv(path: Path, separator: str) -> pl.DataFrame:
    """All fields as text: what a column is, its reader decides, by the same rules as for a live record."""
    import polars as pl

    names = header_of(path, separator)
    try:
        frame = pl.read_csv(path, separator=separator, infer_schema=False)
    except pl.exceptions.NoDataError:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    except pl.exceptions.PolarsError as error:
        _refuse_ragged(path, separator, len(names))
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    frame.columns = names
    return frame


def separator_of(path: Path) -> str:
    """What stands between the fields of a CSV file."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return separator_in(file.readline())


def separator_in(header: str) -> str:
    """What stands between the names of a CSV: what its first line has the most of, outside of quotes."""
    return max(SEPARATORS, key=re.sub('"[^"]*"', "", header).count)


def header_of(path: Path, separator: str) -> list[str]:
    """The names in the first line of a CSV file, which must be names."""
    names = [name.strip() for name in next(_rows(path, separator), (0, []))[1]]
    if not any(names):
        raise ValueError(f"{path} is empty: it needs a first line with the names of its columns")
    plain = f"{shlex.quote(path.name)} > plain.csv"
    if names[0].startswith("#"):
        raise ValueError(
            f"{path} begins with {names[0]!r}, but must with the names of its columns; where that line has none: "
            f"grep -v '^#' {plain}"
        )
    if names[0].startswith("sep="):
        raise ValueError(f"{path} begins with {names[0]!r}, but must with the names of its columns: tail -n +2 {plain}")
    if any(_is_number(name) and "." in name for name in names) or all(_is_number(name) for name in names):
        raise ValueError(f"{path} begins with numbers, but its first line must have the names of its columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        shown = ", ".join(map(repr, twice[:8]))
        raise ValueError(f"{path} has several columns named {shown}; each needs a name of its own")
    return names


def _refuse_ragged(path: Path, separator: str, width: int) -> None:
    for line, fields in _rows(path, separator):
        if len(fields) > width:
            raise ValueError(
                f"{path}, line {line} has {len(fields)} fields, but the first line names {width}; "
                f"the first line must have the names of all columns, and fields with {separator!r} in them quotes"
            )


def _rows(path: Path, separator: str) -> Any:
    """The number of the last line and the fields of every row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator)
            for fields in reader:
                yield reader.line_num, fields
    except UnicodeDecodeError as error:
        with path.open("rb") as held:
            utf16 = held.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        code, name = "UTF-16" if utf16 else "WINDOWS-1252", shlex.quote(path.name)
        raise ValueError(
            f"{path} is not text in UTF-8; save it as UTF-8, or: iconv -f {code} -t UTF-8 {name} > utf8.csv"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True

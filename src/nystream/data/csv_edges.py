"""What stands around the rows of a CSV file: lines before its header, and lines after its data.

They are never guessed away: errors name them, with the option that skips them.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

SEPARATORS = (",", ";", "\t", "|")
SAMPLE_LINES = 200  # in which a header is searched for
TAIL = 1 << 12  # bytes in which empty lines at the end of a file are searched for
MAX_FOOTER = 20  # lines after the data; more are not a footer
DATUM = re.compile(r"[-+.,]?\d")  # how numbers and times begin


class Header(NamedTuple):
    """The line that names the columns."""

    before: int  # number of lines before it
    names: list[str]


def find_header(path: Path, skip_lines: int = 0) -> Header | None:
    """Return the first line that looks like a header, if the one after the skipped lines does not belong to its table.

    A header has names alone, each of them once, as many as most lines have fields, and the next line has a
    number or a time.
    """
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        lines = [line.rstrip("\r\n") for line in islice(file, skip_lines, skip_lines + SAMPLE_LINES)]
    found = [header for separator in SEPARATORS if (header := _header(lines, separator)) is not None]
    best = max(found, key=lambda header: len(header.names), default=None)
    return None if best is None else best._replace(before=skip_lines + best.before)


def _header(lines: list[str], separator: str) -> Header | None:
    try:
        rows = [next(csv.reader([line], delimiter=separator), []) for line in lines]
    except csv.Error:
        return None
    widths = Counter(len(row) for row in rows if len(row) > 1)
    width = max(widths, key=lambda width: (widths[width], width), default=0)
    commented = lines and lines[0].startswith(("#", "sep="))
    if not width or (len(rows[0]) == width and not commented):
        return None
    for place, (row, after) in enumerate(pairwise(rows)):
        if lines[place].count('"') % 2:
            return None  # a field of several lines
        names = [field.strip() for field in row]
        named = len(set(names)) == len(names) == width and not any(DATUM.match(name) for name in names)
        if named and len(after) == width and any(DATUM.match(field.strip()) for field in after):
            return Header(place, names) if place else None
    return None


def lines_before(path: Path, header: Header) -> str:
    """Describe the lines before a header, with the option that skips them."""
    names = ", ".join(map(repr, header.names[:3])) + ", …" * (len(header.names) > 3)
    lines = "1 line" if header.before == 1 else f"{header.before} lines"
    return (
        f"{path} has {lines} before line {header.before + 1}, which looks like its header ({names}): "
        f"`skip_lines={header.before}` skips {'it' if header.before == 1 else 'them'}"
    )


def lines_after(count: int) -> str:
    """Return a hint that the last lines look like a footer, with the option that skips them; "" if they are many."""
    if not 0 < count <= MAX_FOOTER:
        return ""
    lines, look, them = ("the last line", "looks", "it") if count == 1 else (f"the last {count} lines", "look", "them")
    return f"; {lines} {look} like a footer: `skip_end={count}` skips {them}"


def contents(path: Path, skip_lines: int = 0, skip_end: int = 0) -> Path | bytes:
    """Return the contents of a file without lines at its beginning and end; the path if all of them count.

    At the end, empty lines do not count as lines, and are never returned.
    """
    if not (skip_lines or skip_end or _ends_empty(path)):
        return path
    data = path.read_bytes()
    start = 0
    for _ in range(skip_lines):
        start = data.find(b"\n", start) + 1
        if not start:
            raise ValueError(f"skip_lines={skip_lines} must be less than the number of lines of {path}")
    data = data[start:].rstrip()
    for _ in range(skip_end):
        data = data[: max(0, data.rfind(b"\n"))].rstrip()
    if skip_end and b"\n" not in data:
        raise ValueError(f"skip_end={skip_end} leaves no rows of {path}")
    return data + b"\n"


def _ends_empty(path: Path) -> bool:
    """Whether a file ends with empty lines."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        tail = file.read()
    return tail[len(tail.rstrip()) :].count(b"\n") > 1

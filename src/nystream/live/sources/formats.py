"""Parsing lines as records: JSON, or CSV with or without a header, as detected from the first line."""

from __future__ import annotations

import csv
import json
from typing import Any, Literal

from nystream.data.csv_file import find_separator, is_number, repeated
from nystream.data.reader import RecordError, shown
from nystream.data.table import counted
from nystream.live.sources.source import Shape

Format = Literal["auto", "json", "csv"]

MAX_LINE = 1 << 24  # bytes
BOM = b"\xef\xbb\xbf"


class Parser:
    """Parses one line at a time, after the first `skip_lines`."""

    def __init__(self, form: Format = "auto", skip_lines: int = 0) -> None:
        self.form, self._skip = form, skip_lines
        self.columns: list[str] | None = None  # of a CSV with a header
        self.delimiter = ","
        self.begun = False  # whether a non-empty line has come
        self.shape: Shape | None = None  # of all records of a CSV

    def parse(self, line: bytes) -> Any:
        """Return the record of a line without its end, a dict or a list; None for an empty line or a header."""
        if self._skip:
            self._skip -= 1
            return None
        if not line.strip():
            return None
        if self.begun or self.form == "json" or self.columns is not None:
            text = decode(line)
            header = not self.begun and self.form == "csv" and self._is_same_header(text)
        else:
            try:
                text = decode(line)
                header = self._begin(text)
            except RecordError as error:
                # If it were skipped, the next line would be taken for the header.
                raise ValueError(f"the first line, which determines the format, is bad: {error}") from error
        self.begun = True
        if header:
            return None
        return parse_json(text) if self.form == "json" else self._parse_csv(text)

    def memory(self) -> dict[str, Any]:
        return {"format": self.form, "columns": self.columns, "delimiter": self.delimiter}

    def remember(self, memory: dict[str, Any]) -> None:
        """Continue with lines of the same format; a header may come again."""
        if self.form in ("auto", memory["format"]):
            self.form, self.columns, self.delimiter = memory["format"], memory["columns"], memory["delimiter"]
            self.shape = None if self.columns is None else (self.columns, len(self.columns))

    def _begin(self, text: str) -> bool:
        """Detect the format from the first line; whether it is a header."""
        if self.form == "auto":
            self.form = "json" if text.lstrip()[:1] in ("{", "[") else "csv"
        if self.form == "json":
            return False
        self.delimiter = find_separator(text)
        cells = [cell.strip() for cell in split_csv(text, self.delimiter)]
        if all(not cell or is_number(cell) for cell in cells):
            self.shape = None, len(cells)
            return False
        if duplicates := repeated(cells):
            raise ValueError(f"the header has the column {duplicates[0]!r} more than once")
        self._set_columns(cells)
        return True

    def _is_same_header(self, text: str) -> bool:
        """Whether resumed lines begin with a header: one with the same columns, in any order."""
        assert self.columns is not None
        cells = [cell.strip() for cell in split_csv(text, self.delimiter)]
        again = sorted(cells) == sorted(self.columns)
        if again:
            self._set_columns(cells)
        return again

    def _set_columns(self, cells: list[str]) -> None:
        self.columns, self.shape = cells, (cells, len(cells))

    def _parse_csv(self, text: str) -> list[str] | dict[str, str]:
        cells = split_csv(text, self.delimiter)
        if self.columns is None:
            return cells
        if len(cells) != len(self.columns):
            count = counted(len(cells), "field")
            raise RecordError(f"{count}, but the header has {len(self.columns)}: {shown(text)}", "fields")
        return dict(zip(self.columns, cells, strict=True))


def decode(line: bytes) -> str:
    """Return the text of a line, without a byte order mark."""
    if len(line) > MAX_LINE:
        raise RecordError(f"longer than {MAX_LINE >> 20} MiB")
    try:
        return line.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"not UTF-8: {error.reason} at byte {error.start + 1}", "encoding") from None


def parse_json(text: str) -> Any:
    try:
        record = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise RecordError("JSON that is nested too deeply") from None
    except RecordError:
        raise
    except json.JSONDecodeError as error:
        raise RecordError(f"not JSON: {error.msg} at character {error.pos + 1}", f"not JSON: {error.msg}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise RecordError(f"not JSON that can be read: {error}", "not JSON") from None
    if not isinstance(record, dict | list):
        raise RecordError(f"{text:.40} is neither an object nor an array", "neither")
    return record


def split_csv(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration) as error:
        raise RecordError(f"not CSV: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise RecordError(f"{repeated([name for name, _ in pairs])[0]!r:.40} appears more than once", "twice")
    return record

"""Lines of text as records: JSON, or CSV with or without a header. The first line says which."""

from __future__ import annotations

import csv
import json
from typing import Any, Literal

from nystream.data.csv_file import separator_in
from nystream.data.reader import RecordError, shown

Format = Literal["auto", "json", "csv"]

LONGEST = 1 << 24  # bytes of a line
BOM = b"\xef\xbb\xbf"


class Parser:
    """Reads one line after another."""

    def __init__(self, form: Format = "auto") -> None:
        self.form = form
        self.columns: list[str] | None = None  # of a CSV with a header
        self.delimiter = ","
        self.begun = False  # whether a line with anything in it has come
        self.shape: tuple[list[str] | None, int] | None = None  # of all records of a CSV: its columns, and how many

    def parse(self, line: bytes) -> Any:
        """The record of a line without its end: an object, a list; None of an empty line or a header."""
        if not line.strip():
            return None
        if self.begun or self.form == "json" or self.columns is not None:
            text = decoded(line)
            header = not self.begun and self.form == "csv" and self._header_again(text)
        else:
            try:
                text = decoded(line)
                header = self._begin(text)
            except RecordError as error:
                # Were it passed over, the next line would be taken for the header.
                raise ValueError(f"the first line, which says what the others are, is bad: {error}") from error
        self.begun = True
        if header:
            return None
        return from_json(text) if self.form == "json" else self._from_csv(text)

    def memory(self) -> dict[str, Any]:
        return {"format": self.form, "columns": self.columns, "delimiter": self.delimiter}

    def remember(self, memory: dict[str, Any]) -> None:
        """Lines go on in the same form; a header may come again."""
        if self.form in ("auto", memory["format"]):
            self.form, self.columns, self.delimiter = memory["format"], memory["columns"], memory["delimiter"]
            self.shape = None if self.columns is None else (self.columns, len(self.columns))

    def _begin(self, text: str) -> bool:
        """Find out from the first line what the others are; whether it is a header."""
        if self.form == "auto":
            self.form = "json" if text.lstrip()[:1] in ("{", "[") else "csv"
        if self.form == "json":
            return False
        self.delimiter = separator_in(text)
        cells = [cell.strip() for cell in split(text, self.delimiter)]
        if all(map(is_number, cells)):
            self.shape = None, len(cells)
            return False
        self._set_columns(cells)
        return True

    def _header_again(self, text: str) -> bool:
        """Lines that go on with a table need no header. One with the same columns, in whatever order, is believed."""
        assert self.columns is not None
        cells = [cell.strip() for cell in split(text, self.delimiter)]
        again = sorted(cells) == sorted(self.columns)
        if again:
            self._set_columns(cells)
        return again

    def _set_columns(self, cells: list[str]) -> None:
        twice = [cell for place, cell in enumerate(cells) if cell in cells[:place]]
        if twice:
            raise ValueError(f"the header has the column {twice[0]!r} more than once")
        self.columns, self.shape = cells, (cells, len(cells))

    def _from_csv(self, text: str) -> list[str] | dict[str, str]:
        cells = split(text, self.delimiter)
        if self.columns is None:
            return cells
        if len(cells) != len(self.columns):
            amount = f"{len(cells)} cell{'s' * (len(cells) != 1)}"
            raise RecordError(f"{amount}, but the header has {len(self.columns)}: {shown(text)}", "cells")
        return dict(zip(self.columns, cells, strict=True))


def decoded(line: bytes) -> str:
    """The text of a line. A mark at its beginning, as some programs put into a file, is dropped."""
    if len(line) > LONGEST:
        raise RecordError(f"longer than {LONGEST >> 20} MiB")
    try:
        return line.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"not UTF-8: {error.reason} at byte {error.start + 1}", "encoding") from None


def from_json(text: str) -> Any:
    try:
        record = json.loads(text, object_pairs_hook=_once)
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


def split(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration) as error:
        raise RecordError(f"not CSV: {error}") from None


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell  # a missing number is no name either
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise RecordError(f"{twice!r:.40} comes more than once", "twice")
    return found

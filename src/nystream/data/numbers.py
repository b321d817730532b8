"""Numbers as people write them: 1013.5 or 1013,5, and 1,013.5 or 1.013,5 with a thousands separator.

The marks are the decimal mark, followed by the thousands separator if there is one: ".", ",", ".," or ",.". They are
detected once, from training data; live text is read with the same marks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nystream.data.reader import RecordError, is_empty, shown

if TYPE_CHECKING:
    import polars as pl

POINT, COMMA = ".,", ",."  # with the other mark as thousands separator
GROUPED = {
    POINT: r"^[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?$",
    COMMA: r"^[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]*)?$",
}
DECIMAL_HINT = "give `decimal='.'` or `decimal=','`"


class Readings(NamedTuple):
    """How a column of text can be read."""

    point: bool  # whether all fields are numbers with a decimal point
    comma: bool  # whether all fields are numbers with a decimal comma
    marks: str  # which of "." and "," appear
    marked: str  # the first field with one of them
    ambiguous: bool  # whether all fields without a mark are below 1000, as if marks separated thousands


def parse_number(text: str, marks: str) -> float:
    """Parse one field; ValueError if it is not a number."""
    text = text.strip()
    if len(marks) == 2 and re.match(GROUPED[marks], text):
        text = text.replace(marks[1], "")
    if "_" in text or (marks[0] == "," and "." in text):
        raise ValueError(f"{text!r} is not a number")
    return float(text.replace(marks[0], "."))


def read_number(field: Any, name: str, marks: str | None = None) -> float:
    """Return the number in a field of a record, NaN if it is empty; RecordError if it is not a finite number.

    `name` is what the error calls the field; without `marks`, text is read as Python does.
    """
    if is_empty(field):
        return math.nan
    try:
        value = parse_number(field, marks) if marks and isinstance(field, str) else float(field)
        problem = "not finite" if math.isinf(value) else ""
    except (TypeError, ValueError, OverflowError):
        problem = "not a number"
    if problem:
        raise RecordError(f"{name} is {shown(field)}, which is {problem}", f"{name} is {problem}")
    return value


def parse_column(column: pl.Series, marks: str) -> pl.Series:
    """Parse a column of stripped text as `parse_number` does; null where a field is not a number."""
    import polars as pl

    if len(marks) == 2:
        grouped = column.str.contains(GROUPED[marks]).fill_null(False)
        column = column.str.replace_all(marks[1], "", literal=True).zip_with(grouped, column)
    if marks[0] == ",":
        # A point that does not separate thousands is an error, not a decimal mark.
        column = column.str.replace_all(".", "?", literal=True).str.replace(",", ".", literal=True)
    return column.cast(pl.Float64, strict=False)


def find_marks(columns: Mapping[str, pl.Series], decimal: str, separator: str) -> str:
    """Return the marks of columns of text; ValueError if they are ambiguous.

    Args:
        columns: The non-empty fields of each column, stripped, by name.
        decimal: The decimal mark; auto-detected if it is "".
        separator: The separator of the file.
    """
    marked = {name: column.str.contains(r"[.,]") for name, column in columns.items()}
    readings = {name: _readings(columns[name], where) for name, where in marked.items() if where.any()}
    mark = decimal or _decimal(readings, separator)
    numeric = [columns[name] for name, reading in readings.items() if (reading.point if mark == "." else reading.comma)]
    grouped = any(parse_column(column, mark).null_count() for column in numeric)
    return (POINT if mark == "." else COMMA) if grouped else mark


def describe_marks(marks: str) -> tuple[str, ...]:
    """Return notes on the marks, other than a plain decimal point."""
    notes = ("numbers have a decimal comma",) if marks[0] == "," else ()
    separator = {POINT: "commas", COMMA: "points"}.get(marks)
    return (*notes, f"numbers have {separator} between thousands") if separator else notes


def _decimal(readings: Mapping[str, Readings], separator: str) -> str:
    """The decimal mark that suits every column of numbers."""
    points = [name for name, reading in readings.items() if reading.point and not reading.comma]
    commas = [name for name, reading in readings.items() if reading.comma and not reading.point]
    if points and commas:
        point, comma = points[0], commas[0]
        raise ValueError(
            f"column {point!r} has {readings[point].marked!r}, but column {comma!r} has {readings[comma].marked!r}: "
            f"{DECIMAL_HINT}; the other column is then text"
        )
    if points or commas:
        return "." if points else ","
    either = {name: reading for name, reading in readings.items() if reading.point and reading.comma}
    used = {mark for reading in either.values() for mark in reading.marks}
    # A point before three digits is a decimal point, as usual. A comma is a decimal comma in files separated by
    # semicolons, which are used for that reason.
    clear = used <= {"."} or (used == {","} and separator == ";")
    if clear and not any(reading.ambiguous for reading in either.values()):
        return "," if "," in used else "."
    name, reading = next(
        (name, reading) for name, reading in either.items() if reading.ambiguous or "," in reading.marks
    )
    point_value, comma_value = (parse_number(reading.marked, marks) for marks in (POINT, COMMA))
    raise ValueError(
        f"column {name!r} has {reading.marked!r}, which can mean {point_value:.12g} or {comma_value:.12g}: "
        f"{DECIMAL_HINT}"
    )


def _readings(column: pl.Series, marked: pl.Series) -> Readings:
    marks = "".join(mark for mark in ".," if column.str.contains(mark, literal=True).any())
    point, comma = parse_column(column, POINT), parse_column(column, COMMA)
    rest = point.filter(~marked)
    ambiguous = bool(len(rest)) and rest.null_count() == 0 and bool((rest.abs() < 1000).all())
    return Readings(point.null_count() == 0, comma.null_count() == 0, marks, str(column.filter(marked)[0]), ambiguous)

"""Numbers as people write them: 1013.5 or 1013,5, with 1,013.5 and 1.013,5 for thousands.

Marks are what stands before the fraction and then, if anything does, what stands between thousands: ".", ",", ".," or
",.". They are found once, from training data; live text is read by the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import polars as pl

POINT, COMMA = ".,", ",."  # with the other mark between thousands
GROUPED = {
    POINT: r"^[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?$",
    COMMA: r"^[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]*)?$",
}
SAY = "say which (--decimal . or --decimal ,)"


class Readings(NamedTuple):
    """How a column of text can be read."""

    point: bool  # whether all of it are numbers, with a point before the fraction
    comma: bool
    marks: str  # of "." and ",", those that it has
    marked: str  # the first field that has one; "" where none has
    doubtful: bool  # whether there are fields without, all below 1000, as where marks stand between thousands


def value(text: str, marks: str) -> float:
    """The number that a text is; ValueError where it is none."""
    text = text.strip()
    if len(marks) == 2 and re.match(GROUPED[marks], text):
        text = text.replace(marks[1], "")
    if "_" in text or (marks[0] == "," and "." in text):
        raise ValueError(f"{text!r} is not a number")
    return float(text.replace(marks[0], "."))


def values(column: pl.Series, marks: str) -> pl.Series:
    """Numbers of a column of text without spaces around it, null where a field is none."""
    import polars as pl

    if len(marks) == 2:
        grouped = column.str.contains(GROUPED[marks]).fill_null(False)
        column = column.str.replace_all(marks[1], "", literal=True).zip_with(grouped, column)
    if marks[0] == ",":
        # A point that does not stand between thousands is a slip, which is not guessed at.
        column = column.str.replace_all(".", "?", literal=True).str.replace(",", ".", literal=True)
    return column.cast(pl.Float64, strict=False)


def find_marks(columns: Mapping[str, pl.Series], told: str, separator: str) -> str:
    """The marks of columns of text; ValueError where a point or a comma could be either.

    Args:
        columns: name -> its fields that are not empty, without spaces around them.
        told: what stands before the fraction; found where it is "".
        separator: what stands between the fields of the file.
    """
    found = {name: one for name, column in columns.items() if (one := _readings(column)).marked}
    mark = told or _decimal(found, separator)
    whole = POINT if mark == "." else COMMA
    readable = [columns[name] for name, one in found.items() if (one.point if mark == "." else one.comma)]
    return whole if any(values(column, mark).null_count() for column in readable) else mark


def spelled(marks: str) -> tuple[str, ...]:
    """What is to be said of them: nothing of a point before the fraction."""
    said = ("numbers have a comma before the fraction",) if marks[0] == "," else ()
    between = {POINT: "commas", COMMA: "points"}
    return (*said, f"numbers have {between[marks]} between thousands") if marks in between else said


def _decimal(found: Mapping[str, Readings], separator: str) -> str:
    """A point or a comma: what suits every column of numbers."""
    points = [name for name, one in found.items() if one.point and not one.comma]
    commas = [name for name, one in found.items() if one.comma and not one.point]
    if points and commas:
        a, b = points[0], commas[0]
        raise ValueError(
            f"column {a!r} has {found[a].marked!r}, but column {b!r} has {found[b].marked!r}: {SAY}; the other is then "
            "text"
        )
    if points or commas:
        return "." if points else ","
    either = {name: one for name, one in found.items() if one.point and one.comma}
    used = {mark for one in either.values() for mark in one.marks}
    # A point before three digits is a fraction, as everywhere. A comma is one where it cannot be mistaken for what
    # stands between the fields, in files that have semicolons for that reason.
    sure = used <= {"."} or (used == {","} and separator == ";")
    if sure and not any(one.doubtful for one in either.values()):
        return "," if "," in used else "."
    name, one = next((name, one) for name, one in either.items() if one.doubtful or "," in one.marks)
    point, comma = (value(one.marked, marks) for marks in (POINT, COMMA))
    raise ValueError(f"column {name!r} has {one.marked!r}, which may be {point:.12g} or {comma:.12g}: {SAY}")


def _readings(column: pl.Series) -> Readings:
    marks = "".join(mark for mark in ".," if column.str.contains(mark, literal=True).any())
    marked = column.str.contains(r"[.,]")
    point, comma = values(column, POINT), values(column, COMMA)
    first = str(column.filter(marked)[0]) if marked.any() else ""
    rest = point.filter(~marked)
    doubtful = bool(len(rest)) and rest.null_count() == 0 and bool((rest.abs() < 1000).all())
    return Readings(point.null_count() == 0, comma.null_count() == 0, marks, first, doubtful)

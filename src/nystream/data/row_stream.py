"""From rows of values to complete rows in order of time: the same step for a whole table and for a live stream."""

from __future__ import annotations

import math
from typing import NamedTuple

from nystream.data.columns import Values
from nystream.data.reader import Policy
from nystream.data.table_reader import TableReader
from nystream.data.timestamps.timeline import RowKind, Span, Verdict, judge


class RowState(NamedTuple):
    """What is remembered between rows."""

    span: Span
    values: Values  # the last known ones
    pending: Values | None = None  # the values of a row that is held back


class Row(NamedTuple):
    """A complete row: one token."""

    kind: RowKind
    time: int  # microseconds; 0 if rows have no time
    given: Values  # as they came, NaN where missing; all NaN for a gap
    values: Values  # without missing values


def initial_state(reader: TableReader) -> RowState:
    return RowState(Span(), (math.nan,) * len(reader.columns))


def place_row(reader: TableReader, gaps: Policy, state: RowState, time: int | None) -> Verdict:
    """Decide what happens to a row; without a time column every row is accepted, without a time none is."""
    if reader.time is None:
        return Verdict(state.span, (("row", 0),))
    return Verdict(state.span) if time is None else judge(reader.spacing, gaps, state.span, time)


def take_row(
    reader: TableReader, state: RowState, verdict: Verdict, values: Values | None
) -> tuple[list[Row], int, RowState]:
    """Take in a row: fill its missing values, gaps before it, and a row that was held back.

    Args:
        reader: The columns and targets.
        state: The state before the row.
        verdict: The result of `place_row`.
        values: The values of the row; None if it is dropped because it lacks some.

    Returns:
        The complete rows, the number of rows dropped because a target has no value yet, and the state after.
    """
    rows, last, unknown = list[Row](), state.values, 0
    for kind, time in verdict.rows:
        given = values if kind == "row" else state.pending if kind == "pending" else (math.nan,) * len(last)
        if given is None:
            continue
        complete = given
        if any(map(math.isnan, given)):
            last = _filled(given, last)
            if any(math.isnan(last[place]) for place in reader.target_places):
                unknown += 1  # there is nothing yet that a change could be added to
                continue
            complete = _filled(last, reader.usual)
        else:
            last = given
        rows.append(Row(kind, time, given, complete))
    pending = state.pending
    if verdict.held_back:
        pending = values
    elif verdict.span.pending is None:
        pending = None
    return rows, unknown, RowState(verdict.span, last, pending)


def _filled(values: Values, others: Values) -> Values:
    """The values, or the others where they are missing."""
    return tuple(other if value != value else value for value, other in zip(values, others, strict=True))

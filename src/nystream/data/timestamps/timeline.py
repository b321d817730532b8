"""Which rows are accepted, given their times: one rule for live streams and for whole tables.

A row follows the last one if it is at most MAX_STEPS steps later. Rows from times already seen are dropped. A row that
is much later, or earlier than the first one, is held back: it is accepted together with the next row if that one
follows it. So a single wrong time costs one row, while a changed clock or a long gap does not end the stream.

Times are in microseconds since 1970.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from nystream.data.reader import Policy
from nystream.data.timestamps.spacing import Distance, Spacing, distance, is_clock_change
from nystream.data.timestamps.zone import local_text

MAX_STEPS = 100  # after the last row; a later row is held back
MAX_FILLED = 10_000  # rows of a gap: a changed clock must not fill the memory
GAPS_HINT = "`gaps='fill'` inserts the missing rows with the last values, `gaps='skip'` ignores gaps"
# The echo ends the last line of a file, if it has no end.
NEWEST_FIRST = (
    "newest first? a stream must be oldest first: "
    "(head -n 1 FILE; (tail -n +2 FILE; echo) | tac) | nystream stream MODEL -"
)

RowKind = Literal["gap", "pending", "row"]
TimedRows = tuple[tuple[RowKind, int], ...]


class Span(NamedTuple):
    """The times that have been seen."""

    first: int | None = None  # since when rows have followed each other
    last: int | None = None
    pending: int | None = None  # the time of a row that is held back


class Verdict(NamedTuple):
    """What happens to a row."""

    span: Span  # afterwards
    rows: TimedRows = ()  # accepted now, with their times; none if the row is dropped
    skipped: int = 0  # missing rows before it that are not filled in
    note: str = ""  # why it was dropped, or how time has jumped
    note_kind: str = ""
    error: str = ""  # why it must be rejected
    held_back: bool = False
    unconfirmed: bool = False  # the row that was held back before is dropped


def judge(spacing: Spacing, gaps: Policy, span: Span, now: int) -> Verdict:
    """Decide what happens to a row measured at `now`."""
    first, last, pending = span
    if first is None or last is None:
        return Verdict(Span(now, now), (("row", now),))
    gap, text = distance(last, now, spacing.microseconds), partial(time_text, timezone=spacing.timezone)
    if gaps == "fail" and gap != (1, True):
        error = _error(spacing, last, now, gap) + _newest_first(spacing, span, now)
        return Verdict(Span(first, now if gap.steps else last), error=error)
    if 1 <= gap.steps <= MAX_STEPS:
        rows, skipped = _accepted(spacing, gaps, last, now, gap.steps, "row")
        return Verdict(Span(first, now), rows, skipped, unconfirmed=pending is not None)
    if pending is not None and 1 <= (steps := distance(pending, now, spacing.microseconds).steps) <= MAX_STEPS:
        return _confirmed(spacing, gaps, last, pending, now, steps)
    if gap.steps == 0 and now >= first:
        note = f"{text(now)} is before the next row is due; the last row was at {text(last)}"
        return Verdict(span, note=note, note_kind="early")
    if now < first:
        problem = f"{text(now)} is earlier than {text(first)}, where these rows began"
    else:
        problem = f"{text(now)} is {gap.steps:,} rows after {text(last)}"
    note = f"{problem}; it is accepted with the next row, if that one follows it{_newest_first(spacing, span, now)}"
    return Verdict(
        Span(first, last, now), note=note, note_kind="held back", held_back=True, unconfirmed=pending is not None
    )


def _newest_first(spacing: Spacing, span: Span, now: int) -> str:
    """A hint if the second row of a stream is one step before the first."""
    if span.last is None or span.first != span.last or span.pending is not None:
        return ""
    return f" ({NEWEST_FIRST})" * (distance(now, span.last, spacing.microseconds) == (1, True))


def time_text(time: int, timezone: str = "") -> str:
    """Return a time for a message, to the second; with a time zone, the local time and its offset from UTC."""
    if timezone:
        return local_text(time // 1_000_000 * 1_000_000, timezone).replace("T", " ")
    return str(np.datetime64(time // 1_000_000, "s")).replace("T", " ")


def _accepted(spacing: Spacing, gaps: Policy, last: int, now: int, steps: int, kind: RowKind) -> tuple[TimedRows, int]:
    """A row with the missing ones before it, and how many of these are skipped."""
    row: TimedRows = ((kind, now),)
    if steps == 1 or gaps != "fill" or steps - 1 > MAX_FILLED:
        return row, steps - 1
    return (*(("gap", spacing.between(last, now, i, steps)) for i in range(1, steps)), *row), 0


def _confirmed(spacing: Spacing, gaps: Policy, last: int, pending: int, now: int, steps: int) -> Verdict:
    """A row that follows the one held back before it."""
    jump = max(1, distance(last, pending, spacing.microseconds).steps)  # there is no gap if time went back
    before, skipped = _accepted(spacing, gaps, last, pending, jump, "pending")
    after, more = _accepted(spacing, gaps, pending, now, steps, "row")
    missing = f"{jump - 1:,} missing rows {'skipped' if skipped else 'filled'}" if jump > 1 else "back in time"
    before_jump, after_jump = (time_text(time, spacing.timezone) for time in (last, pending))
    jumped = f"from {before_jump} to {after_jump}, {missing}"
    note = f"it confirms the row before it, which is accepted too: {jumped}"
    return Verdict(Span(pending, now), before + after, skipped + more, note, "jump")


def _error(spacing: Spacing, last: int, now: int, gap: Distance) -> str:
    """What is wrong with the time of a row, if gaps are errors."""
    before, this = (time_text(time, spacing.timezone) for time in (last, now))
    count = gap.steps - 1
    if gap.steps == 0:
        error = f"{this} comes after {before}, less than one step of {spacing} later"
    elif gap.regular:
        error = f"{count} {'row is' if count == 1 else 'rows are'} missing between {before} and {this}"
    else:
        error = f"{this} comes after {before}, not a whole number of steps of {spacing} later"
    moved = not spacing.timezone and is_clock_change(np.datetime64(last, "us"), np.datetime64(now, "us"), spacing.step)
    return error + " (daylight saving time? train with `timezone`, such as Europe/Berlin)" * moved

"""Where rows belong in time, one after another: one rule for a live stream and for a whole table.

A row goes on from the last one, up to FAR steps later. What was met before is left out. A row that is much later, or
from before the first one, is doubted: it is taken in with the next one, if that goes on from it. So a wrong time costs
one row, and a clock that was set, or a long gap, ends nothing.

Times are microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data import clock
from nystream.data.reader import Policy

FAR = 100  # steps after the last row, beyond which a row is doubted
LONGEST = 10_000  # rows of a gap that is filled: a clock that was set must not fill the memory
MONTH = np.timedelta64(2_629_746, "s")  # on average
FEWEST = 3  # rows that show a calendar
HINT = "--gaps fill would fill them with the last values, --gaps skip pass over them"

What = Literal["gap", "doubted", "row"]


@dataclass(frozen=True)
class Pace:
    """How far apart rows lie: a time, or months of the calendar.

    Args:
        step: between two rows; on average, where they go by months.
        months: between two rows; 0 where they do not go by the calendar.
        day: of the month that rows fall on; the last one, where a month is shorter.
    """

    step: np.timedelta64
    months: int = 0
    day: int = 0

    @cached_property
    def length(self) -> int:
        """Microseconds of the step."""
        return int(self.step / np.timedelta64(1, "us"))

    def after(self, time: int, rows: int) -> int:
        """The time of a row that much later."""
        if not self.months:
            return time + self.length * rows
        stamp = np.datetime64(time, "us")
        date, month = stamp.astype("datetime64[D]"), stamp.astype("datetime64[M]") + self.months * rows
        day = month.astype("datetime64[D]") + min(self.day, int(_days(month))) - 1
        return int((day + (stamp - date)).astype(np.int64))

    def between(self, before: int, after: int, i: int, steps: int) -> int:
        """The time of the i-th of the rows that are missing between two that are so many steps apart."""
        return self.after(before, i) if self.months else before + (after - before) * i // steps

    def amount(self) -> str:
        """In words, with a number."""
        if not self.months:
            return clock.amount(self.step)
        count, unit = (self.months // 12, "year") if self.months % 12 == 0 else (self.months, "month")
        return f"{count} {unit}{'' if count == 1 else 's'}"


class Span(NamedTuple):
    """What is remembered of the times of rows."""

    first: int | None = None  # since when they have gone on from each other
    last: int | None = None
    doubt: int | None = None  # of a row that waits for the next one


class Verdict(NamedTuple):
    """What becomes of a row."""

    span: Span  # afterwards
    tokens: tuple[tuple[What, int], ...] = ()  # what is taken in now, and when it was; none where the row is left out
    passed: int = 0  # rows that are missing before it and are not filled
    note: str = ""  # why it was left out, or how time has jumped
    kind: str = ""  # of the note
    wrong: str = ""  # why it must be refused
    doubted: bool = False  # it waits for the next one


def judge(pace: Pace, gaps: Policy, span: Span, now: int) -> Verdict:
    """What becomes of a row that was measured at `now`."""
    first, last, doubt = span
    if first is None or last is None:
        return Verdict(Span(now, now), (("row", now),))
    found = clock.place(last, now, pace.length)
    if gaps == "fail" and found != (1, True):
        return Verdict(Span(first, now if found.steps else last), wrong=_wrong(pace, last, now, found))
    if 1 <= found.steps <= FAR:
        return Verdict(Span(first, now), *_taken(pace, gaps, last, now, found.steps, "row"))
    if doubt is not None and 1 <= (steps := clock.place(doubt, now, pace.length).steps) <= FAR:
        return _believed(pace, gaps, last, doubt, now, steps)
    if found.steps == 0 and now >= first:
        note = f"{said(now)} comes before the next row is due; the last was {said(last)}"
        return Verdict(span, note=note, kind="early")
    how = "lies before all that was read since" if now < first else f"is {found.steps:,} rows after"
    other = first if now < first else last
    note = f"{said(now)} {how} {said(other)}; it is taken in with the next one, if that goes on from it"
    return Verdict(Span(first, last, now), note=note, kind="doubted", doubted=True)


def find_pace(stamps: NDArray[np.datetime64], step: np.timedelta64) -> Pace:
    """The pace of rows [N]: by the calendar, where all of them fall on one day of the month, or on its last day."""
    known = np.sort(stamps[~np.isnat(stamps)])
    month, date = known.astype("datetime64[M]"), known.astype("datetime64[D]")
    day, clocks, apart = (date - month).astype(int) + 1, known - date, np.diff(month).astype(int)
    same = (day == np.minimum(day.max(), _days(month))).all() and (clocks == clocks[0]).all()
    if len(known) < FEWEST or apart.min() < 1 or not same:
        return Pace(step)
    lengths, counts = np.unique(apart, return_counts=True)
    months = int(lengths[counts.argmax()])
    return Pace(MONTH * months, months, int(day.max()))


def said(time: int) -> str:
    """A time in a message."""
    return str(np.datetime64(time // 1_000_000, "s")).replace("T", " ")


def _taken(
    pace: Pace, gaps: Policy, last: int, now: int, steps: int, what: What
) -> tuple[tuple[tuple[What, int], ...], int]:
    """A row and those that are missing before it; and how many of them are passed over."""
    row: tuple[tuple[What, int], ...] = ((what, now),)
    if steps == 1 or gaps != "fill" or steps - 1 > LONGEST:
        return row, steps - 1
    return (*(("gap", pace.between(last, now, i, steps)) for i in range(1, steps)), *row), 0


def _believed(pace: Pace, gaps: Policy, last: int, doubt: int, now: int, steps: int) -> Verdict:
    """A row that bears out the one before it."""
    jump = max(1, clock.place(last, doubt, pace.length).steps)  # back in time there is no gap
    before, passed = _taken(pace, gaps, last, doubt, jump, "doubted")
    after, more = _taken(pace, gaps, doubt, now, steps, "row")
    how = f"{jump - 1:,} missing rows {'passed over' if passed else 'filled'}" if jump > 1 else "back in time"
    note = f"it bears out the one before, which is taken in too: from {said(last)} to {said(doubt)}, {how}"
    return Verdict(Span(doubt, now), before + after, passed + more, note, "jump")


def _wrong(pace: Pace, last: int, now: int, found: clock.Place) -> str:
    """What is wrong with the time of a row, where nothing is to be mended."""
    then, this, count, step = said(last), said(now), found.steps - 1, pace.amount()
    if found.steps == 0:
        wrong = f"{this} comes after {then}, not a step of {step} later"
    elif found.regular:
        wrong = f"{count} {'row is' if count == 1 else 'rows are'} missing between {then} and {this}"
    else:
        wrong = f"{this} comes after {then}, no whole number of steps of {step} later"
    moved = clock.daylight(np.datetime64(last, "us"), np.datetime64(now, "us"), pace.step)
    return wrong + " (clocks put forward or back? times of UTC are even)" * moved


def _days(month: NDArray[np.datetime64] | np.datetime64) -> NDArray[np.int64]:
    """Of each month."""
    return ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(int)

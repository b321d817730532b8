"""All rows of a table as tokens at once: the same that its live reader gives, row after row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.live_table import ZONES
from nystream.data.reader import MISSING, Policy, blank, check_policy, no_gaps
from nystream.data.table import NAT, Table, counted, empty, listed
from nystream.data.table_reader import Column, TableReader, category
from nystream.data.timeline import HINT, Span, judge

SHOWN = 3  # places that an error names


class Rows(NamedTuple):
    """Tokens of a whole table, and what had to be done to get them."""

    x: NDArray[np.float32]  # [N, input_dim]
    time: NDArray[Any] | None  # [N] datetime64
    base: NDArray[np.float64]  # [N, targets]: the last known targets
    known: NDArray[np.bool_]  # [N, targets]: whether they are those of the row itself
    source: NDArray[np.int64]  # [N]: the row of the table; -1 where a gap was filled
    notes: tuple[str, ...]


class Plan(NamedTuple):
    """Which rows become tokens, and when they were measured."""

    source: list[int]  # -1 for a row of a gap
    time: list[int]  # microseconds
    passed: int = 0  # rows that gaps lack and that are not filled
    early: int = 0  # rows that were left out: measured before the next one was due
    doubted: tuple[int, ...] = ()  # rows that were left out: nothing bears out their time
    jumps: tuple[str, ...] = ()  # of time, that the rows after them bear out


def read_rows(reader: TableReader, table: Table, missing: Policy | None = None, gaps: Policy | None = None) -> Rows:
    """Every row of the table; ValueError with the first places where something is wrong and the policies forbid it.

    The policies are those of training unless told.
    """
    if reader.time is None:
        no_gaps(gaps)
    missing, gaps = missing or reader.missing, gaps or reader.gaps
    check_policy("missing", missing)
    check_policy("gaps", gaps)
    values = np.column_stack([_values(table, column, reader.decimal) for column in reader.columns])
    time, stamps, plan = None, None, Plan(list(range(len(table))), [])
    if reader.time is not None:
        time = table.times(reader.time, reader.form)
        if reader.zoned is not None and table.zoned(reader.time, reader.form) is not reader.zoned:
            raise ValueError(f"{table.name}: times must {ZONES[not reader.zoned]}, as those of training do")
        plan = _plan(reader, table, time, missing, gaps)
        stamps = np.array(plan.time, np.int64).view("datetime64[us]")
    source = np.array(plan.source, np.int64)
    lacking = np.isnan(values)
    untimed = np.zeros(len(table), bool) if time is None else np.isnat(time)
    if missing == "fail":
        _refuse_empty(reader, table, lacking, untimed, np.array(sorted({*plan.source, *plan.doubted}), np.int64))
    used = np.ones(len(source), bool)
    if missing == "skip":
        used = (source < 0) | ~(lacking.any(1) | untimed)[source]
    notes = _notes(reader, lacking[source[source >= 0]], untimed[source[source >= 0]], missing, int((~used).sum()))
    notes += _notes_of_time(plan)
    source, stamps = source[used], None if stamps is None else stamps[used]
    held = np.where((source >= 0)[:, None], values[source], np.nan)
    targets = reader.target_places
    # Before a target is known there is nothing that a change could be added to.
    begun = np.logical_or.accumulate(~np.isnan(held[:, targets])).all(1)
    if not begun.all():
        notes.append(f"{counted(int((~begun).sum()), 'row')} left out: before {listed(reader.targets)} is first known")
    known, whole = ~np.isnan(held), _carried(held, reader.usual)
    known, whole, source, stamps = known[begun], whole[begun], source[begun], None if stamps is None else stamps[begun]
    before = np.concatenate([whole[:1], whole[:-1]])
    return Rows(
        reader.encode(whole, before, stamps), stamps, whole[:, targets], known[:, targets], source, tuple(notes)
    )


def _values(table: Table, column: Column, decimal: str) -> NDArray[np.float64]:
    """[N]: numbers, or numbers of categories; NaN where a field is empty or of a category that is not known."""
    if column.categories:
        place = {name: float(i) for i, name in enumerate(column.categories)}
        fields = table.values(column.name)
        return np.array([np.nan if field is None else place.get(category(field), np.nan) for field in fields])
    found, wrong = table.numbers(column.name, decimal)
    if wrong is None and np.isinf(found).any():
        wrong = int(np.isinf(found).argmax())
    if wrong is not None:
        field = table.raw(column.name, wrong)
        raise ValueError(
            f"{table.name}, {table.line(wrong)}: column {column.name!r} is {field!r}, which is not a finite number"
        )
    return found


def _plan(reader: TableReader, table: Table, time: NDArray[Any], missing: Policy, gaps: Policy) -> Plan:
    source, stamps, doubted, wrong = list[int](), list[int](), list[int](), list[str]()
    jumps, span, waiting, passed, early = list[str](), Span(), -1, 0, 0
    measured = time.astype(np.int64).tolist()
    with table.each_row("placing rows") as rows:
        for row in rows:
            now = measured[row]
            if now == NAT:
                if span.last is None and missing == "skip":
                    continue
                if span.last is None:
                    raise ValueError(
                        f"{table.name}, {table.line(row)}: {reader.time!r} is empty, and it is the first row"
                    )
                now = reader.pace.after(span.last, 1)
            verdict = judge(reader.pace, gaps, span, now)
            places = {"gap": -1, "doubted": waiting, "row": row}
            for what, stamp in verdict.tokens:
                source.append(places[what])
                stamps.append(stamp)
            if waiting >= 0 and (verdict.tokens or verdict.doubted):
                if verdict.tokens and verdict.note:
                    jumps.append(verdict.note)
                else:
                    doubted.append(waiting)
                waiting = -1
            if verdict.doubted:
                waiting = row
            elif verdict.wrong:
                wrong.append(f"{table.line(row)}: {verdict.wrong}")
            elif not verdict.tokens:
                early += 1
            passed, span = passed + verdict.passed, verdict.span
    if wrong:
        raise ValueError(f"{table.name} is not even in time, {_places(wrong)}; {HINT}")
    return Plan(source, stamps, passed, early, tuple(doubted + [waiting] * (waiting >= 0)), tuple(jumps))


def _refuse_empty(
    reader: TableReader, table: Table, lacking: NDArray[Any], untimed: NDArray[Any], source: NDArray[Any]
) -> None:
    rows = source[source >= 0]
    bad = rows[(lacking.any(1) | untimed)[rows]]
    if not len(bad):
        return
    said = []
    for row in bad[:SHOWN]:
        names = [reader.time] if reader.time is not None and untimed[row] else []
        names += [column.name for column, is_lacking in zip(reader.columns, lacking[row], strict=True) if is_lacking]
        field = table.raw(names[0], int(row))
        what = blank(field) if empty(field) else f"{field!r}, a new category"
        said.append(f"{table.line(int(row))}: {names[0]!r} is {what}")
    raise ValueError(f"{table.name} has fields that are missing, {_places(said, len(bad))}; {MISSING}")


def _places(said: Sequence[str], count: int | None = None) -> str:
    count = len(said) if count is None else count
    shown = "; ".join(said[:SHOWN])
    return shown if count <= SHOWN else f"{shown}; and {count - SHOWN} more"


def _notes(
    reader: TableReader, lacking: NDArray[Any], untimed: NDArray[Any], missing: Policy, skipped: int
) -> list[str]:
    if missing == "skip":
        return [f"{counted(skipped, 'row')} with missing fields left out"] if skipped else []
    counts = {column.name: int(count) for column, count in zip(reader.columns, lacking.sum(0), strict=True) if count}
    if reader.time is not None and untimed.any():
        counts[reader.time] = int(untimed.sum())
    if not counts:
        return []
    return [f"{counted(sum(counts.values()), 'missing field')} filled, of {listed(list(counts))}"]


def _notes_of_time(plan: Plan) -> list[str]:
    found = []
    if filled := plan.source.count(-1):
        found.append(f"{counted(filled, 'missing row')} filled")
    if plan.passed:
        found.append(f"{counted(plan.passed, 'missing row')} passed over")
    if plan.early:
        found.append(f"{counted(plan.early, 'row')} left out: measured before the next one was due")
    if plan.doubted:
        found.append(f"{counted(len(plan.doubted), 'row')} left out: far from the others in time")
    if plan.jumps:
        found.append(f"time has jumped {counted(len(plan.jumps), 'time')}: {_places(plan.jumps)}")
    return found


def _carried(held: NDArray[np.float64], usual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every missing value as the last one before it, or as is usual."""
    rows = np.arange(len(held))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(held), -1, rows), axis=0)
    return np.where(last >= 0, np.take_along_axis(held, np.maximum(last, 0), 0), usual)

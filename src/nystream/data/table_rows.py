"""All rows of a table as tokens at once: the same that its live reader gives, row after row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data import clock
from nystream.data.reader import Policy, check_policy
from nystream.data.table import Table, counted, empty, listed
from nystream.data.table_reader import (
    GAPS,
    MISSING,
    Column,
    TableReader,
    category,
    later,
    misplaced,
)

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
    time: list[np.datetime64]
    gaps: int  # rows that a gap lacks, all gaps together
    early: int  # rows that were left out: measured before the next one was due


def read_rows(reader: TableReader, table: Table, missing: Policy = "fail", gaps: Policy = "fail") -> Rows:
    """Every row of the table; ValueError with the first places where something is wrong and the policies forbid it."""
    check_policy("missing", missing)
    check_policy("gaps", gaps)
    values = np.column_stack([_values(table, column, reader.decimal) for column in reader.columns])
    time = None if reader.time is None else table.times(reader.time, reader.form)
    if time is None:
        source, early, lacking_rows = np.arange(len(table)), 0, 0
        stamps = None
    else:
        plan = _plan(reader, table, time, missing, gaps)
        source, stamps = np.array(plan.source, np.int64), np.array(plan.time, "datetime64[us]")
        early, lacking_rows = plan.early, plan.gaps
    lacking = np.isnan(values)
    untimed = np.zeros(len(table), bool) if time is None else np.isnat(time)
    if missing == "fail":
        _refuse_empty(reader, table, lacking, untimed, source)
    used = np.ones(len(source), bool)
    if missing == "skip":
        used = (source < 0) | ~(lacking.any(1) | untimed)[source]
    notes = _notes(reader, lacking[source[source >= 0]], untimed[source[source >= 0]], missing, int((~used).sum()))
    if lacking_rows:
        notes.append(f"{counted(lacking_rows, 'missing row')} {'filled' if gaps == 'fill' else 'passed over'}")
    if early:
        notes.append(f"{counted(early, 'row')} left out: measured before the next one was due")
    source, stamps = source[used], None if stamps is None else stamps[used]
    held = np.where((source >= 0)[:, None], values[source], np.nan)
    known, whole = ~np.isnan(held), _carried(held, reader.usual)
    targets, before = reader.target_places, np.concatenate([whole[:1], whole[:-1]])
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
            f"{table.name}, {table.line(wrong)}: column {column.name!r} has {field!r}, not a finite number"
        )
    return found


def _plan(reader: TableReader, table: Table, time: NDArray[Any], missing: Policy, gaps: Policy) -> Plan:
    plan, last = Plan([], [], 0, 0), None
    between, early, wrong = 0, 0, list[str]()
    for row, now in enumerate(time):
        if np.isnat(now):
            if last is None and missing == "skip":
                continue
            if last is None:
                raise ValueError(f"{table.name}, {table.line(row)}: {reader.time!r} is empty, and it is the first row")
            now = last + reader.delta
        found = clock.Place(1, True) if last is None else clock.place(last, now, reader.delta)
        if last is not None and (said := misplaced(last, now, reader.delta, found, gaps)):
            wrong.append(f"{table.line(row)}: {said}")
        if found.steps == 0:
            early += 1
            continue
        between += found.steps - 1
        if gaps == "fill" and last is not None and not wrong:
            for i in range(1, found.steps):
                plan.source.append(-1)
                plan.time.append(later(last, now, i, found.steps))
        plan.source.append(row)
        plan.time.append(now)
        last = now
    if wrong:
        raise ValueError(f"{table.name} is not even in time, {_places(wrong)}; {GAPS}")
    return plan._replace(gaps=between, early=early)


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
        said.append(
            f"{table.line(int(row))}: {names[0]!r} is {'empty' if empty(field) else f'{field!r}, a new category'}"
        )
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


def _carried(held: NDArray[np.float64], usual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every missing value as the last one before it, or as is usual."""
    rows = np.arange(len(held))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(held), -1, rows), axis=0)
    return np.where(last >= 0, np.take_along_axis(held, np.maximum(last, 0), 0), usual)

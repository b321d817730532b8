"""The table of stacks and rivals: one block, deep stacks, the paper's stack, recurrent networks, the best baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nystream.lab.reproduce.report import numbers, stacks
from nystream.lab.reproduce.report.document import MISSING, Grid, GridColumn, GridRow
from nystream.lab.reproduce.report.grouping import GroupTable, Setting, describe
from nystream.lab.reproduce.report.records import Record

HEADINGS = {
    "one": "One block",
    "deep": "Deep stacks: every block streams",
    "paper": "The paper's stack: the window's rows are recomputed at every step",
    "rival": "Recurrent networks of the same width",
}
FASTER, OPERATIONS = "times faster", "multiply-adds, M"


class Reference(NamedTuple):
    """The fastest stack of the paper, which the times of all rows are compared with."""

    name: str
    microseconds: float


def grid(table: GroupTable) -> Grid | None:
    """The table; None if there is nothing to compare."""
    if not stacks.several(table):
        return None
    metric, reference = table.metric, _reference(table)
    columns: tuple[GridColumn, ...] = (
        GridColumn("model", False),
        GridColumn("depth"),
        GridColumn("setting", False),
        GridColumn(f"validation, {metric.unit}"),
        GridColumn(f"test, {metric.unit}"),
        GridColumn("runs"),
        GridColumn("µs per step"),
        GridColumn(FASTER),
        GridColumn(OPERATIONS),
        GridColumn("kB per stream"),
        GridColumn("parameters, M"),
        GridColumn("training, min"),
        GridColumn("", False),
    )
    rows, heading = [], ""
    for key, pairs in stacks.entries(table).items():
        if HEADINGS[key.stack] != heading:
            heading = HEADINGS[key.stack]
            rows.append(GridRow((heading,), heading=True))
        for record, differs in stacks.shown(pairs, metric.higher):
            rows.append(_row(table, record, differs, reference))
    for baseline in table.baselines[:1]:
        rows.append(GridRow(("Best baseline",), heading=True))
        cells = (baseline.label, "", "", MISSING, numbers.score(baseline.score, metric), str(len(baseline.runs)))
        rows.append(GridRow((*cells, *[""] * (len(columns) - len(cells)))))
    columns, rows = _without_empty(columns, rows)
    notes = tuple(_notes(table, [column.name for column in columns], reference))
    return Grid(f"{table.group.title}: {stacks.title(table)}", columns, tuple(rows), notes)


def _row(table: GroupTable, record: Record, differs: Setting, reference: Reference | None) -> GridRow:
    metric, training = table.metric, record.raw["training"]
    valid = numbers.score(record.valid[record.metric], metric)
    time, seconds = record.microseconds, training.get("seconds")
    faster = None if reference is None or time is None else reference.microseconds / time
    mark = stacks.CHOSEN if record is stacks.chosen(table) else ""
    cells = (
        record.label,
        str(record.layers),
        describe(differs),
        f"**{valid}**" if record is stacks.best_of(table) else valid,
        numbers.score(record.score, metric),
        str(len(record.runs)),
        _microseconds(record),
        numbers.times(faster),
        numbers.millions(record.raw["operations"].get("model")),
        numbers.kilobytes(record),
        numbers.millions(training.get("parameters")),
        MISSING if seconds is None else numbers.digits(seconds / 60, 2),
        mark,
    )
    return GridRow(cells, mark=mark)


def _microseconds(record: Record) -> str:
    """29.5, or 29.5 (81.2) if it was also timed in torch."""
    step = record.raw["step"]
    eager = (step or {}).get("torch")
    return numbers.microseconds(step) + (f" ({numbers.microseconds(eager)})" if eager else "")


def _reference(table: GroupTable) -> Reference | None:
    timed = [
        Reference(key.label, record.microseconds)
        for key, pairs in stacks.entries(table).items()
        for record, _ in pairs
        if key.stack == "paper" and record.microseconds is not None
    ]
    return min(timed, key=lambda reference: reference.microseconds, default=None)


def _without_empty(
    columns: tuple[GridColumn, ...], rows: list[GridRow]
) -> tuple[tuple[GridColumn, ...], list[GridRow]]:
    """The table without columns of which nothing is known."""
    full = [row for row in rows if not row.heading]
    kept = [
        place
        for place, column in enumerate(columns)
        if column.name not in (FASTER, OPERATIONS) or any(row.cells[place] not in ("", MISSING) for row in full)
    ]
    shorter = [
        row if row.heading else GridRow(tuple(row.cells[place] for place in kept), row.mark, row.starts) for row in rows
    ]
    return tuple(columns[place] for place in kept), shorter


def _notes(table: GroupTable, columns: list[str], reference: Reference | None) -> Iterator[str]:
    rows = [pair for pairs in stacks.entries(table).values() for pair in stacks.shown(pairs, table.metric.higher)]
    decay = ", the same with decay" * any(differs == stacks.DECAY for _, differs in rows)
    yield (
        f"Each model is shown in the table's own setting{decay}, and in the setting with the best validation score. "
        "Plain models are left out. Depth: blocks or layers. Scores: mean ± standard deviation over the runs; "
        f"{table.metric.better}."
    )
    yield (
        "Bold: the best validation score of all. Chosen: the best validation score of low-rank models in which every "
        "block streams. Test scores are not used for either, and a row with fewer splits than others is not chosen "
        "over them."
    )
    time = f"µs per step: the whole model, one stream, median on one CPU core, {numbers.RUNTIMES}"
    if table.rivals:
        time += ", in onnxruntime and (in parentheses) torch for recurrent networks"
    if FASTER in columns and reference is not None:
        time += f". Times faster: compared with {reference.name}, the fastest of its kind"
    yield (
        f"{time}. "
        + "Multiply-adds: of the whole model, per step. " * (OPERATIONS in columns)
        + "Training: all runs of a row at once."
    )

"""The results in README.md: one short table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import numbers, stacks
from nystream.lab.reproduce.report.document import MISSING, Grid, GridColumn, GridRow
from nystream.lab.reproduce.report.grouping import GroupTable
from nystream.lab.reproduce.report.grouping import tables as grouped
from nystream.lab.reproduce.report.markdown import grid
from nystream.lab.reproduce.report.records import Record

TAUGHT = " †"
RUNTIMES = {"torch": " ᵗ", "onnxruntime": " ᵒ"}  # of a time, unless it is compiled code
# What a row of the table of stacks shows the best model of: its name, its stacks and its models.
STACK_ROWS = (
    ("low rank, one block", ("one",), stacks.LOW_RANK),
    ("low rank, deep stack", ("deep",), stacks.LOW_RANK),
    ("low rank, the paper's stack", ("paper",), stacks.LOW_RANK),
    ("full attention, best stack", ("one", "deep", "paper"), stacks.FULL_RANK),
    ("GRU", ("rival",), ("gru",)),
)


def results(records: Sequence[Record]) -> str:
    """One row for each kind of model; the columns are the score and the time of every task."""
    tables = shown_tables(records)
    columns = [GridColumn("", False)]
    for table in tables:
        columns += [GridColumn(f"{_task(table)}: {table.metric.head}"), GridColumn("µs per step")]
    best = {name: [stacks.best_of(table, *of) for table in tables] for name, *of in STACK_ROWS}
    best["best baseline"] = [next(iter(table.baselines), None) for table in tables]
    rows = [
        GridRow((name, *(cell for pair in zip(tables, of_tasks, strict=True) for cell in _score_and_time(*pair))))
        for name, of_tasks in best.items()
        if any(record is not None for record in of_tasks)
    ]
    return grid(Grid("", tuple(columns), tuple(rows))) + f"\n\n*{_caption(tables, best)}*"


def shown_tables(records: Sequence[Record]) -> list[GroupTable]:
    """Of every task, the table with the most kinds of models; of several, the last."""

    def kinds(table: GroupTable) -> int:
        return sum(stacks.best_of(table, *of) is not None for _, *of in STACK_ROWS)

    tables = [table for table in grouped(records) if table.group.protocol != "filtered" and stacks.entries(table)]
    by_task = ([table for table in tables if table.group.task == task] for task in paper.TASKS)
    return [max(reversed(of_task), key=kinds) for of_task in by_task if of_task]


def _task(table: GroupTable) -> str:
    return paper.TASKS[table.group.task].title.partition(",")[0]


def _score_and_time(table: GroupTable, record: Record | None) -> tuple[str, str]:
    if record is None:
        return MISSING, MISSING
    score = numbers.score(record.score, table.metric)
    if "baseline" in record.raw:
        return score, ""
    score += TAUGHT * record.cell.get("distilled", False)
    step = record.raw["step"]
    time = numbers.microseconds(step) + (RUNTIMES.get(step["backend"], "") if step else "")
    return f"**{score}**" if record is stacks.chosen(table) else score, time


def _caption(tables: Sequence[GroupTable], best: Mapping[str, Sequence[Record | None]]) -> str:
    words = [
        "Each row: of the models of its kind that were run for [the tables](docs/results.md), the one with the best "
        "validation score; its test score, mean ± standard deviation over its runs, and the time of a step on one CPU "
        "core: in compiled code, in torch (ᵗ) or in onnxruntime (ᵒ).",
        "Bold: the best low-rank model in which every block streams, by validation score.",
    ]
    shown = [record for of_tasks in best.values() for record in of_tasks if record is not None]
    if any("cell" in record.raw and record.cell.get("distilled") for record in shown):
        words.append(f"{TAUGHT.strip()}: learned from a teacher with full attention.")
    words += [f"{table.metric.title}: {table.metric.better}." for table in tables if not table.metric.higher]
    for place, table in enumerate(tables):
        runs = {name: len(row.runs) for name, of in best.items() if (row := of[place]) and "cell" in row.raw}
        usual = max(runs.values(), default=0)
        fewer = [f"{number} for {name}" for name, number in runs.items() if number < usual]
        words.append(f"Runs on {_task(table)}: {', '.join([str(usual), *fewer])}.")
    baselines = dict.fromkeys(table.baselines[0].label for table in tables if table.baselines)
    if baselines:
        words.append(f"Best baseline: {', '.join(baselines)}.")
    words += [f"{_task(table)}: {table.group.extra}." for table in tables if table.group.extra]
    return " ".join(words)

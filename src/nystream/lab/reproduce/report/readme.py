"""The results in README.md: one short table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import numbers, stacks
from nystream.lab.reproduce.report.document import MISSING, Grid, GridColumn, GridRow
from nystream.lab.reproduce.report.grouping import GroupTable
from nystream.lab.reproduce.report.grouping import tables as grouped
from nystream.lab.reproduce.report.markdown import grid
from nystream.lab.reproduce.report.records import Record

MODEL_COLUMNS = (
    GridColumn("task", False),
    GridColumn("model", False),
    GridColumn("paper"),
    GridColumn("ours"),
    GridColumn("µs per step"),
    GridColumn("speed-up over Att"),
    GridColumn("kB per stream"),
)
# What a row of the table of stacks shows the best model of: its name, its stacks and its models.
STACK_ROWS = (
    ("low rank, one block", ("one",), stacks.LOW_RANK),
    ("low rank, deep stack", ("deep",), stacks.LOW_RANK),
    ("low rank, the paper's stack", ("paper",), stacks.LOW_RANK),
    ("full attention, best stack", ("one", "deep", "paper"), stacks.FULL_RANK),
    ("GRU", ("rival",), ("gru",)),
)


def results(records: Sequence[Record]) -> str:
    """The table of stacks and rivals where there are some, else that of the paper's models with one block."""
    tables = [table for table in grouped(records) if table.group.protocol != "filtered"]
    if any(stacks.beyond_paper(record) for table in tables for record in table.records()):
        return _stacks(tables)
    rows = tuple(row for table in tables for row in _model_rows(table))
    return grid(Grid("", MODEL_COLUMNS, rows))


def _stacks(tables: Sequence[GroupTable]) -> str:
    """One row for each kind of model; the columns are the score and the time of every task."""
    shown = list(_one_per_task(tables))
    columns = [GridColumn("", False)]
    for table in shown:
        columns += [GridColumn(f"{_task(table)}: {table.metric.head}"), GridColumn("µs per step")]
    best = [(name, [stacks.best_of(table, *of) for table in shown]) for name, *of in STACK_ROWS]
    best.append(("best baseline", [next(iter(table.baselines), None) for table in shown]))
    rows = [
        GridRow((name, *(cell for pair in zip(shown, of_tasks, strict=True) for cell in _score_and_time(*pair))))
        for name, of_tasks in best
        if any(record is not None for record in of_tasks)
    ]
    return grid(Grid("", tuple(columns), tuple(rows))) + f"\n\n*{_caption(shown)}*"


def _one_per_task(tables: Sequence[GroupTable]) -> Iterator[GroupTable]:
    """Of every task, the table with the most kinds of models; of several, the last."""

    def kinds(table: GroupTable) -> int:
        return sum(stacks.best_of(table, *of) is not None for _, *of in STACK_ROWS)

    for task in paper.TASKS:
        of_task = [table for table in tables if table.group.task == task and stacks.entries(table)]
        if of_task:
            yield max(reversed(of_task), key=kinds)


def _task(table: GroupTable) -> str:
    return paper.TASKS[table.group.task].title.partition(",")[0]


def _score_and_time(table: GroupTable, record: Record | None) -> tuple[str, str]:
    if record is None:
        return MISSING, MISSING
    score = numbers.score(record.score, table.metric)
    if "baseline" in record.raw:
        return score, ""
    return f"**{score}**" if record is stacks.chosen(table) else score, numbers.microseconds(record.raw["step"])


def _caption(shown: Sequence[GroupTable]) -> str:
    words = [
        "Each row: the model of its kind with the best validation score; its test score, mean ± standard deviation, "
        "and the time of a step on one CPU core. Bold: the best low-rank model in which every block streams, by "
        "validation score."
    ]
    words += [f"{table.metric.title}: {table.metric.better}." for table in shown if not table.metric.higher]
    if any(table.rivals for table in shown):
        words.append("GRU: in onnxruntime.")
    baselines = dict.fromkeys(table.baselines[0].label for table in shown if table.baselines)
    if baselines:
        words.append(f"Best baseline: {', '.join(baselines)}.")
    words += [f"{_task(table)}: {table.group.extra}." for table in shown if table.group.extra]
    return " ".join(words)


def _model_rows(table: GroupTable) -> Iterator[GridRow]:
    """The continual models of one task with one block, and its best baseline; the first row names the task."""
    group, metric = table.group, table.metric
    name = f"{group.title}: {metric.head}"
    for (model, layers), record in table.cells.items():
        if model not in stacks.CONTINUAL or layers != 1:
            continue
        # With other tokens, the experiment is not the paper's.
        printed = None if group.extra else paper.score(group.task, model, layers)
        score = numbers.score(record.score, metric)
        yield GridRow((name, record.label, str(printed or MISSING), score, *numbers.step(record)))
        name = ""
    for baseline in table.baselines[:1]:
        yield GridRow((name, baseline.label, "", numbers.score(baseline.score, metric), "", "", ""))

"""Printing the errors of several series: those of the worst ones."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from torch import Tensor

from nystream.cli.screen import new_table, print_table, shown_number
from nystream.data.forecast_problem import Forecast
from nystream.data.problem import PartName, Problem, Scores
from nystream.data.series_scores import RELATIVE, worst_series

MAX_NAME = 32  # characters of the name of a series


def series_of(problem: Problem, part: PartName, warm: int, output: Tensor) -> dict[str, Scores]:
    """The errors of every series, by name; empty if there are none, or a single one."""
    return problem.series_scores(part, warm, output) if isinstance(problem, Forecast) else {}


def print_series(output: Console, scores: Mapping[str, Scores], more: str) -> None:
    """Print the errors of the worst series; `more` says where all are."""
    worst = worst_series(scores)
    if len(scores) < 2 or not worst:
        return
    kind = next(iter(next(iter(worst.values()))))
    table = new_table(["series"], [kind, RELATIVE.strip()])
    for name, errors in worst.items():
        short = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
        table.add_row(short, shown_number(errors[kind]), shown_number(errors[f"{kind}{RELATIVE}"]))
    print_table(output, table, f"The worst of {len(scores):,} series, in relation to persistence; {more}")

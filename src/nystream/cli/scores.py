"""Scores as a table: one row a score, the model and what needs none side by side."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table

from nystream.config import ModelInfo
from nystream.data.problem import Scores


def scores_table(scores: Mapping[str, Scores], info: ModelInfo, title: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    unit = f", {info.units[0]}" if len(set(info.units)) == 1 else ""
    table.add_column(f"{(info.task or '').capitalize()}{unit}", overflow="fold")
    for name in scores:
        table.add_column(name, justify="right", style="bold" if name == "model" else "", overflow="fold")
    for score in next(iter(scores.values())):
        table.add_row(score, *(_number(one.get(score)) for one in scores.values()))
    return table


def _number(value: float | None) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"

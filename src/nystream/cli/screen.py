"""What commands print: tables that lose nothing on a narrow terminal, and paragraphs."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from nystream.config import ModelInfo
from nystream.data.forecast_scores import ERRORS, PINBALL, ahead
from nystream.data.problem import Scores
from nystream.data.series_scores import GEOMETRIC_MEAN, MEAN
from nystream.data.verdict import verdicts

WIDTH = 80  # of prose, even on a wider terminal
MAX_SCORES_ACROSS = 3  # side by side
MAX_SCORE_NAME = 36  # characters of a line

Block = tuple[str, Table, list[str]]  # title, table, notes: one paragraph each


def console(plain: bool = False) -> Console:
    """Standard output. Characters that its encoding lacks are printed as question marks."""
    output = Console(color_system=None, force_terminal=False) if plain else Console()
    if not output.encoding.startswith("utf") and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return output


def new_table(left: Iterable[RenderableType], right: Iterable[RenderableType], first: str = "bold") -> Table:
    """An empty table with columns aligned to the left, then columns of numbers. `first` is the first one's style."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, name in enumerate(left):
        table.add_column(name, style=first if place == 0 else None, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def print_blocks(output: Console, blocks: Iterable[Block]) -> None:
    for title, table, notes in blocks:
        output.print(filled([title], output.width), style="bold")
        for part in fitting(table, output):
            output.print(part)
        output.print(filled([*notes, ""], output.width), style="dim")


def filled(paragraphs: Iterable[str], width: int) -> Text:
    """Wrap paragraphs to a terminal of this width; one that starts with a space gets a hanging indent."""
    lines = (
        textwrap.fill(
            paragraph,
            min(width, WIDTH),
            subsequent_indent="    " * paragraph.startswith(" "),
            break_on_hyphens=False,
        )
        for paragraph in paragraphs
    )
    return Text("\n".join(lines))


def fitting(table: Table, output: Console) -> Iterator[Table]:
    """Split a table that is too wide for the terminal into several, each with the first column."""
    if table_width(table, output) <= output.width or len(table.columns) < 3:
        yield table
        return
    first, *others = table.columns
    columns: list[Column] = []
    for column in others:
        if columns and table_width(_with(table, [first, *columns, column]), output) > output.width:
            yield _with(table, [first, *columns])
            columns = []
        columns.append(column)
    yield _with(table, [first, *columns])


def print_scores(output: Console, scores: Mapping[str, Scores], info: ModelInfo, title: str) -> None:
    """Print the scores of a model and its baselines, and how they compare."""
    over = ["series"] if any(name.endswith(MEAN) for name in scores["model"]) else []
    over += [f"{len(info.horizons)} horizons, the first and the last"] if info.horizons else []
    means = f": means over {' and '.join(over)}" if over else ""
    print_table(output, scores_table(scores, info), f"{title}{means}")
    output.print(filled([verdict(scores, info)], output.width))


def print_table(output: Console, table: Table, title: str) -> None:
    output.print(title, style="bold")
    for part in fitting(table, output):
        output.print(part)


def scores_table(scores: Mapping[str, Scores], info: ModelInfo) -> Table:
    """The model and its baselines, one per row; with many scores, one score per row.

    Of several horizons, it has the means, and the errors of the first and the last.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    unit = f", {info.units[0]}" if len(set(info.units)) == 1 else ""
    table.add_column(f"{(info.task or '').capitalize()}{unit}", no_wrap=True)
    names = [name for name in next(iter(scores.values())) if _shown(_kind(name), info)]
    if len(names) <= MAX_SCORES_ACROSS:
        for score in names:
            table.add_column(_short(score), justify="right")
        for name, values in scores.items():
            cells = (shown_number(values.get(score)) for score in names)
            table.add_row(name, *cells, style="bold" if name == "model" else "")
        return table
    for name in scores:
        table.add_column(name, justify="right", style="bold" if name == "model" else "", no_wrap=True)
    for score in names:
        wrapped = "\n".join(textwrap.wrap(_short(score), MAX_SCORE_NAME, break_on_hyphens=False))
        table.add_row(wrapped, *(shown_number(values.get(score)) for values in scores.values()))
    return table


def verdict(scores: Mapping[str, Scores], info: ModelInfo) -> str:
    """How the model compares with the baselines, in a sentence; those without its first score, in another."""
    higher = info.task != "forecasting"
    if higher:
        return _compared(scores, next(iter(scores["model"])), higher)
    first = _kind(next(iter(scores["model"])))  # there may be one error of each target
    there = set(map(_kind, scores["model"]))
    kinds = [kind for kind in dict.fromkeys((first, first.replace(PINBALL, ERRORS[0]))) if kind in there]
    left, sentences = dict(scores), []
    model = left.pop("model")
    for kind in kinds:
        with_it = {name: values for name, values in left.items() if kind in map(_kind, values)}
        if with_it:
            sentences.append(_compared({"model": model, **with_it}, kind, higher))
        left = {name: values for name, values in left.items() if name not in with_it}
    return " ".join(sentences)


def _compared(scores: Mapping[str, Scores], score: str, higher: bool) -> str:
    found = verdicts(scores, higher_is_better=higher, score=score)
    return f"{_short(score).capitalize()}: {'; '.join(one.sentence for one in found)}."


def _shown(kind: str, info: ModelInfo) -> bool:
    """Whether a kind of score is in the table: of single horizons, only errors of the first and the last are."""
    ends = tuple(map(ahead, (*info.horizons[:1], *info.horizons[-1:])))
    single = kind.endswith(tuple(map(ahead, info.horizons)))
    return not single or (kind.endswith(ends) and kind.startswith((PINBALL, *ERRORS)))


def _short(score: str) -> str:
    """The name of a score without what the title of its table says."""
    return score.replace(GEOMETRIC_MEAN, "").replace(MEAN, "")


def _kind(score: str) -> str:
    """The name of a score without that of its target."""
    return score.partition(" of ")[0]


def shown_number(value: float | None) -> str:
    """A score with about four digits."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def table_width(table: Table, output: Console) -> int:
    """The columns of the terminal that a table needs."""
    return Measurement.get(output, output.options.update(max_width=10_000), table).maximum


def _with(table: Table, columns: list[Column]) -> Table:
    """The same rows with some of the columns."""
    part = Table(box=table.box, padding=table.padding)
    for column in columns:
        part.add_column(column.header, style=column.style, justify=column.justify, no_wrap=column.no_wrap)
    for row, *cells in zip(table.rows, *(column.cells for column in columns), strict=True):
        part.add_row(*cells, style=row.style, end_section=row.end_section)
    return part

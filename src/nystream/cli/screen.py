"""What a command prints on: tables that lose nothing where the terminal is narrow."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

WIDTH = 80  # of prose, where there is room for more


def console(plain: bool = False) -> Console:
    """Standard output. What its encoding cannot write becomes a question mark."""
    found = Console(color_system=None, force_terminal=False) if plain else Console()
    if not found.encoding.startswith("utf") and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return found


def filled(paragraphs: Iterable[str], width: int) -> Text:
    """Paragraphs of a terminal that wide; one that begins with a blank goes on further to the right."""
    lines = (
        textwrap.fill(one, min(width, WIDTH), subsequent_indent="    " * one.startswith(" ")) for one in paragraphs
    )
    return Text("\n".join(lines))


def fitting(table: Table, screen: Console) -> Iterator[Table]:
    """The table or, where it is too wide, as many beside which its first column stands as it takes."""
    if _needs(table, screen) <= screen.width or len(table.columns) < 3:
        yield table
        return
    first, *others = table.columns
    held: list[Column] = []
    for column in others:
        if held and _needs(_with(table, [first, *held, column]), screen) > screen.width:
            yield _with(table, [first, *held])
            held = []
        held.append(column)
    yield _with(table, [first, *held])


def _needs(table: Table, screen: Console) -> int:
    wide = screen.options.update(max_width=10_000)
    return Measurement.get(screen, wide, table).maximum


def _with(table: Table, columns: list[Column]) -> Table:
    """The same rows, of some columns."""
    found = Table(box=table.box, padding=table.padding)
    for column in columns:
        found.add_column(column.header, style=column.style, justify=column.justify, no_wrap=column.no_wrap)
    for row, *cells in zip(table.rows, *(column.cells for column in columns), strict=True):
        found.add_row(*cells, style=row.style, end_section=row.end_section)
    return found

"""Tables on terminals that are too narrow for them."""

from __future__ import annotations

import io

import pytest
from rich import box
from rich.console import Console
from rich.table import Table

from nystream.cli.screen import filled, fitting


@pytest.fixture
def table():
    found = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    found.add_column("name", style="bold", no_wrap=True)
    for name in ("one", "two", "three"):
        found.add_column(name, justify="right", no_wrap=True)
    found.add_row("first", "1.11", "2.22", "3.33", style="dim", end_section=True)
    found.add_row("second", "4.44", "", "6.66")
    return found


def lines(table, width):
    console = Console(file=io.StringIO(), width=width)
    for part in fitting(table, console):
        console.print(part)
    return [line.strip() for line in console.file.getvalue().splitlines() if any(map(str.isalnum, line))]


def test_wide_enough(table):
    assert list(fitting(table, Console(width=80))) == [table]


def test_in_parts(table):
    assert [line.split() for line in lines(table, 24)] == [
        ["name", "one", "two"], ["first", "1.11", "2.22"], ["second", "4.44"],
        ["name", "three"], ["first", "3.33"], ["second", "6.66"],
    ]  # fmt: skip
    first, _ = fitting(table, Console(width=24))
    assert [(row.style, row.end_section) for row in first.rows] == [("dim", True), (None, False)]


def test_a_column_each_at_least(table):
    assert len(lines(table, 10)) == 9


def test_prose():
    text = filled(["one two three", "  * four five"], 9).plain
    assert text == "one two\nthree\n  * four\n    five"

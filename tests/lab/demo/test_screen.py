"""The stream on a terminal of any size, with colours and without."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from nystream.lab.demo import screen
from nystream.lab.demo.hours import Tally
from nystream.lab.demo.terminal import Keyboard

BOUNDS = (150.0, 350.0)


class Keys(Keyboard):
    """A keyboard that presses its own keys."""

    def __init__(self, *presses):
        super().__init__(0)
        self.presses = list(presses)

    def pressed(self):
        return self.presses.pop(0) if self.presses else ""


def drawn(tally, stream, width, height):
    held = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    held.print(screen.frame(tally, stream, BOUNDS, width, height))
    return held.file.getvalue().removesuffix("\n").split("\n")


def terminal():
    return Console(file=io.StringIO(), width=80, height=24, force_terminal=True)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 50), (60, 16), (40, 12), (60, 10), (24, 5)])
def test_a_frame_fits_the_terminal(stream, tally, width, height):
    rows = drawn(tally, stream, width, height)
    assert len(rows) == height
    assert max(map(len, rows)) <= width
    assert "q quits" in rows[-1]


def test_without_colours_truth_and_forecast_and_error_are_told_apart(stream, tally):
    rows = drawn(tally, stream, 80, 24)
    title = next(place for place, row in enumerate(rows) if "forecast minus truth" in row)
    upper, lower = rows[2:title], rows[title + 1 : title + 6]
    assert sum(row.count(screen.PAST) for row in upper) > 10
    assert [row[79:] for row in upper].count(screen.NOW) == 1  # ahead of all the rest, at the edge
    assert {row[79:] for row in upper} <= {screen.NOW, " ", ""}
    assert not any(mark in row for row in lower for mark in (screen.PAST, screen.NOW))
    assert any(" 0 ┤" in row for row in lower)


def test_the_newest_truth_is_not_shown_before_it_has_come(stream, tally):
    few = Tally()
    for hour in tally.hours[:2]:
        few.add(hour)
    rows = drawn(few, stream, 80, 24)
    assert f"truth {few.hours[0].truth / 1e3:.1f} GW" in "\n".join(rows)
    assert f"next {few.hours[1].forecast / 1e3:.1f}" in "\n".join(rows)


def test_the_figures_are_on_the_screen(stream, tally):
    said = "\n".join(drawn(tally, stream, 80, 24))
    for words in (f"{tally.error / 1e3:.2f} GW", f"{tally.microseconds:.1f} µs", "memory", "336 of 336 hours"):
        assert words in said


def test_following_ends_by_itself_and_leaves_all_hours(stream):
    assert len(screen.follow(stream, terminal(), 0.2, Keyboard()).hours) == len(stream)


@pytest.mark.parametrize("presses", [("q",), ("", "q"), ("", " ", "", "q")])
def test_q_ends_it_early_and_a_stream_that_is_held_stands_still(stream, presses):
    found = screen.follow(stream, terminal(), 1e6, Keys(*presses))
    assert len(found.hours) <= 2


def test_without_a_keyboard_the_screen_names_another_way_out(stream):
    held = terminal()
    screen.follow(stream, held, 0.05, Keyboard())
    assert "Ctrl-C quits" in held.file.getvalue()


def test_the_log_has_a_line_a_week_that_fits_80_columns(stream):
    held = Console(file=io.StringIO(), width=80, height=24, color_system=None, force_terminal=False)
    found = screen.tell(stream, held)
    head, *weeks = held.file.getvalue().splitlines()
    assert len(found.hours) == 336
    assert len(weeks) == 2
    assert max(map(len, (head, *weeks))) <= 80
    assert all("kB" in week and "GW" in week and "%" in week for week in weeks)

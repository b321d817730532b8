"""Charts of braille dots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.lab.demo.chart import BLANK, Panel, round_up, ticks

numbers = st.floats(-10, 10)
MARGIN = 6


def letters(panel):
    return [row.plain[MARGIN:] for row in panel.rows({}, MARGIN)]


def dots(panel):
    return [[ord(letter) - BLANK if letter != " " else 0 for letter in row] for row in letters(panel)]


@given(st.lists(numbers, max_size=300), st.integers(1, 200), st.integers(1, 40))
def test_it_is_exactly_as_large_as_asked(values, width, height):
    panel = Panel(width, height, -9.0, 9.0)
    panel.line(values, panel.columns - 1, "")
    panel.bars(values, panel.columns - 3, 0.0, "magenta")
    panel.mark(panel.columns - 1, 3.0, "x", "bold")
    rows = panel.rows({0.0: "0", 9.0: "+9"}, MARGIN)
    assert len(rows) == height
    assert all(row.cell_len == width + MARGIN for row in rows)


def test_a_value_is_a_dot_at_its_height_and_the_last_one_is_where_it_is_asked_for():
    panel = Panel(4, 3, 0.0, 1.0)
    panel.line([0.0], 0, "")
    panel.line([1.0], 7, "")
    assert dots(panel)[-1] == [0x40, 0, 0, 0]  # bottom left dot of the bottom cell
    assert dots(panel)[0] == [0, 0, 0, 0x08]  # top right dot of the top cell


def test_steep_lines_are_joined_and_what_lies_outside_stays_at_the_edge():
    steep = Panel(1, 3, 0.0, 1.0)
    steep.line([0.0, 1.0], 1, "")
    assert all(row[0] for row in dots(steep))
    for value, row in ((7.0, 0), (-7.0, -1)):
        panel = Panel(1, 3, 0.0, 1.0)
        panel.line([value], 0, "")
        assert dots(panel)[row][0]


def test_the_old_end_is_left_out():
    panel = Panel(4, 3, 0.0, 1.0)
    panel.line([1.0] * 50 + [0.0] * 8, 7, "")
    assert dots(panel)[0] == [0] * 4


def test_bars_stand_on_a_line_that_is_there_without_them():
    panel = Panel(3, 2, -1.0, 1.0)
    panel.bars([1.0, -1.0], 3, 0.0, "")
    upper, lower = dots(panel)
    assert all(lower)  # the base, in all columns
    assert [bool(cell) for cell in upper] == [False, True, False]
    assert lower[1] & 0x80  # the bar that points down, to the bottom


def test_a_mark_is_a_letter_over_the_dots_and_none_falls_off():
    panel = Panel(3, 1, 0.0, 1.0)
    panel.line([0.5] * 6, 5, "")
    panel.mark(3, 0.5, "o", "")
    panel.mark(6, 0.5, "o", "")
    panel.mark(-1, 0.5, "o", "")
    (row,) = letters(panel)
    assert row[1] == "o"
    assert row.count("o") == 1


def test_labels_stand_at_their_values():
    rows = [row.plain for row in Panel(2, 3, 0.0, 1.0).rows({0.0: "0", 1.0: "1"}, MARGIN)]
    assert [row[:MARGIN].split() for row in rows] == [["1", "┤"], ["│"], ["0", "┤"]]


@pytest.mark.parametrize(
    ("bounds", "most", "found"),
    [
        ((200, 350), 5, [200, 250, 300, 350]),
        ((200, 350), 2, [200, 300]),
        ((180, 290), 6, [180, 200, 220, 240, 260, 280]),
    ],
)
def test_ticks_are_round(bounds, most, found):
    assert ticks(*bounds, max_ticks=most) == found


@pytest.mark.parametrize(("value", "up"), [(0.01, 0.01), (0.0101, 0.015), (0.04, 0.05), (0.09, 0.1), (3.0, 3.0)])
def test_scales_are_round(value, up):
    assert round_up(value) == pytest.approx(up)

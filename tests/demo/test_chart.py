"""Charts of braille dots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nystream.demo.chart import BLANK, chart

numbers = st.floats(-10, 10)


@given(st.lists(numbers, max_size=300), st.lists(numbers, max_size=300), st.integers(8, 200), st.integers(1, 40))
def test_it_is_exactly_as_large_as_asked(first, second, width, height):
    lines = chart([(first, "white"), (second, "cyan")], width, height, -10.0, 10.0)
    assert len(lines) == height
    assert all(line.cell_len == width for line in lines)


def dots(values, width=12, height=3, low=0.0, high=1.0):
    rows = [line.plain[-(width - len("0.0") - 2) :] for line in chart([(values, "")], width, height, low, high, ".1f")]
    return [[ord(letter) - BLANK if letter != " " else 0 for letter in row] for row in rows]


def test_a_value_is_a_dot_at_its_height():
    assert dots([0.0])[-1][0] == 0x40  # bottom left dot of the bottom cell
    assert dots([1.0])[0][0] == 0x01  # top left dot of the top cell
    assert dots([0.0, 0.0])[-1][0] == 0x40 | 0x80  # two columns of dots a cell


def test_steep_lines_are_joined_and_what_lies_outside_stays_at_the_edge():
    assert all(row[0] for row in dots([0.0, 1.0]))
    assert dots([7.0])[0][0] == 0x01
    assert dots([-7.0])[-1][0] == 0x40


def test_the_old_end_is_left_out():
    assert dots([1.0] * 50 + [0.0] * 14)[0] == [0] * 7

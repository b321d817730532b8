"""Answers as lines."""

import io
import json

import numpy as np
import pytest

from nystream.live.answers import Answer
from nystream.live.output import HumanLines, JsonLines, format_line, short

TIME, AHEAD = np.datetime64("2024-01-01T05:00", "s"), np.datetime64("2024-01-01T06:00", "us")


def forecast(values=(412345.25, -0.5), **fields):
    fields = {"time": TIME, "time_ahead": AHEAD, "rows_ahead": 1} | fields
    return Answer(12, "forecast", ("load", "höhe")[: len(values)], np.array(values), ("MW",), **fields)


def test_json_lines():
    file = io.StringIO()
    JsonLines(file).write(forecast(filled=("a",)), 30)
    assert json.loads(file.getvalue()) == {
        "token": 12,
        "record": 30,
        "time": "2024-01-01T05:00:00",
        "for": "2024-01-01T06:00:00",
        "forecast": {"load": 412345.25, "höhe": -0.5},
        "units": {"load": "MW", "höhe": "MW"},
        "filled": ["a"],
        "gap": False,
    }
    assert file.getvalue().endswith("\n")
    assert list(json.loads(file.getvalue()))[:2] == ["token", "record"]


def test_a_file_of_a_folder_is_named():
    file = io.StringIO()
    JsonLines(file).write(forecast(), 30, "a/b.npy")
    assert list(json.loads(file.getvalue()).items())[:3] == [("token", 12), ("file", "a/b.npy"), ("record", 30)]
    assert format_line(forecast(), file="a/b.npy").plain.startswith("     12  a/b.npy  2024-01-01 05:00:00  load")


def test_rows_ahead_where_nobody_knows_the_time():
    file = io.StringIO()
    JsonLines(file).write(forecast(time_ahead=None), 1)
    assert json.loads(file.getvalue())["ahead"] == 1
    assert "for" not in json.loads(file.getvalue())
    assert format_line(forecast(time_ahead=None)).plain.endswith("MW  1 row ahead")
    assert format_line(forecast(time_ahead=None, rows_ahead=3)).plain.endswith("MW  3 rows ahead")


def test_times_of_utc_say_so():
    file = io.StringIO()
    JsonLines(file).write(forecast(zoned=True), 1)
    assert json.loads(file.getvalue())["time"] == "2024-01-01T05:00:00Z"
    assert "for 2024-01-01 06:00:00Z" in format_line(forecast(zoned=True)).plain


def test_latency_is_said_where_asked():
    file = io.StringIO()
    JsonLines(file, latency=True).write(forecast(microseconds=12.345), 1)
    assert json.loads(file.getvalue())["microseconds"] == 12.3
    assert "12.3 µs" in format_line(forecast(microseconds=12.345), latency=True).plain
    assert "µs" not in format_line(forecast(microseconds=12.345)).plain


@pytest.mark.parametrize(("encoding", "there"), [("ascii", b"h\\u00f6he"), ("utf-8", "höhe".encode())])
def test_names_survive_every_encoding(encoding, there):
    for printer, found in ((JsonLines, there), (HumanLines, b"MW")):
        raw = io.BytesIO()
        file = io.TextIOWrapper(raw, encoding=encoding)
        printer(file).write(forecast(), 1)
        assert found in raw.getvalue()  # flushed at once


def test_human_lines_are_plain_outside_a_terminal():
    file = io.StringIO()
    printer = HumanLines(file)
    printer.write(forecast(), 1)
    printer.write(forecast(values=(3.14159265, 1e-9), filled=("a", "b")), 1)
    printer.write(forecast(gap=True), 1)
    first, second, third = file.getvalue().splitlines()
    assert first == "     12  2024-01-01 05:00:00  load    412,345 MW  höhe       -0.5 MW  for 2024-01-01 06:00:00"
    assert second.endswith("filled: a, b")
    assert second.index("MW") == first.index("MW")
    assert third.endswith("gap filled")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_a_terminal_gets_colours_and_lines_that_fit(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = Terminal()
    HumanLines(file).write(forecast(), 1)
    assert "\x1b[" in file.getvalue()
    assert file.getvalue().count("\n") == 1


def test_the_likeliest_classes():
    values = np.array([0.1, 0.6, 0.05, 0.25], np.float32)
    line = format_line(Answer(1, "probabilities", ("blues", "jazz", "pop", "rock"), values)).plain
    assert line.split() == ["1", "jazz", "0.600", "rock", "0.250", "blues", "0.100"]


def test_many_values_are_counted():
    line = format_line(Answer(1, "output", (), np.zeros(117, np.float32), filled=tuple("abcdefgh"))).plain
    assert "and 111 more" in line
    assert "filled: a, b, c, d, e, f and 2 more" in line


@pytest.mark.parametrize(
    ("value", "text"), [(0.1, "0.1"), (123456.7, "123,457"), (-1234.567, "-1234.6"), (1e20, "1e+20"), (np.nan, "nan")]
)
def test_short_numbers(value, text):
    assert short(np.float32(value)) == text


def test_what_is_not_finite_is_said():
    line = format_line(Answer(1, "probabilities", ("blues", "jazz"), np.array([np.nan, np.nan], np.float32))).plain
    assert "blues" not in line
    assert line.split() == ["1", "no", "class", "the", "model's", "output", "is", "not", "finite"]
    assert format_line(forecast(values=(np.nan, 1.0))).plain.endswith("the model's output is not finite")

"""Bars on a terminal, lines elsewhere."""

import io
import logging
import sys

import pytest

from nystream import progress
from nystream.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """What makes standard error and standard output one terminal: within a test, since pytest sets its own before."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def terminal(columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        both = Terminal()
        monkeypatch.setattr(sys, "stderr", both)
        monkeypatch.setattr(sys, "stdout", both)
        return both

    return terminal


def described():
    live = progress._live.get()
    return [] if live is None else [(task.description, task.completed, task.total) for task in live.tasks]


def test_a_bar_within_a_bar(terminal):
    screen = terminal()
    with track("cells", 2) as outer:
        for cell in range(2):
            with track("training", 3) as inner:
                inner(2, "epoch 1")
                assert described() == [("cells", cell, 2), ("training", 2, 3)]
                with track("tokens", None) as deepest:
                    deepest()
                    assert [name for name, *_ in described()] == ["cells", "training", "tokens"]
                inner()
            assert described() == [("cells", cell, 2)]  # it is gone again
            outer(1, "one done")
        assert described() == [("cells", 2, 2)]
    assert described() == []
    text = screen.getvalue()
    for part in ("cells", "training", "epoch 1", "2/3", "one done", "2/2"):
        assert part in text


def test_an_error_leaves_nothing_behind(terminal):
    screen = terminal()
    with track("cells", 2):
        with pytest.raises(KeyError), track("training", 3):
            raise KeyError
        assert described() == [("cells", 0, 2)]
    with pytest.raises(KeyboardInterrupt), track("cells", 2), track("training", 3):
        raise KeyboardInterrupt
    assert described() == []
    assert sys.stdout is sys.stderr is screen
    assert screen.getvalue().endswith("\x1b[?25h")  # the cursor is back
    with track("cells", 1) as advance:
        advance()


def test_what_is_printed_goes_above_the_bars(terminal):
    screen = terminal()
    with track("cells", 2) as advance, track("training", 3):
        sys.stdout.write("one cell: done\n")
        advance()
    last = screen.getvalue().rpartition("one cell: done")[2]
    assert "cells" in last
    assert "training" in last


def test_what_is_printed_into_a_file_stays_there(terminal, monkeypatch):
    screen = terminal()
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with track("cells", 2):
        sys.stdout.write("one cell: done\n")
    assert file.getvalue() == "one cell: done\n"
    assert "one cell" not in screen.getvalue()


@pytest.mark.parametrize(("left", "clock"), [(0, "00:00"), (61.4, "01:01"), (3600 * 25 + 62, "25:01:02")])
def test_time_left_that_is_known_better(terminal, left, clock):
    screen = terminal()
    with track("cells", 3) as advance:
        advance(1, "a note", left)
    assert clock in screen.getvalue()


def test_narrow_terminals_cut_the_note(terminal):
    screen = terminal(50)
    with track("cells", 12) as advance:
        advance(1, "gtzan-2-nystrom-fixed-ridge0.1-learned-distilled done")
    assert "…" in screen.getvalue()
    assert "1/12" in screen.getvalue()


@pytest.mark.parametrize("show", [None, False])
def test_lines_where_there_is_no_terminal(show, caplog, capsys):
    with (
        caplog.at_level(logging.INFO, "nystream"),
        track("cells", 2, show) as outer,
        track("training", 3, show) as inner,
    ):
        inner(2)
        inner(1, "loss 0.5")
        outer(2, "all done", 0)
    assert [record.message for record in caplog.records] == [
        "training: 3 of 3, 0 s left, loss 0.5",
        "cells: 2 of 2, 0 s left, all done",
    ]
    assert capsys.readouterr() == ("", "")


def test_lines_come_now_and_then(caplog, monkeypatch):
    now = iter([0.0, 0.0, 4.0, 11.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with caplog.at_level(logging.INFO, "nystream"), track("hours", None, False) as advance:
        for _ in range(3):
            advance()
    assert [record.message for record in caplog.records] == ["hours: 2 of ?"]


def test_false_is_silent_on_a_terminal(terminal):
    screen = terminal()
    with track("cells", 2, False) as advance:
        advance(2)
    assert screen.getvalue() == ""


def test_without_rich(terminal, monkeypatch):
    screen = terminal()
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with track("cells", 1) as advance:
        advance()
    assert screen.getvalue() == ""
    with pytest.raises(ModuleNotFoundError, match="pip install"), track("cells", 1, True):
        pass

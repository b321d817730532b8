"""Bars on a terminal, lines elsewhere."""

import io
import logging
import sys

import pytest

from nystream import progress
from nystream.progress import logged_to_stderr, naming, track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes standard output and error one terminal; tests call it, after pytest's own capture."""
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


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "nystream")
    return lambda: [record.message for record in caplog.records]


@pytest.mark.parametrize("show", [None, False])
def test_lines_where_there_is_no_terminal(show, clock, said, capsys):
    with track("cells", 2, show) as advance:
        clock.now = 5.0
        advance(1, "one done")
        clock.now = 12.0
        advance(1, "all done", 0)
    assert said() == ["cells: 2 of 2, all done"]
    assert capsys.readouterr() == ("", "")


def test_lines_come_now_and_then_and_the_longer_it_takes_the_fewer(clock, said):
    with track("hours", 10_000, False) as advance:
        for second in range(1, 3601):
            clock.now = second
            advance()
        lines = said()
    assert lines[:2] == ["hours: 10 of 10,000, 2 h 46 min left", "hours: 20 of 10,000, 2 h 46 min left"]
    assert 30 < len(lines) < 100
    assert said()[-1].startswith("hours: 3,600 of 10,000")


def test_a_job_of_a_moment_says_nothing_and_one_that_failed_no_end(clock, said):
    with track("cells", 1, False) as advance:
        clock.now = 1.0
        advance()

    def fails():
        with track("cells", 2, False) as advance:
            clock.now = 9.0
            advance()
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert said() == []


def test_a_job_within_a_job_speaks_for_both_and_takes_turns(clock, said):
    with track("cells", 40, False) as outer:
        for cell in range(4):
            with track("training", 3, False) as inner:
                for step in range(3):
                    clock.now = 6 * cell + 2 * (step + 1)
                    inner(1, f"loss {step}")
            outer()
    assert said() == [
        "cells: 1 of 40; training: 2 of 3, 2 s left, loss 1",
        "cells: 3 of 40; training: 1 of 3, 4 s left, loss 0",
        "cells: 4 of 40, 4 min left",
    ]


def test_a_total_that_nobody_knows_is_left_out(terminal, clock, said):
    with track("hours", None, False) as advance:
        clock.now = 11.0
        advance(3)
        assert said() == ["hours: 3"]
    screen = terminal()
    with track("hours", None) as advance:
        advance(3)
    assert "3" in screen.getvalue()
    assert "?" not in screen.getvalue().replace("\x1b[?", "")


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (7500, "2 h 5 min")])
def test_times_are_written_as_people_say_them(seconds, words):
    assert progress._words(seconds) == words


def test_names_say_what_a_bar_is_about(terminal):
    screen = terminal()
    with naming("low rank"), naming("phase 1"), track("training", 3) as advance:
        advance()
        assert described() == [("low rank, phase 1, training", 1, 3)]
    with track("training", 3):
        assert described() == [("training", 0, 3)]
    assert "low rank, phase 1, training" in screen.getvalue()


def test_a_program_shows_the_lines_where_there_is_no_bar(clock, capsys):
    level, handlers = progress.log.level, list(progress.log.handlers)
    with logged_to_stderr(), naming("full attention"), track("training", 600, False) as advance:
        clock.now = 10.0
        advance(60, "mse 0.5")
        assert capsys.readouterr() == ("", "full attention, training: 60 of 600, 2 min left, mse 0.5\n")
    assert (progress.log.level, progress.log.handlers) == (level, handlers)


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

"""The terminal is restored, however the demo ends."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from rich.console import Console

from nystream.lab.demo import terminal
from nystream.lab.demo.terminal import Keyboard, Quit, taken

pty = pytest.importorskip("pty")  # and termios with it
import termios  # noqa: E402

SHOWN, HIDDEN = b"\x1b[?1049h", b"\x1b[?1049l"  # the other screen
CHILD = """
import fcntl, signal, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from rich.console import Console
from rich.live import Live
from nystream.lab.demo.terminal import Quit, taken
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
console = Console()
try:
    with taken(console) as keyboard, keyboard.quits(), Live("shown", console=console, screen=True):
        time.sleep(60)
except Quit:
    print("somebody quit")
"""


class Session:
    """A program in its own terminal."""

    def __init__(self):
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(self.ours)
        env = os.environ | {"TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=env
        )
        os.close(theirs)
        self.seen = b""

    def until(self, words):
        while words not in self.seen:
            self.seen += os.read(self.ours, 4096)
        before, _, self.seen = self.seen.partition(words)
        return before

    def end(self):
        """Its exit code and output. The output is read first: a program blocks if nobody reads its terminal."""
        try:
            while select.select([self.ours], [], [], 30)[0]:
                self.seen += os.read(self.ours, 4096)
        except OSError:  # nobody is at the other end
            pass
        return self.process.wait(30), self.seen


@pytest.fixture
def session():
    found = Session()
    yield found
    found.process.kill()
    found.process.wait()
    os.close(found.ours)


@pytest.fixture
def pair():
    """Both ends of a terminal that passes on every key."""
    import tty

    ours, theirs = pty.openpty()
    tty.setcbreak(theirs)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def typed(ours, theirs, keys):
    os.write(ours, keys)
    select.select([theirs], [], [], 10)
    return Keyboard(theirs).pressed()


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (b"q", "q"),
        (b"Q", "q"),
        (b" ", " "),
        (b"\x1b[A", ""),  # an arrow
        (b"\x1bOq", ""),  # a key of the number block
        (b"\x1b[1;5q", ""),
        (b"\x1b", ""),  # Esc, or the beginning of one that is still to come
        (b"\x1b[Aq", "q"),
    ],
)
def test_letters_are_keys_and_sequences_are_not(pair, keys, found):
    assert typed(*pair, keys) == found


def test_no_key_is_no_letter(pair):
    assert Keyboard(pair[1]).pressed() == ""
    assert Keyboard().pressed() == ""


def test_q_interrupts_whatever_is_done_and_leaves_no_timer(pair):
    before = signal.getsignal(signal.SIGALRM)
    os.write(pair[0], b"q")
    with pytest.raises(Quit), Keyboard(pair[1]).quits():
        time.sleep(30)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize("again", [0.01, 60.0], ids=["at once", "at the end"])
def test_q_is_not_lost_where_what_it_raises_is_dropped(pair, monkeypatch, again):
    monkeypatch.setattr(terminal, "REPEAT_SECONDS", again)

    def work():
        with suppress(Quit):
            time.sleep(10)
        time.sleep(10 if again < 1 else 0)

    os.write(pair[0], b"q")
    with pytest.raises(Quit), Keyboard(pair[1]).quits():
        work()


def test_where_nobody_sits_there_is_no_keyboard(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with taken(Console(file=io.StringIO(), force_terminal=True)) as keyboard, keyboard.quits():
        assert not keyboard
        assert keyboard.how_to_leave == "Ctrl-C quits"


@pytest.mark.parametrize(
    ("send", "code"),
    [
        (lambda session: os.write(session.ours, b"q"), 0),
        (lambda session: os.write(session.ours, b"\x03"), 1),  # KeyboardInterrupt, which the command answers
        (lambda session: session.process.send_signal(signal.SIGTERM), 143),
    ],
    ids=["q", "Ctrl-C", "SIGTERM"],
)
def test_whatever_ends_it_the_terminal_is_as_before(session, send, code):
    session.until(b"shown")
    assert termios.tcgetattr(session.ours)[3] != session.before[3]  # keys come one by one
    send(session)
    found, said = session.end()
    assert found in ((code, -signal.SIGINT) if code == 1 else (code,)), said
    assert HIDDEN in said
    assert b"\x1b[?25h" in said  # the cursor
    assert termios.tcgetattr(session.ours) == session.before
    assert (b"somebody quit" in said) == (code == 0)


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(session):
    session.until(b"shown")
    os.write(session.ours, b"\x1a")
    session.until(HIDDEN)
    # A program that is alone in its session cannot be stopped for good, and goes on at once.
    session.until(SHOWN)
    os.write(session.ours, b"q")
    assert session.end()[0] == 0
    assert termios.tcgetattr(session.ours) == session.before

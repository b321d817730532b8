"""The terminal while the demonstration has it: keys as they are pressed, and all as it was when it ends or is stopped.

Keys are read where standard input is a terminal of a system that has termios; elsewhere there are none, and Ctrl-C ends
the demonstration.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

LOOK = 0.1  # seconds between two looks at the keyboard, where nothing else looks
AGAIN = 1.0  # seconds that what is being done has to end
# Arrows and the like, which may have a q in them, come as an escape and letters; a read may end within one.
SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]?|O.?|.?)", re.DOTALL)


class Quit(KeyboardInterrupt):
    """Somebody pressed q."""


class Keyboard:
    """What is pressed, if anything can be."""

    def __init__(self, file: int | None = None) -> None:
        self._file = file

    def __bool__(self) -> bool:
        """Whether there is one."""
        return self._file is not None

    @property
    def how_to_leave(self) -> str:
        return "q quits" if self else "Ctrl-C quits"

    def pressed(self) -> str:
        """The letters since the last call, in lower case; without waiting."""
        import select

        if self._file is None or not select.select([self._file], [], [], 0)[0]:
            return ""
        # Past Python's own buffer, which `select` does not see.
        return SEQUENCE.sub("", os.read(self._file, 1024).decode(errors="replace")).lower()

    @contextmanager
    def quits(self) -> Iterator[None]:
        """While it lasts, q raises `Quit`, whatever the program is doing."""
        if self._file is None:
            yield
            return

        asked: float | None = None  # when

        def look(number: int, frame: FrameType | None) -> None:
            nonlocal asked
            now = time.monotonic()
            # A callback from compiled code drops what it raises: then it is raised once more.
            if "q" in self.pressed() or (asked is not None and now - asked > AGAIN):
                asked = now
                raise Quit

        before = signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if asked is not None:
            raise Quit


@contextmanager
def taken(console: Console) -> Iterator[Keyboard]:
    """The keyboard of a terminal that somebody looks at, given back at the end, and while Ctrl-Z has stopped it all."""
    if not _somebody_there(console):
        yield Keyboard()
        return
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def suspend(number: int, frame: FrameType | None) -> None:
        full = console.is_alt_screen
        console.set_alt_screen(False)
        console.show_cursor()
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Here it goes on, in the foreground again.
        signal.signal(signal.SIGTSTP, suspend)
        tty.setcbreak(file)
        if full:
            console.set_alt_screen()
            console.show_cursor(False)

    handled = signal.signal(signal.SIGTSTP, suspend)
    try:
        tty.setcbreak(file)
        yield Keyboard(file)
    finally:
        signal.signal(signal.SIGTSTP, handled)
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        # A signal may come between what rich writes and what it remembers to undo.
        if console.is_alt_screen:
            console.set_alt_screen(False)
        console.show_cursor()


def _somebody_there(console: Console) -> bool:
    """A job in the background must not touch the terminal's settings, and a pager wants the keys for itself."""
    return (
        sys.platform != "win32"
        and console.is_terminal
        and sys.stdin is not None
        and sys.stdin.isatty()
        and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    )

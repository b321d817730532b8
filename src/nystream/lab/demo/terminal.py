"""The terminal during the demo: keys are read as they are pressed, and its settings are restored at the end.

Keys are read if standard input is a terminal and the system has termios; elsewhere, Ctrl-C ends the demo.
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

POLL_SECONDS = 0.1  # between polls of the keyboard
REPEAT_SECONDS = 1.0  # after which q is raised once more
# Arrow keys and the like are an escape and letters, which may include q; a read may end within one.
SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]?|O.?|.?)", re.DOTALL)


class Quit(KeyboardInterrupt):
    """The user pressed q."""


class Keyboard:
    """The keys that are pressed, if there is a keyboard."""

    def __init__(self, file: int | None = None) -> None:
        self._file = file

    def __bool__(self) -> bool:
        """Whether there is a keyboard."""
        return self._file is not None

    @property
    def how_to_leave(self) -> str:
        return "q quits" if self else "Ctrl-C quits"

    def pressed(self) -> str:
        """The letters typed since the last call, in lower case; does not wait."""
        import select

        if self._file is None or not select.select([self._file], [], [], 0)[0]:
            return ""
        # Not through Python's own buffer, which `select` does not see.
        return SEQUENCE.sub("", os.read(self._file, 1024).decode(errors="replace")).lower()

    @contextmanager
    def quits(self) -> Iterator[None]:
        """Within the block, q raises `Quit`, whatever the program is doing."""
        if self._file is None:
            yield
            return

        asked: float | None = None  # the time at which q was pressed

        def look(number: int, frame: FrameType | None) -> None:
            nonlocal asked
            now = time.monotonic()
            # Compiled code may drop an exception of its callback; then it is raised once more.
            if "q" in self.pressed() or (asked is not None and now - asked > REPEAT_SECONDS):
                asked = now
                raise Quit

        before = signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, POLL_SECONDS, POLL_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if asked is not None:
            raise Quit


@contextmanager
def taken(console: Console) -> Iterator[Keyboard]:
    """Take the keyboard of an interactive terminal; it is restored at the end, and while stopped by Ctrl-Z."""
    if not _interactive(console):
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
        # Resumed, in the foreground again.
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
        # A signal may arrive before rich has recorded what it must undo.
        if console.is_alt_screen:
            console.set_alt_screen(False)
        console.show_cursor()


def _interactive(console: Console) -> bool:
    """Whether keys can be read. A background job must not touch the terminal, and a pager reads the keys itself."""
    return (
        sys.platform != "win32"
        and console.is_terminal
        and sys.stdin is not None
        and sys.stdin.isatty()
        and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    )

"""Keys as they are pressed, without Return and without waiting; none where there is no keyboard."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def pressed() -> Iterator[Callable[[], str]]:
    """A function that gives the key that was pressed, or "". The terminal is as before afterwards, whatever happens."""
    if not (sys.stdin and sys.stdin.isatty() and sys.platform != "win32"):
        yield lambda: ""
        return
    import os
    import select
    import termios
    import tty

    here = sys.stdin.fileno()
    before = termios.tcgetattr(here)

    def poll() -> str:
        # Past Python's own buffer, which `select` does not see.
        return os.read(here, 1).decode(errors="replace") if select.select([here], [], [], 0)[0] else ""

    try:
        tty.setcbreak(here)
        yield poll
    finally:
        termios.tcsetattr(here, termios.TCSADRAIN, before)

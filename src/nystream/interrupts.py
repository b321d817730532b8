"""Ctrl-C and a request to end (SIGTERM): both raise KeyboardInterrupt, which can be kept waiting."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED, TERMINATED = 130, 143  # the exit codes of a process that was stopped by SIGINT, or by SIGTERM


class Terminated(KeyboardInterrupt):
    """The process was asked to end: whatever ends cleanly on Ctrl-C ends cleanly on SIGTERM too."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """Of a process that this has stopped."""
    return TERMINATED if isinstance(stop, Terminated) else STOPPED


@contextmanager
def terminable() -> Iterator[None]:
    """While it lasts, SIGTERM raises `Terminated`, unless somebody else handles it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _: _raise(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Interrupts:
    """While it is entered, SIGINT raises KeyboardInterrupt and SIGTERM `Terminated`, but never within `held`.

    A second signal does not wait: what hangs can always be stopped.
    """

    def __init__(self) -> None:
        self._busy = False
        self._waiting: int | None = None

    def __enter__(self) -> Interrupts:
        self._before = {}
        if threading.current_thread() is threading.main_thread():  # signals reach no other
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals wait until the end of the block."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        number, self._waiting = self._waiting, None
        if number is not None:
            _raise(number)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._busy and self._waiting is None:
            self._waiting = number
        else:
            _raise(number)


def _raise(number: int) -> None:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

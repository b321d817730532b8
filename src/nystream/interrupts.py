"""Ctrl-C and SIGTERM: both raise KeyboardInterrupt, which can be deferred."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED, TERMINATED = 130, 143  # exit codes after SIGINT and SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM was received. A KeyboardInterrupt, so that what handles Ctrl-C handles SIGTERM too."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """The exit code of a process that was stopped by `stop`."""
    return TERMINATED if isinstance(stop, Terminated) else STOPPED


@contextmanager
def terminable() -> Iterator[None]:
    """Within the block, SIGTERM raises `Terminated`, unless it already has another handler."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _: _raise(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Interrupts:
    """Within the block, SIGINT raises KeyboardInterrupt and SIGTERM raises `Terminated`, but not within `deferred`.

    A second signal is not deferred, so that a process that hangs can always be stopped.
    """

    def __init__(self) -> None:
        self._busy = False
        self._waiting: int | None = None

    def __enter__(self) -> Interrupts:
        self._before = {}
        if threading.current_thread() is threading.main_thread():  # only it receives signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer signals until the end of the block."""
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

"""Ctrl-C and a request to end, kept waiting while a record is being taken in."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 143  # the exit code of a process that was asked to end


class Interrupts:
    """While it is entered, SIGINT raises KeyboardInterrupt and SIGTERM SystemExit, but never within `held`.

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
    if number == signal.SIGTERM:
        raise SystemExit(TERMINATED)
    raise KeyboardInterrupt

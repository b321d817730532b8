"""What a pool raises that Python has no name for."""

from __future__ import annotations


class UnknownStreamError(KeyError, ValueError):
    """An id that no open stream has: it was never given out, or its stream is closed."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show the message in quotes

"""What a pool raises that Python has no name for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What torch says, in a RuntimeError, where it cannot have the memory it wants.
SHORT_OF_MEMORY = ("allocate memory", "out of memory", "size calculation overflowed")


class UnknownStreamError(KeyError, ValueError):
    """An id that no open stream has: it was never given out, or its stream is closed."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show the message in quotes


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """A MemoryError that says what there was no memory for, whichever library noticed."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in SHORT_OF_MEMORY):
            raise
        raise MemoryError(f"no room for {what}: {error}") from error

"""Errors of a pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Messages of the RuntimeErrors that torch raises when it cannot allocate memory.
OUT_OF_MEMORY = ("allocate memory", "out of memory", "size calculation overflowed")


class UnknownStreamError(KeyError, ValueError):
    """The id of a stream that was never opened, or is closed."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError shows its message in quotes


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Raise a MemoryError that says what memory was needed for, if numpy or torch runs out of it."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        raise MemoryError(f"not enough memory for {what}: {error}") from error

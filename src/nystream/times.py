"""The limits of `time`, the token count that every state keeps.

Positions in rings, segments and phases are all computed from the time, by torch and by compiled kernels, which do not
check indices. So a time from a file, or from a state that a user sets, is checked here before it is used. A stream
never reaches the limit: at a million tokens per second, that would take 285 years.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

# Exact in float64 and in JSON, and small enough that no sum or product with a time overflows int64.
LIMIT = 2**53


def check_start(time: object, update_size: int) -> None:
    """Raise if a stream cannot start at `time`."""
    if isinstance(time, bool) or not isinstance(time, int):
        raise TypeError(f"time={time!r} must be an int, got {type(time).__name__}")
    if not 0 <= time <= LIMIT or time % update_size:
        groups = f" and a multiple of update_size={update_size}" if update_size > 1 else ""
        raise ValueError(f"time={time} must be between 0 and 2**53{groups}")


def check(leaves: Iterable[tuple[str, Tensor]], config: object, source: str) -> None:
    """Raise if the leaves of a state, by name, include a time that no stream can have.

    All times of a row must be equal, between 0 and `LIMIT`, and a multiple of the config's `update_size`.
    """
    update_size = getattr(config, "update_size", 1)
    times = {name: leaf.tolist() for name, leaf in leaves if name.rpartition(".")[2] == "time"}
    first = next(iter(times), "")
    for name, rows in times.items():
        if len(rows) != len(times[first]):
            raise ValueError(f"{source} has {len(rows)} rows of {name}, but {len(times[first])} of {first}")
        for row, time in enumerate(rows):
            if not 0 <= time <= LIMIT or time % update_size:
                groups = f" and a multiple of update_size={update_size}" if update_size > 1 else ""
                raise ValueError(f"{source} has {name}[{row}] = {time}, but a time must be between 0 and 2**53{groups}")
            if time != times[first][row]:
                raise ValueError(
                    f"{source} has {name}[{row}] = {time} and {first}[{row}] = {times[first][row]}, "
                    f"but the blocks of a stream must all be at the same time"
                )

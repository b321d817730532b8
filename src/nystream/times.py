"""How long a stream can be: the limits of `time`, the count of tokens that every state keeps.

Places in rings, segments and phases are all computed from the time, by torch and by compiled kernels that check no
index. So a time from outside, in a file or in a state that a user sets, is checked here before anything uses it. A
stream itself never reaches the limit: at a million tokens a second that would take 285 years.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

# Exact in float64 and in JSON, and so far below the end of int64 that no sum or product with a time can overflow.
LIMIT = 2**53


def check(leaves: Iterable[tuple[str, Tensor]], config: object, source: str) -> None:
    """Refuse times that no stream can be at, among the leaves of a state by name.

    All times of a row are the same, in every block: from 0 to `LIMIT`, in whole groups of the config's `update_size`.
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

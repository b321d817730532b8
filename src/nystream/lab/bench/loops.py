"""Compiled loops that take as long as a step and share nothing with it: what the machine does to any code.

One only computes, so it is slow only when the core is taken away or interrupted. The other first reads as much memory
as the weights of the model, so it also notices when others use the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np

from nystream.lab.bench.floor import reader
from nystream.lab.bench.timing import TimedCall, collect

COMPUTING, READING = "loop that computes", "loop that reads"
FIRST_TURNS = 1000
CALIBRATIONS, CALLS = 3, 50


def loops(seconds: float, read_bytes: int) -> dict[str, TimedCall]:
    """Both loops, each with as many turns as take about `seconds`."""
    spin, read = spinner(), reader()
    words = np.ones(max(read_bytes // 8, 1), np.int64)

    def reading(turns: int) -> None:
        read(words)
        spin(turns)

    calls: Mapping[str, Callable[[int], object]] = {COMPUTING: spin, READING: reading}
    return {name: TimedCall(call, ((turns_for(call, seconds),),)) for name, call in calls.items()}


def turns_for(call: Callable[[int], object], seconds: float) -> int:
    """The argument with which `call` takes about this long; 0 if it always takes longer."""
    turns = FIRST_TURNS
    for _ in range(CALIBRATIONS):
        none, some = (_seconds(call, count) for count in (0, turns))
        if none >= seconds:
            return 0
        turns = max(1, round(turns * (seconds - none) / max(some - none, 1e-9)))
    return turns


def _seconds(call: Callable[[int], object], turns: int) -> float:
    return median(collect({"": TimedCall(call, ((turns,),))}, 1, CALLS)[""][0])


def spinner() -> Callable[[int], Any]:
    """A compiled function that computes for so many turns, each of which needs the result of the one before."""
    from numba import njit

    def spin(turns):  # type: ignore[no-untyped-def]
        x = np.uint64(1)
        for _ in range(turns):  # a xorshift, which no compiler can shorten
            x ^= x << np.uint64(13)
            x ^= x >> np.uint64(7)
            x ^= x << np.uint64(17)
        return x

    compiled: Callable[[int], Any] = njit(spin)
    compiled(1)
    return compiled

"""Timing of single steps, with what the system and the garbage collector did during each of them."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from nystream.lab.bench.timing import TimedCall

WARM = 1  # steps at the beginning of a turn that are not counted: they find the caches as another job left them

Array = np.ndarray[Any, Any]


class Steps(NamedTuple):
    """One entry per step."""

    places: Array  # numbers of the steps since the job began
    nanoseconds: Array
    switches: Array  # bool, whether the thread was switched out
    faults: Array  # bool, whether there was a page fault
    collections: Array  # bool, whether the garbage collector ran


class Watched:
    """A job whose steps are timed one by one, in turns.

    The counters of the system are read between two steps, which takes half a microsecond outside the timed part. All
    memory is allocated and touched before, so that keeping the times causes no page faults.
    """

    def __init__(self, job: TimedCall, rounds: int, turn: int) -> None:
        self.job, self.turn, self.taken = job, turn, 0
        # The counters have one more column: their values before the first step of a turn.
        self.nanoseconds = np.full((rounds, turn), -1, np.int64)
        self.counters = np.full((3, rounds, turn + 1), -1, np.int64)

    def run(self, number: int, collections: list[int]) -> None:
        """Turn `number`; `collections` is that of `counting_collections`."""
        call, inputs, clock, usage = self.job.call, self.job.inputs, time.perf_counter_ns, _usage()
        nanoseconds = self.nanoseconds[number]
        switches, faults, garbage = self.counters[:, number]
        for place in range(-WARM, self.turn):
            arguments = inputs[self.taken % len(inputs)]
            begin = clock()
            call(*arguments)
            took = clock() - begin
            switches[place + 1], faults[place + 1] = usage()
            garbage[place + 1] = collections[0]
            if place >= 0:
                nanoseconds[place] = took
            self.taken += 1

    def steps(self) -> Steps:
        """All turns."""
        rounds, turn = self.nanoseconds.shape
        places = np.arange(rounds)[:, None] * (WARM + turn) + WARM + np.arange(turn)
        happened = (np.diff(self.counters, axis=2) > 0).reshape(3, -1)
        return Steps(places.ravel(), self.nanoseconds.ravel(), *happened)


def watched(jobs: dict[str, TimedCall], rounds: int, turn: int, advance: Callable[[], object]) -> dict[str, Steps]:
    """All steps of jobs that take turns of `turn` steps, after a turn of each to warm up."""
    watches = {name: Watched(job, rounds, turn) for name, job in jobs.items()}
    with counting_collections() as collections:
        for watch in watches.values():
            watch.run(0, collections)
            watch.taken = 0
        for number in range(rounds):
            for watch in watches.values():
                watch.run(number, collections)
            advance()
    return {name: watch.steps() for name, watch in watches.items()}


@contextmanager
def counting_collections() -> Iterator[list[int]]:
    """The number of runs of the garbage collector since, as the only entry of a list."""
    count = [0]

    def callback(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            count[0] += 1

    gc.callbacks.append(callback)
    try:
        yield count
    finally:
        gc.callbacks.remove(callback)


def counts_switches() -> bool:
    """Whether the system counts switches and page faults; Windows does not."""
    return importlib.util.find_spec("resource") is not None


def _usage() -> Callable[[], tuple[int, int]]:
    """A function that returns the context switches and page faults of this thread so far."""
    if not counts_switches():
        return lambda: (0, 0)
    resource: Any = importlib.import_module("resource")
    read, who = resource.getrusage, getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

    def usage() -> tuple[int, int]:
        now = read(who)
        return now.ru_nivcsw + now.ru_nvcsw, now.ru_minflt + now.ru_majflt

    return usage

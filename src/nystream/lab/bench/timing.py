"""Timing on a busy machine: contenders take turns, and medians of many steps are compared."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import torch

BLOCK_SECONDS = 2e-3  # approximate length of a turn
BLOCK_STEPS = 200  # maximum number of steps in a turn
JOB_SECONDS = 12.0  # approximate time per contender in total: slow ones skip some of the rounds
PILOT_STEPS, PILOT_SECONDS = 5, 0.2  # to warm up, and to estimate the time of a step


class TimedCall(NamedTuple):
    """A function to time, and the arguments that it gets in turn."""

    call: Callable[..., object]
    inputs: Sequence[tuple[Any, ...]] = ((),)


class Times(NamedTuple):
    """Seconds per step, over all steps that were timed."""

    median: float
    p99: float
    worst: float
    steps: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        ordered = sorted(seconds)
        return cls(median(ordered), ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)], ordered[-1], len(ordered))

    def to_dict(self) -> dict[str, float]:
        return {
            "median_microseconds": self.median * 1e6,
            "p99_microseconds": self.p99 * 1e6,
            "worst_microseconds": self.worst * 1e6,
            "steps": self.steps,
        }


def interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int, block: int = 1) -> dict[str, float]:
    """Median seconds per call of every job, timed in turns of `block` calls."""
    took = collect({name: TimedCall(call) for name, call in jobs.items()}, rounds, block)
    return {name: median(second for seconds in turns for second in seconds) for name, turns in took.items()}


def measure(
    jobs: Mapping[str, TimedCall],
    rounds: int,
    advance: Callable[[], object] | None = None,
    seconds: float = JOB_SECONDS,
    turn: float = BLOCK_SECONDS,
) -> dict[str, Times]:
    """Times per call of every job, in `rounds` turns of about `turn` seconds each.

    The first call of a turn is not counted: it finds the caches as the previous job left them, and would weigh more the
    slower the job is.
    """
    took = collect(jobs, rounds, None, advance, seconds, warm=1, turn=turn)
    return {name: Times.of([second for turn in turns for second in turn]) for name, turns in took.items()}


def collect(
    jobs: Mapping[str, TimedCall],
    rounds: int,
    block: int | None = None,
    advance: Callable[[], object] | None = None,
    seconds: float | None = None,
    warm: int = 0,
    turn: float = BLOCK_SECONDS,
) -> dict[str, list[list[float]]]:
    """Seconds of every call, by job and turn: `rounds` turns of `block` calls, after a turn for warming up.

    Every turn begins with `warm` calls that are not counted. Without `block`, a turn has as many calls as fit into
    `turn` seconds, and a job that would take longer than `seconds` in total skips some of the rounds.
    """
    with quiet():
        pilot = {name: _pilot(job) if block is None else 0.0 for name, job in jobs.items()}
        blocks = {
            name: block or max(1, min(BLOCK_STEPS, round(turn / max(each, 1e-9)))) for name, each in pilot.items()
        }
        every = {
            name: 1
            if seconds is None
            else min(max(1, round(each * (warm + blocks[name]) * rounds / seconds)), max(rounds // 3, 1))
            for name, each in pilot.items()
        }
        at = dict.fromkeys(jobs, 0)
        took: dict[str, list[list[float]]] = {name: [] for name in jobs}
        for number in range(rounds + 1):
            for name, job in jobs.items():
                if number % every[name]:
                    continue
                times = _turn(job, at[name], warm + blocks[name])[warm:]
                at[name] += warm + blocks[name]
                if number:  # the first round warms up
                    took[name].append(times)
            if number and advance is not None:
                advance()
        for name, job in jobs.items():  # one that skipped all rounds but the first
            if not took[name]:
                took[name].append(_turn(job, at[name], blocks[name]))
    return took


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection during timing."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Set the number of torch threads, and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _pilot(job: TimedCall) -> float:
    """Approximate seconds per call; a slow one is tried only once or twice."""
    took: list[float] = []
    while len(took) < PILOT_STEPS and sum(took) < PILOT_SECONDS:
        took += _turn(job, len(took), 1)
    return min(took)


def _turn(job: TimedCall, start: int, block: int) -> list[float]:
    call, inputs, clock = job.call, job.inputs, time.perf_counter
    took = []
    for place in range(start, start + block):
        arguments = inputs[place % len(inputs)]
        begin = clock()
        call(*arguments)
        took.append(clock() - begin)
    return took

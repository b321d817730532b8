"""Why some steps are slow: each is assigned to the first cause that was seen during it.

Interruptions by the hardware or a hypervisor are not counted where a process can read it. Their number is that of a
loop which was timed in the same way: as many slow steps without another cause as the loop has are due to the machine.
What remains is unexplained. A step is slow if it took its median longer than the median; so the loops count delays of
that length, whatever their own median is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nystream.lab.bench.loops import COMPUTING, READING
from nystream.lab.bench.watch import Array, Steps

SLOW = 2.0  # times the median
SLOW_PHASE = 1.5  # times the median: such a phase of the window is slow because of the algorithm
MIN_PER_PHASE = 5  # steps that a phase needs for its median to say something

ALGORITHM, COLLECTOR = "a slow phase of the window", "Python's garbage collector"
SWITCH, FAULT = "another process or thread had the core", "a page fault"
INTERRUPTED, CACHES = f"the machine, as in the {COMPUTING}", f"the machine, as in the {READING}"
UNEXPLAINED = "unexplained"
MACHINE = (SWITCH, INTERRUPTED, CACHES)


def figures(steps: Steps) -> dict[str, Any]:
    """Percentiles of the steps, and the share of slow ones."""
    microseconds = steps.nanoseconds / 1e3
    middle, p99, p999 = (float(x) for x in np.quantile(microseconds, (0.5, 0.99, 0.999), method="higher"))
    return {
        "steps": microseconds.size,
        "median_microseconds": middle,
        "p99_microseconds": p99,
        "p999_microseconds": p999,
        "worst_microseconds": float(microseconds.max()),
        "p99_over_median": p99 / middle,
        "slow_steps": int(slow(steps).sum()),
        "slow_share": float(slow(steps).mean()),
    }


def slow(steps: Steps, delay: float | None = None) -> Array:
    """[steps], whether each took `delay` nanoseconds longer than the median; by default, more than twice the median."""
    middle = np.median(steps.nanoseconds)
    return steps.nanoseconds > middle + ((SLOW - 1) * middle if delay is None else delay)


def slow_phases(steps: Steps, cycle: int) -> list[int] | None:
    """The phases whose median is much larger than that of all steps; None if there are too few steps to tell."""
    phases = steps.places % cycle
    if np.bincount(phases, minlength=cycle).min() < MIN_PER_PHASE:
        return None
    limit = SLOW_PHASE * np.median(steps.nanoseconds)
    return [phase for phase in range(cycle) if np.median(steps.nanoseconds[phases == phase]) > limit]


def causes(steps: Steps, cycle: int, loops: Mapping[str, Steps]) -> list[dict[str, Any]]:
    """The number of slow steps by cause, and their shares of all slow steps and of all steps."""
    left, found = slow(steps), {}
    in_phase = np.isin(steps.places % cycle, slow_phases(steps, cycle) or [])
    for name, seen in ((ALGORITHM, in_phase), *_seen(steps)):
        found[name] = int((left & seen).sum())
        left &= ~seen
    rest, total = int(left.sum()), len(left)
    alike = _in_loops(steps, loops)
    found[INTERRUPTED] = min(rest, round(alike[COMPUTING]))
    found[CACHES] = min(rest, round(max(alike.values()))) - found[INTERRUPTED]
    found[UNEXPLAINED] = rest - found[INTERRUPTED] - found[CACHES]
    every = sum(found.values())
    return [
        {"name": name, "steps": count, "of_slow": count / max(every, 1), "of_all": count / total}
        for name, count in found.items()
    ]


def own_share(rows: list[dict[str, Any]]) -> float:
    """The share of all steps that were slow without the machine being the cause; p99 leaves room for 1 %."""
    return float(sum(row["of_all"] for row in rows if row["name"] not in MACHINE))


def machine(steps: Steps, loops: Mapping[str, Steps]) -> dict[str, Any]:
    """What the machine alone does: p99 over the median of steps that differ only by the delays of a loop."""
    middle = float(np.median(steps.nanoseconds))
    ratios = {}
    for name, loop in loops.items():
        own, p99 = (float(x) for x in np.quantile(loop.nanoseconds, (0.5, 0.99), method="higher"))
        ratios[name] = 1 + (p99 - own) / middle
    loop = loops[COMPUTING]
    delays = int(slow(loop, (SLOW - 1) * middle).sum())
    return {
        "p99_over_median": max(ratios.values()),
        "delay_microseconds": (SLOW - 1) * middle / 1e3,
        "delays_per_second": delays / (float(loop.nanoseconds.sum()) / 1e9),
    }


def chance(steps: Steps, loops: Mapping[str, Steps]) -> int:
    """By how much the counts of the step and of a loop may differ by chance: two standard deviations."""
    own = _without_cause(steps) * len(steps.places)
    return math.ceil(2 * math.sqrt(own + max(_in_loops(steps, loops).values())))


def _seen(steps: Steps) -> tuple[tuple[str, Array], ...]:
    return (COLLECTOR, steps.collections), (SWITCH, steps.switches), (FAULT, steps.faults)


def _in_loops(steps: Steps, loops: Mapping[str, Steps]) -> dict[str, float]:
    """How many of as many steps of each loop had the delay of a slow step although nothing was seen during them."""
    delay = (SLOW - 1) * float(np.median(steps.nanoseconds))
    return {name: _without_cause(loop, delay) * len(steps.places) for name, loop in loops.items()}


def _without_cause(steps: Steps, delay: float | None = None) -> float:
    """The share of steps that were slow although nothing was seen during them."""
    left = slow(steps, delay)
    for _, seen in _seen(steps):
        left &= ~seen
    return float(left.mean())

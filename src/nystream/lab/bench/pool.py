"""Two measurements of a single step of the pool: the slowest phase of its cycle, and the overhead of Python."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

import numpy as np
from torch import Tensor

from nystream.lab.bench.alone import LARGE, NUM_TOKENS, Compiled
from nystream.lab.bench.contenders import FAMILIES, Contender, Pooled
from nystream.lab.bench.settings import BenchSettings, Part, target
from nystream.lab.bench.sizes import build_attention, build_model, tokens, twin
from nystream.lab.bench.timing import BLOCK_SECONDS, TimedCall, collect
from nystream.progress import Advance

CYCLE_STEPS = 24_000  # approximate number of steps that are timed per variant
PUSH, CALL, KERNEL = "pool.push", "kernel, called once", "kernel, in compiled code"
REPEATS = 20  # steps of the kernel per call from Python


def phases(settings: BenchSettings, advance: Advance) -> Part:
    """The median step at every phase of the window's cycle, with fixed and with continual landmarks.

    The sums of a window have a cycle of 2n steps. A single slow step is due to the machine, a slow phase is due to the
    algorithm: so each phase is timed once per cycle, and medians over the cycles are compared. For the compiled
    attention alone, with fixed landmarks, also in a window of 16,384.
    """
    sizes, rows, backend = settings.sizes, [], ""
    base = build_model(sizes, settings.seed)
    for variant in ("co-fixed-single", "co-cont-single"):
        pool = Pooled(twin(base, sizes, variant), settings.backend)
        backend, feed = pool.backend, tokens(2 * sizes.window, sizes.input_dim, settings.seed)
        rows.append({"name": FAMILIES[variant], **_phases(pool, feed, sizes.window, settings)})
        advance(settings.rounds // 2)
    if backend == "numba":
        for alone in (sizes, LARGE):
            kernel = Compiled(build_attention(alone, settings.seed))
            feed = tokens(NUM_TOKENS, 3 * alone.embed_dim, settings.seed).unflatten(1, (3, -1))
            rows.append({"name": f"attention, n = {alone.window:,}", **_phases(kernel, feed, alone.window, settings)})
    goal = target("slowest phase against the median, fixed landmarks", rows[0]["slowest_over_median"], 2, False)
    targets = [goal] if settings.has_targets and backend == "numba" else []
    return {"backend": backend, "cycle": 2 * sizes.window, "rows": rows}, targets


def _phases(contender: Contender, feed: Tensor, window: int, settings: BenchSettings) -> dict[str, Any]:
    """The median, mean and slowest of the phases of a window."""
    cycle = 2 * window
    cycles = max(5, min(settings.rounds, CYCLE_STEPS // cycle))
    turns = collect({contender.name: contender.job(feed)}, cycles, cycle)[contender.name]
    medians = [median(seconds) * 1e6 for seconds in zip(*turns, strict=True)]
    middle, slowest = median(medians), max(medians)
    return {
        "cycles": cycles,
        "median_microseconds": middle,
        "mean_microseconds": fmean(medians),
        "slowest_microseconds": slowest,
        "slowest_phase": medians.index(slowest),
        "slowest_over_median": slowest / middle,
    }


def overhead(settings: BenchSettings, advance: Advance) -> Part:
    """A push, compared with the call of its kernel and with the kernel alone.

    The difference is the median of differences within a turn, in which both ran under the same conditions.
    """
    sizes = settings.sizes
    pool = Pooled(build_model(sizes, settings.seed), settings.backend)
    feed = tokens(2 * sizes.window, sizes.input_dim, settings.seed)
    pool.fill(feed)
    x, y = feed[0].numpy().copy(), np.zeros(sizes.output_dim, np.float32)
    backend, slot = pool.pool._backend, pool.pool._ids.slots[pool.stream]
    jobs = {PUSH: TimedCall(pool.step, [(pool.stream, x)]), CALL: TimedCall(backend.push, [(slot, x, y)])}
    if hasattr(backend, "repeat"):
        jobs[KERNEL] = TimedCall(backend.repeat, [(slot, x, y, REPEATS)])
    pilot = median(collect({PUSH: jobs[PUSH]}, 3, 5)[PUSH][-1])
    turns = collect(jobs, settings.rounds, max(2, min(40, round(BLOCK_SECONDS / pilot))), advance)
    medians = {
        name: [median(turn) / (REPEATS if name == KERNEL else 1) * 1e6 for turn in took] for name, took in turns.items()
    }
    rows = [{"name": name, "median_microseconds": median(took)} for name, took in medians.items()]
    against = KERNEL if KERNEL in medians else CALL
    extra = median(push - base for push, base in zip(medians[PUSH], medians[against], strict=True))
    goal = target("a push from Python, over its kernel", extra, 3, False, "µs")
    targets = [goal] if settings.has_targets and pool.backend == "numba" else []
    return {"backend": pool.backend, "rows": rows, "against": against, "microseconds": extra}, targets

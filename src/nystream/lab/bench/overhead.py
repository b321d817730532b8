"""What Python costs: a push against the call of its kernel, and against the kernel alone."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

from nystream.lab.bench.contenders import Pooled
from nystream.lab.bench.settings import BenchSettings, PartFigures, SpeedTarget
from nystream.lab.bench.sizes import build_model, tokens
from nystream.lab.bench.timing import BLOCK_SECONDS, TimedCall, collect
from nystream.progress import Advance

PUSH, CALL, KERNEL = "pool.push", "kernel, called once", "kernel, in compiled code"
REPEATS = 20  # steps that the kernel takes before it returns to Python


def overhead(settings: BenchSettings, advance: Advance) -> PartFigures:
    """Medians of each, and of the difference in the same turn: both then had the same machine."""
    sizes = settings.sizes
    pool = Pooled(build_model(sizes, settings.seed), settings.backend)
    feed = tokens(2 * sizes.window, sizes.input_dim, settings.seed)
    pool.fill(feed)
    x, y = feed[0].numpy().copy(), np.zeros(sizes.output_dim, np.float32)
    backend, slot = pool.pool._backend, pool.pool._slots[pool.stream]
    jobs = {PUSH: TimedCall(pool.step, [(pool.stream, x)]), CALL: TimedCall(backend.push, [(slot, x, y)])}
    calls = {PUSH: 1, CALL: 1}
    if hasattr(backend, "repeat"):
        jobs[KERNEL] = TimedCall(backend.repeat, [(slot, x, y, REPEATS)])
        calls[KERNEL] = REPEATS
    pilot = median(collect({PUSH: jobs[PUSH]}, 3, 5)[PUSH][-1])
    block = max(2, min(40, round(BLOCK_SECONDS / pilot)))
    turns = collect(jobs, settings.rounds, block, advance)
    middles = {name: [median(turn) / calls[name] * 1e6 for turn in took] for name, took in turns.items()}
    rows = [{"name": name, "median_microseconds": median(took)} for name, took in middles.items()]
    against = KERNEL if KERNEL in middles else CALL
    extra = median(push - base for push, base in zip(middles[PUSH], middles[against], strict=True))
    figures: dict[str, Any] = {"backend": pool.backend, "rows": rows, "against": against, "microseconds": extra}
    target = SpeedTarget("a push from Python, over its kernel", extra, 3, False, "µs")
    return PartFigures(figures, (target,) if settings.promised and pool.backend == "numba" else ())

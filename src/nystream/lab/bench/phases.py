"""Whether some steps are slower than others: the median step of the pool at every phase of the window's cycle."""

from __future__ import annotations

from statistics import median
from typing import Any

from nystream.lab.bench.contenders import FAMILIES, Pooled
from nystream.lab.bench.settings import BenchSettings, PartFigures, SpeedTarget
from nystream.lab.bench.sizes import build_model, tokens, twin
from nystream.lab.bench.timing import TimedCall, collect
from nystream.progress import Advance

CYCLE_STEPS = 24_000  # about so many steps are timed for each variant


def phases(settings: BenchSettings, advance: Advance) -> PartFigures:
    """Fixed landmarks, whose work is the same at every phase, and beside them those that are renewed.

    The sums of a window run through a cycle of 2n steps. Single slow steps are the machine's; a phase that is slow is
    ours: so each phase is timed once a cycle, and its median over the cycles is what is compared.
    """
    sizes, rows, backend = settings.sizes, [], ""
    cycle = 2 * sizes.window
    cycles = max(5, min(settings.rounds, CYCLE_STEPS // cycle))
    base = build_model(sizes, settings.seed)
    for variant in ("co-fixed-single", "co-cont-single"):
        pool = Pooled(twin(base, sizes, variant), settings.backend)
        backend = pool.backend
        feed = [pool.arguments(x) for x in tokens(cycle, sizes.input_dim, settings.seed)]
        turns = collect({pool.name: TimedCall(pool.step, feed)}, cycles, cycle)[pool.name]
        medians = [median(seconds) * 1e6 for seconds in zip(*turns, strict=True)]
        rows.append(_row(FAMILIES[variant], medians, cycles))
        advance(settings.rounds // 2)
    figures: dict[str, Any] = {"backend": backend, "cycle": cycle, "rows": rows}
    target = SpeedTarget("slowest phase against the median, fixed landmarks", rows[0]["slowest_over_median"], 2, False)
    return PartFigures(figures, (target,) if settings.promised and backend == "numba" else ())


def _row(family: str, medians: list[float], cycles: int) -> dict[str, Any]:
    middle, slowest = median(medians), max(medians)
    return {
        "name": family,
        "cycles": cycles,
        "median_microseconds": middle,
        "slowest_microseconds": slowest,
        "slowest_phase": medians.index(slowest),
        "slowest_over_median": slowest / middle,
    }

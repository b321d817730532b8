"""What came of it, in one table: error, operations, time and memory of every model, and baselines beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import nystream.costs as costs
from nystream.lab.demo.models import EMBED_DIM, LANDMARKS, NUM_HEADS, WINDOW, errors
from nystream.lab.reproduce.report.document import MISSING
from nystream.lab.reproduce.steps import time_pushes
from nystream.lab.tasks.electricity import DemandForecast
from nystream.lab.tasks.electricity.baselines import persistence, ridge
from nystream.models import StreamModel
from nystream.progress import naming, track
from nystream.stream import StreamPool

NAMES = {
    "full": "full, window recomputed",
    "co-full-single": "continual full",
    "co-cont-single": "low-rank, continual landmarks",
    "co-fixed-single": "low-rank, fixed landmarks",
}
TOKENS = 4 * WINDOW * EMBED_DIM  # bytes of a window of tokens, as the block sees them


class StepCost(NamedTuple):
    """What a step needs, of the model as it ran."""

    operations: float  # multiply-adds of the attention
    microseconds: float  # of the whole model
    bytes: int  # of one stream


class SummaryRow(NamedTuple):
    """A row of the table; no Transformer, or none that was timed, has no cost."""

    name: str
    mse: float  # in units of the variance of the total
    gigawatts: float  # mean error
    cost: StepCost | None = None
    variant: str = ""

    def cells(self, missing: str = MISSING) -> tuple[str, ...]:
        """The numbers, as they are printed."""
        found = (f"{1e3 * self.mse:.3f}", f"{self.gigawatts:.3f}")
        if self.cost is None:
            return (*found, missing, missing, missing)
        operations, microseconds, held = self.cost
        digits = 1 if microseconds < 100 else 0
        return (*found, f"{operations:,.0f}", f"{microseconds:,.{digits}f}", f"{held / 1e3:,.0f} kB")


def scored(problem: DemandForecast, learned: Mapping[str, StreamModel], show: bool | None = None) -> list[SummaryRow]:
    """Every model that has learned, and the baselines, on the held-out hours."""

    def scores() -> Iterator[tuple[str, Mapping[str, float], str]]:
        for variant, model in learned.items():
            yield NAMES[variant], errors(problem, model), variant
        for baseline in (persistence, ridge):
            one = baseline(problem, skip=WINDOW - 1)
            yield one.name, one.scores, ""

    lines = []
    with track("scoring the models", len(learned) + 2, show) as advance:
        for name, found, variant in scores():
            lines.append(SummaryRow(name, found["mse"], found["mae"] * problem.deviation / 1e3, variant=variant))
            advance(1, name)
    return lines


def timed(
    lines: Sequence[SummaryRow], learned: Mapping[str, StreamModel], rounds: int = 40, show: bool | None = None
) -> list[SummaryRow]:
    """The lines with what a step of each model costs, all measured side by side."""
    with naming("timing the models"):
        pushes = time_pushes(learned, rounds, show)

    def cost(variant: str) -> StepCost | None:
        if variant not in pushes:
            return None
        times, pool = pushes[variant]
        return StepCost(_operations(variant, learned[variant], pool), times.median * 1e6, pool.bytes_per_stream)

    return [line._replace(cost=cost(line.variant)) for line in lines]


def notes(problem: DemandForecast, lines: Sequence[SummaryRow]) -> tuple[str, ...]:
    """What the columns are, in sentences; of those that have numbers."""
    hours = len(problem.test.x) - (WINDOW - 1)
    said = (
        f"Errors: of {hours:,} held-out hours, each forecast an hour before; the first {WINDOW - 1}, which fill the "
        "window, are left out. mse is in units of the variance of the total in training.",
        "Multiply-adds: of attention, a step, as `nystream.costs.executed` counts them. µs: a step of the whole model, "
        "median, one thread. Memory: of one stream.",
        "The recomputed window runs in torch, the others in compiled kernels. It keeps queries, keys and values beside "
        f"its tokens, which spares it their projections; the tokens alone would be {TOKENS / 1e3:.0f} kB.",
    )
    return said if any(line.cost for line in lines) else said[:1]


def _operations(variant: str, model: StreamModel, pool: StreamPool) -> float:
    # Compiled kernels keep partial sums whatever the window; torch keeps what the model's config says.
    form = "partials" if pool.backend == "numba" else model.config.blocks[0].form
    low_rank = model.config.blocks[0].low_rank
    return costs.executed(variant, WINDOW, EMBED_DIM, LANDMARKS if low_rank else None, 1, NUM_HEADS, form=form).total

"""The results in one table: error, operations, time and memory of every model, and of baselines."""

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
WINDOW_BYTES = 4 * WINDOW * EMBED_DIM  # of the tokens that the block sees


class StepCost(NamedTuple):
    """The cost of a step of a model as it ran."""

    operations: float  # multiply-adds of the attention
    microseconds: float  # of the whole model
    bytes: int  # of one stream


class SummaryRow(NamedTuple):
    """A row of the table; baselines, and models that were not timed, have no cost."""

    name: str
    mse: float  # in units of the variance of the total
    gigawatts: float  # mean error
    cost: StepCost | None = None
    variant: str = ""

    def cells(self, missing: str = MISSING) -> tuple[str, ...]:
        """The numbers as text."""
        errors = (f"{1e3 * self.mse:.3f}", f"{self.gigawatts:.3f}")
        if self.cost is None:
            return (*errors, missing, missing, missing)
        operations, microseconds, nbytes = self.cost
        digits = 1 if microseconds < 100 else 0
        return (*errors, f"{operations:,.0f}", f"{microseconds:,.{digits}f}", f"{nbytes / 1e3:,.0f} kB")


def scored(problem: DemandForecast, trained: Mapping[str, StreamModel], show: bool | None = None) -> list[SummaryRow]:
    """Score every trained model, and the baselines, on the held-out hours."""

    def scores() -> Iterator[tuple[str, Mapping[str, float], str]]:
        for variant, model in trained.items():
            yield NAMES[variant], errors(problem, model), variant
        for baseline in (persistence, ridge):
            result = baseline(problem, skip=WINDOW - 1)
            yield result.name, result.scores, ""

    lines = []
    with track("scoring the models", len(trained) + 2, show) as advance:
        for name, values, variant in scores():
            lines.append(SummaryRow(name, values["mse"], values["mae"] * problem.deviation / 1e3, variant=variant))
            advance(1, name)
    return lines


def timed(
    lines: Sequence[SummaryRow], trained: Mapping[str, StreamModel], rounds: int = 40, show: bool | None = None
) -> list[SummaryRow]:
    """Add the cost of a step of each model, all measured in turns."""
    with naming("timing the models"):
        pushes = time_pushes(trained, rounds, show)

    def cost(variant: str) -> StepCost | None:
        if variant not in pushes:
            return None
        times, pool = pushes[variant]
        return StepCost(_operations(variant, trained[variant], pool), times.median * 1e6, pool.bytes_per_stream)

    return [line._replace(cost=cost(line.variant)) for line in lines]


def notes(problem: DemandForecast, lines: Sequence[SummaryRow]) -> tuple[str, ...]:
    """The meaning of the columns that have numbers."""
    hours = len(problem.test.x) - (WINDOW - 1)
    paragraphs = (
        f"Errors: over {hours:,} held-out hours, forecast an hour ahead; the first {WINDOW - 1}, which fill the "
        "window, are not scored. mse is in units of the variance of the total in training.",
        "Multiply-adds: of attention, per step, as `nystream.costs.executed` counts them. µs per step: whole model, "
        "median, one thread. Memory: per stream.",
        "The recomputed window runs in torch, the others in compiled kernels. It stores queries, keys and values in "
        "addition to its tokens, which saves their projections; the tokens alone would be "
        f"{WINDOW_BYTES / 1e3:.0f} kB.",
    )
    return paragraphs if any(line.cost for line in lines) else paragraphs[:1]


def _operations(variant: str, model: StreamModel, pool: StreamPool) -> float:
    # Compiled kernels always keep partial sums; torch follows the config.
    form = "partials" if pool.backend == "numba" else model.config.blocks[0].form
    low_rank = model.config.blocks[0].low_rank
    return costs.executed(variant, WINDOW, EMBED_DIM, LANDMARKS if low_rank else None, 1, NUM_HEADS, form=form).total

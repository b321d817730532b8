"""What came of it, in one table: error, operations, time and memory of every model, and baselines beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nystream import costs
from nystream.demo.models import EMBED_DIM, LANDMARKS, NUM_HEADS, WINDOW, Trained, errors
from nystream.reproduce.steps import time_pushes
from nystream.tasks.electricity.baselines import persistence, ridge

NAMES = {
    "full": "full, window recomputed",
    "co-full-single": "continual full",
    "co-cont-single": "low-rank, continual landmarks",
    "co-fixed-single": "low-rank, fixed landmarks",
}


class Line(NamedTuple):
    """A row of the table; the costs are None for what is no Transformer."""

    name: str
    mse: float
    mae: float
    operations: float | None = None
    microseconds: float | None = None
    bytes: int | None = None


def summarise(trained: Trained, rounds: int = 40, show: bool | None = None) -> list[Line]:
    """Every model and every baseline, scored on all of the held-out hours; steps measured side by side."""
    found: Mapping[str, Mapping[str, float]] = errors(trained)
    pushes = time_pushes(trained.models, rounds, show)
    lines = []
    for variant, name in NAMES.items():
        times, pool = pushes[variant]
        head = EMBED_DIM // NUM_HEADS
        operations = costs.flops(variant, WINDOW, head, LANDMARKS, 1, NUM_HEADS, corrected=True)
        score = found[variant]
        lines.append(Line(name, score["mse"], score["mae"], operations, times.median * 1e6, pool.bytes_per_stream))
    for baseline in (persistence(trained.problem, WINDOW - 1), ridge(trained.problem, skip=WINDOW - 1)):
        lines.append(Line(baseline.name, baseline.scores["mse"], baseline.scores["mae"]))
    return lines

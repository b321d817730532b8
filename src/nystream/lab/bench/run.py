"""All parts of a run, one after the other, and their record."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nystream.lab.bench.alone import attention
from nystream.lab.bench.exported import export
from nystream.lab.bench.model import model
from nystream.lab.bench.pool import overhead, phases
from nystream.lab.bench.quiet import quiet
from nystream.lab.bench.settings import PARTS, BenchSettings, Part
from nystream.lab.bench.streams import streams
from nystream.lab.bench.timing import threads
from nystream.lab.bench.window import window
from nystream.progress import Advance, track

RUNNERS: dict[str, Callable[[BenchSettings, Advance], Part]] = dict(
    zip(PARTS, (attention, window, model, phases, quiet, streams, overhead, export), strict=True)
)


def run(settings: BenchSettings, show: bool | None = None) -> dict[str, Any]:
    """Measure the parts of `settings`, and return the record without its header.

    Except for many streams at once, torch uses one thread: one token is too little work to share, and a step is fastest
    that way. `show` is that of `progress.track`.
    """
    began = time.monotonic()
    record: dict[str, Any] = {"settings": dataclasses.asdict(settings) | {"threads": settings.cores}}
    targets = []
    each = settings.rounds
    special = {
        "attention": 2 * each,
        "phases": 2 * (each // 2),
        "streams": len(set(settings.streams)) * max(each // 8, 1),
    }
    rounds = sum(special.get(part, each) for part in settings.parts)
    with threads(1), torch.inference_mode(), track("bench", rounds, show) as advance:
        for name in PARTS:
            if name in settings.parts:
                advance(0, f"{name}: checking; the first run on a machine compiles")
                record[name], reached = RUNNERS[name](settings, partial(advance, note=name))
                targets += reached
    return record | {"targets": targets, "seconds": round(time.monotonic() - began, 1)}

"""All parts of a run, one after the other, and the record of what they found."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nystream.lab.bench.alone import attention
from nystream.lab.bench.model import model
from nystream.lab.bench.overhead import overhead
from nystream.lab.bench.phases import phases
from nystream.lab.bench.settings import PARTS, BenchSettings, PartFigures
from nystream.lab.bench.streams import streams
from nystream.lab.bench.timing import threads
from nystream.lab.bench.window import window
from nystream.progress import Advance, track

RUNNERS: dict[str, Callable[[BenchSettings, Advance], PartFigures]] = {
    "attention": attention,
    "window": window,
    "model": model,
    "phases": phases,
    "streams": streams,
    "overhead": overhead,
}
assert tuple(RUNNERS) == PARTS


def run(settings: BenchSettings, show: bool | None = None) -> dict[str, Any]:
    """Measure what `settings` asks for: the record, without its header.

    torch has one thread but where many streams are stepped at once: one token's work is too small to share, and a step
    is fastest that way. `show` as in `progress.track`.
    """
    began = time.monotonic()
    record: dict[str, Any] = {"settings": _described(settings)}
    targets = []
    with threads(1), torch.inference_mode(), track("bench", _rounds(settings), show) as advance:
        for name in PARTS:
            if name in settings.parts:
                advance(0, f"{name}: checking; the first run on a machine compiles")
                part = RUNNERS[name](settings, partial(advance, note=name))
                record[name] = part.figures
                targets += [target.to_dict() for target in part.targets]
    return record | {"targets": targets, "seconds": round(time.monotonic() - began, 1)}


def _described(settings: BenchSettings) -> dict[str, Any]:
    return dataclasses.asdict(settings) | {"threads": settings.cores}


def _rounds(settings: BenchSettings) -> int:
    """How many rounds all parts have together."""
    each = settings.rounds
    rounds = {
        "attention": 2 * each,
        "phases": 2 * (each // 2),
        "streams": len(set(settings.streams)) * max(each // 8, 1),
    }
    return sum(rounds.get(part, each) for part in settings.parts)

"""What a run measures, and the targets it is held to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from nystream.lab.bench.sizes import ModelSizes

PARTS = ("attention", "window", "model", "phases", "streams", "overhead")
STREAMS = (1, 4, 16, 64, 256, 1024, 4096)


@dataclass(frozen=True)
class BenchSettings:
    """Everything that a run can be told."""

    sizes: ModelSizes = field(default_factory=ModelSizes)
    parts: tuple[str, ...] = PARTS
    streams: tuple[int, ...] = STREAMS
    rounds: int = 300
    threads: int = 0
    backend: str = "auto"
    quick: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown or not self.parts:
            named = ", ".join(unknown) or "nothing"
            raise ValueError(f"parts has {named}, but must be some of {', '.join(PARTS)}")
        if not self.streams or min(self.streams) < 1:
            raise ValueError(f"streams={self.streams} must be one or several numbers of at least 1")
        if self.rounds < 1:
            raise ValueError(f"rounds={self.rounds} must be at least 1")
        if self.threads < 0:
            raise ValueError(f"threads={self.threads} must be at least 1, or 0 for all cores")
        self.sizes.config("co-fixed-single")  # which checks them

    @property
    def promised(self) -> bool:
        """Whether the sizes are those that targets are set for; those of parts with sizes of their own always are."""
        return self.sizes == ModelSizes()

    @property
    def cores(self) -> int:
        """How many threads share the work where many streams are stepped at once."""
        return self.threads or os.cpu_count() or 1


@dataclass(frozen=True)
class SpeedTarget:
    """A promise, and whether this run has kept it."""

    what: str
    value: float
    limit: float
    at_least: bool
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "value": self.value,
            "limit": self.limit,
            "kind": "at least" if self.at_least else "at most",
            "unit": self.unit,
            "met": self.met,
        }


@dataclass(frozen=True)
class PartFigures:
    """What one part of a run has found: its figures, as they go into the record, and its targets."""

    figures: dict[str, Any]
    targets: tuple[SpeedTarget, ...] = ()

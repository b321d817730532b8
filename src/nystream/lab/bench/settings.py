"""What a run measures, and its targets."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from nystream.lab.bench.sizes import ModelSizes

PARTS = ("attention", "window", "model", "phases", "quiet", "streams", "overhead", "export")
STREAMS = (1, 4, 16, 64, 256, 1024, 4096)

Part = tuple[dict[str, Any], list[dict[str, Any]]]  # the figures of a part, as in the record, and its targets


@dataclass(frozen=True)
class BenchSettings:
    """The settings of a run."""

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
            raise ValueError(f"parts has {', '.join(unknown) or 'nothing'}, but must be some of {', '.join(PARTS)}")
        if not self.streams or min(self.streams) < 1:
            raise ValueError(f"streams={self.streams} must be one or more integers, each at least 1")
        if self.rounds < 1:
            raise ValueError(f"rounds={self.rounds} must be at least 1")
        if self.threads < 0:
            raise ValueError(f"threads={self.threads} must be at least 1, or 0 for all cores")
        self.sizes.config("co-fixed-single")  # which checks the sizes

    @property
    def has_targets(self) -> bool:
        """Whether these are the sizes that targets are set for; parts with sizes of their own always have targets."""
        return self.sizes == ModelSizes()

    @property
    def cores(self) -> int:
        """Number of threads for many streams."""
        return self.threads or os.cpu_count() or 1


def target(what: str, value: float, limit: float, at_least: bool = True, unit: str = "x") -> dict[str, Any]:
    """A target, and whether this run has met it."""
    return {
        "what": what,
        "value": value,
        "limit": limit,
        "kind": "at least" if at_least else "at most",
        "unit": unit,
        "met": value >= limit if at_least else value <= limit,
    }

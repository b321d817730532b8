"""`nystream bench`: measure the cost of a step on this machine, next to alternatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tyro.conf import OmitArgPrefixes

from nystream import plotting, provenance
from nystream.cli import bench_tables, screen
from nystream.cli.options import plain_option, typed
from nystream.config.option import option
from nystream.files import require_writable
from nystream.lab.bench import plot as plots
from nystream.lab.bench.run import run
from nystream.lab.bench.settings import PARTS, STREAMS, BenchSettings
from nystream.lab.bench.sizes import ModelSizes

ROUNDS = BenchSettings.rounds
QUICK_ROUNDS, QUICK_STREAMS = 25, (1, 16, 256)


@dataclass
class Bench:
    """Measure a step of each contender in turn: torch's encoder over the window, a ring of keys and values with SDPA,
    continual-inference, nystream in torch, and nystream's pool. All are checked for correctness before they are timed.

    Example:
        nystream bench --quick
    """

    parts: str = option(
        ",".join(PARTS),
        "Parts to measure: attention (alone, no projections), window (16,384 tokens against 128), model (all "
        "contenders, one stream), phases (of the window's cycle), quiet (slow steps, and why), streams (many at once), "
        "overhead (of Python), export (ONNX).",
        "LIST",
        "all",
    )
    sizes: OmitArgPrefixes[ModelSizes] = field(default_factory=ModelSizes)
    streams: str | None = option(None, "Numbers of streams.", "LIST", ",".join(map(str, STREAMS)))
    threads: int = option(0, "Number of threads for many streams; a single stream uses one.", "N", "all cores")
    rounds: int | None = option(None, "Number of turns per contender, of about 2 ms each.", "N", f"{ROUNDS}")
    backend: Literal["auto", "numba", "torch"] = option("auto", "Backend of the pool.")
    json: Path | None = option(None, "Write the record to this file: command, commit, hardware, all numbers.", "FILE")
    plot: Path | None = option(
        None, "Draw the parts model and streams to this file (.png, .svg or .pdf; needs the extra `plot`).", "FILE"
    )
    quick: bool = option(False, "Quick overview: fewer rounds and streams (unless given), and one block only.")
    seed: int = option(0, "Random seed of the tokens and the weights.")
    plain: bool = plain_option()

    def settings(self) -> BenchSettings:
        rounds, streams = self.rounds, () if self.streams is None else numbers("streams", self.streams)
        if rounds is None:
            rounds = QUICK_ROUNDS if self.quick else ROUNDS
        if self.streams is None:
            streams = QUICK_STREAMS if self.quick else STREAMS
        parts = tuple(part.strip() for part in self.parts.split(",") if part.strip())
        return BenchSettings(self.sizes, parts, streams, rounds, self.threads, self.backend, self.quick, self.seed)

    def run(self) -> None:
        settings = self.settings()
        for name, path in (("json", self.json), ("plot", self.plot)):
            if path is not None:
                require_writable(name, path)
        if self.plot is not None:
            plotting.require_for(self.plot)
            if not {"model", "streams"} & set(settings.parts):
                raise ValueError(f"plot={self.plot} needs the part model or streams, but parts={self.parts}")
        command = typed(["nystream", "bench"], self)
        figures = run(settings, show=False if self.plain else None)
        # Files first: the reader of the tables may close the pipe before their end.
        if self.json is not None:
            provenance.write(self.json, command, figures)
        if self.plot is not None:
            plots.draw(provenance.header(command) | figures, self.plot)
        console = screen.console(self.plain)
        hardware = provenance.hardware()
        console.print(
            f"{hardware['cpu']}, {hardware['cores']} cores, torch {hardware['torch']}, "
            f"numba {hardware['numba'] or 'not installed'}; {figures['seconds']:.0f} s\n",
            highlight=False,
        )
        screen.print_blocks(console, bench_tables.blocks(figures))
        if not figures["targets"]:
            console.print("No targets: they are set for the default sizes and the compiled backend.", style="dim")


def numbers(name: str, text: str) -> tuple[int, ...]:
    """Parse a list of whole numbers, such as 1,4,16."""
    try:
        return tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise ValueError(f"{name}={text!r} must be whole numbers separated by commas, such as 1,4,16") from None

"""`nystream bench`: what a step costs on this machine, beside what else there is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from rich.table import Table
from tyro.conf import OmitArgPrefixes, arg

from nystream import plotting, provenance
from nystream.cli import screen
from nystream.cli.options import usual
from nystream.files import require_writable
from nystream.lab.bench import plot as plots
from nystream.lab.bench import report
from nystream.lab.bench.run import run
from nystream.lab.bench.settings import PARTS, STREAMS, BenchSettings
from nystream.lab.bench.sizes import ModelSizes

ROUNDS = BenchSettings.rounds
QUICK_ROUNDS, QUICK_STREAMS = 25, (1, 16, 256)


@dataclass
class Bench:
    """Measure a step side by side: torch's encoder over the window, a ring of keys and values with SDPA,
    continual-inference, nystream in torch and nystream's pool. All are checked before anything is timed.

    Example:
        nystream bench --quick
    """

    parts: Annotated[str, usual("all", "LIST")] = ",".join(PARTS)
    """What to measure: attention (alone, no projections), window (16,384 against 128 tokens), model (every contender,
    one stream), phases (of the window's cycle), streams (many at once), overhead (of Python)."""
    sizes: OmitArgPrefixes[ModelSizes] = field(default_factory=ModelSizes)
    streams: Annotated[str | None, usual(",".join(map(str, STREAMS)), "LIST")] = None
    """Numbers of streams."""
    threads: Annotated[int, usual("all cores", "N")] = 0
    """Threads for many streams at once. A single stream always has one."""
    rounds: Annotated[int | None, usual(ROUNDS, "N")] = None
    """Turns that every contender gets, of a couple of milliseconds each."""
    backend: Literal["auto", "numba", "torch"] = "auto"
    """Of the pool."""
    json: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the record here: command, commit, hardware and every figure."""
    plot: Annotated[Path | None, arg(metavar="FILE")] = None
    """Draw the parts model and streams here (png, svg or pdf; needs the extra `plot`)."""
    quick: bool = False
    """A first look: fewer rounds and streams, unless they are given, and one block only."""
    seed: int = 0
    """Seed of the tokens and the weights."""
    plain: bool = False
    """No colours and no progress bar, as in a pipe."""

    def settings(self) -> BenchSettings:
        """Checked, so that nothing fails after minutes."""
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
                raise ValueError(f"plot={self.plot} needs the part model or streams, and parts={self.parts}")
        figures = run(settings, show=False if self.plain else None)
        # Files first: whoever reads the tables may leave before the end of them.
        if self.json is not None:
            provenance.write(self.json, self.command(), figures)
        if self.plot is not None:
            plots.draw(provenance.header(self.command()) | figures, self.plot)
        console = screen.console(self.plain)
        hardware = provenance.hardware()
        console.print(
            f"{hardware['cpu']}, {hardware['cores']} cores, torch {hardware['torch']}, "
            f"numba {hardware['numba'] or 'not installed'}; {figures['seconds']:.0f} s\n",
            highlight=False,
        )
        for part in report.lines(figures):
            for piece in screen.fitting(part, console) if isinstance(part, Table) else (part,):
                console.print(piece)

    def command(self) -> str:
        """What was typed, as far as it differs from the defaults."""
        words = ["nystream", "bench"]
        given, usual = ({**vars(one.sizes), **vars(one)} for one in (self, Bench()))
        for name, value in given.items():
            if name != "sizes" and value != usual[name]:
                words.append(f"--{name.replace('_', '-')}")
                words += [] if value is True else [str(value)]
        return shlex.join(words)


def numbers(name: str, text: str) -> tuple[int, ...]:
    """The whole numbers of a list like 1,4,16."""
    try:
        return tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise ValueError(f"{name}={text!r} must be whole numbers with commas between them, such as 1,4,16") from None

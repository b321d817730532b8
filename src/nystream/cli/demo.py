"""`nystream demo`: train on real data, follow a live stream, and compare what a step costs."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from nystream import state as states
from nystream.bench.record import require_writable
from nystream.bench.timing import threads
from nystream.demo import models, page, screen
from nystream.demo.hours import Stream
from nystream.demo.summary import Line, summarise


@dataclass
class Demo:
    """Learn the demand of electricity of 24 areas, then follow weeks that were held out, hour by hour: forecast against
    truth, time of a step, memory, error so far. At the end a table, and a page in demo/report.html.

    Example: nystream demo --weeks 4
    """

    weeks: int = 8
    """Held-out weeks to follow; at most 15 are there."""
    seconds: float = 20.0
    """About how long the stream takes on the screen; its steps take microseconds."""
    epochs: int = 15
    """Budget of training."""
    out: Path = Path("demo")
    """Folder for report.html."""
    seed: int = 0
    """Seed of the weights and of the order of the data."""
    plain: bool = False
    """No colours, no moving chart: a line a week, as in a pipe."""

    def run(self) -> None:
        for name, least in (("weeks", 1), ("epochs", 3), ("seconds", 0.0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least:g}")
        self.out.mkdir(parents=True, exist_ok=True)
        report = self.out / "report.html"
        require_writable("out", report)
        console = Console(color_system=None, force_terminal=False) if self.plain else Console()
        show = False if self.plain else None
        problem = models.load()
        console.print(
            f"Learning from {len(problem.train.x):,} hours of {len(problem.series.names)} areas: full attention, then "
            "low rank in two phases.",
            highlight=False,
        )
        budget = dataclasses.replace(models.BUDGET, epochs=self.epochs, seed=self.seed)
        with threads(1):  # the model is too small to be shared out, least of all on a busy machine
            trained = models.train(problem, show, budget)
        stream = Stream(trained, self.weeks)
        live = console.is_terminal and not self.plain
        tally = screen.follow(stream, console, self.seconds) if live else screen.tell(stream, console)
        lines = summarise(trained, show=show)
        if tally.hours:
            text = page.render(lines, tally, self.command())
            states.replace(report, lambda partial: partial.write_text(text, encoding="utf-8"))
        if not console.encoding.startswith("utf") and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        console.print(table(lines))
        console.print(
            "mse: all held-out hours, in units of the total's variance. operations: of attention, a step. µs: the "
            "whole model, one thread.",
            style="dim",
        )
        if tally.hours:
            console.print(f"wrote {report}", style="dim", highlight=False, soft_wrap=True)

    def command(self) -> str:
        usual, words = Demo(), ["nystream demo"]
        for name in ("weeks", "epochs", "seed"):
            if getattr(self, name) != getattr(usual, name):
                words.append(f"--{name} {getattr(self, name)}")
        return " ".join(words)


def table(lines: list[Line]) -> Table:
    """What came of it, for 80 columns."""
    found = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    found.add_column("", style="bold")
    for name in ("mse 1e-3", "operations", "µs a step", "memory"):
        found.add_column(name, justify="right", no_wrap=True)
    for place, line in enumerate(lines):
        last = place + 1 == len(lines) or lines[place + 1].operations is None
        mse, _, *costs = page.cells(line)
        found.add_row(line.name, mse, *costs, end_section=last and line.operations is not None)
    return found

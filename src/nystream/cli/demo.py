"""`nystream demo`: train on real data, follow a live stream, and compare what a step costs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from nystream import files, plotting
from nystream.cli.folders import require_folder
from nystream.cli.screen import console as standard_output
from nystream.cli.screen import fitting
from nystream.files import require_writable
from nystream.interrupts import Interrupts
from nystream.lab.bench.timing import threads
from nystream.lab.demo import log, models, page, screen, summary
from nystream.lab.demo.hours import WEEK, DemandStream, Tally
from nystream.lab.demo.summary import SummaryRow
from nystream.lab.demo.terminal import Keyboard, Quit, taken
from nystream.lab.tasks.electricity import DemandForecast
from nystream.landmarks import kmeans
from nystream.models import StreamModel
from nystream.progress import track

COLUMNS = ("mse\n1e-3", "mean\nerror, GW", "multiply-\nadds", "µs\na step", "\nmemory")


@dataclass
class Demo:
    """Learn the demand of electricity of 24 areas, then follow weeks that were held out, hour by hour: forecast against
    truth, time of a step, memory, error so far. At the end a table, and a page in demo/report.html.

    Example:
        nystream demo --weeks 8 --seconds 40
    """

    weeks: int = 4
    """Held-out weeks to follow; about 15 are there."""
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
        report = self._checked()
        console = standard_output(self.plain)
        with Interrupts():
            problem = models.load()
            with taken(console) as keyboard:
                lines, tally = self._watched(problem, console, keyboard)
            if not lines:
                console.print("Stopped before a model had learned: there is nothing to show.")
                return
            # The table first: whatever becomes of the page, it is there.
            notes = summary.notes(problem, lines)
            console.print(*fitting(table(lines), console))
            for note in notes:
                console.print(note.replace("`", ""), style="dim", highlight=False)
            if not tally.hours:
                console.print(
                    "Stopped before the stream began: no page was written, and steps that were not timed have no costs."
                )
                return
            text = page.render(lines, tally, notes, self.command())
            files.write_text(report, text)
            console.print(f"wrote {report}", highlight=False, soft_wrap=True)

    def command(self) -> str:
        usual, words = Demo(), ["nystream demo"]
        for name in ("weeks", "epochs", "seed"):
            if getattr(self, name) != getattr(usual, name):
                words.append(f"--{name} {getattr(self, name)}")
        return " ".join(words)

    def _checked(self) -> Path:
        """Where the page goes. Whatever the end would need is asked for now, not after a minute of training."""
        for name, least in (("weeks", 1), ("epochs", 3)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"seconds={self.seconds:g} must be a number above 0")
        kmeans.require()
        plotting.require("the page")
        require_folder("out", self.out)
        report = self.out / "report.html"
        require_writable("out", report)
        return report

    def _watched(self, problem: DemandForecast, console: Console, keyboard: Keyboard) -> tuple[list[SummaryRow], Tally]:
        """All that takes its time; what there is of it when somebody presses q."""
        learned: dict[str, StreamModel] = {}
        lines: list[SummaryRow] = []
        show = False if self.plain else None
        self._announce(problem, console, keyboard)
        budget = dataclasses.replace(models.BUDGET, epochs=self.epochs, seed=self.seed)
        try:
            # One thread: the model is too small to be shared out, least of all on a busy machine.
            with keyboard.quits(), threads(1):
                for variant, model in models.train(problem, show, budget):
                    learned[variant] = model
                lines = summary.scored(problem, learned, show)
                with track("compiling the step, the first time only", 1, show) as advance:
                    stream = DemandStream(problem, learned["co-fixed-single"], self.weeks)
                    advance()
                lines = summary.timed(lines, learned, show=show)
        except Quit:
            if learned and not lines:
                lines = summary.scored(problem, learned, show)
            return lines, Tally()
        # A screen that cannot be drawn on, or has no braille, is a log.
        if self.plain or not console.is_interactive or not console.encoding.startswith("utf"):
            return lines, log.tell(stream, console)
        return lines, screen.follow(stream, console, self.seconds, keyboard)

    def _announce(self, problem: DemandForecast, console: Console, keyboard: Keyboard) -> None:
        minutes = round(self.epochs / Demo.epochs)
        said = (
            f"Learning from {len(problem.train.x):,} hours of {len(problem.series.names)} areas, about "
            f"{f'{minutes} minutes' if minutes > 1 else 'a minute'}: full attention, then low rank in two phases. Loss "
            "and mse meanwhile are in units of the variance of the change from hour to hour."
        )
        console.print(said, highlight=False)
        console.print(f"{keyboard.how_to_leave} at any time", style="bold")
        held = len(problem.test.x) / WEEK
        if self.weeks > held:
            console.print(
                f"weeks={self.weeks}: {held:.1f} were held out, and all of them are followed.", highlight=False
            )


def table(lines: list[SummaryRow]) -> Table:
    """What came of it, for 80 columns."""
    found = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    found.add_column("", style="bold")
    for name in COLUMNS:
        found.add_column(name, justify="right", no_wrap=True)
    for place, line in enumerate(lines):
        last = place + 1 == len(lines) or not lines[place + 1].variant
        found.add_row(line.name, *line.cells("-"), end_section=last and bool(line.variant))
    return found

"""`nystream demo`: train on real data, follow a live stream, and compare the cost of a step."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from nystream import files, plotting
from nystream.cli.options import typed
from nystream.cli.screen import console as standard_output
from nystream.cli.screen import fitting, new_table
from nystream.config.option import option
from nystream.interrupts import Interrupts
from nystream.lab.bench.timing import threads
from nystream.lab.demo import models, page, screen, summary
from nystream.lab.demo.hours import WEEK, DemandStream, Tally
from nystream.lab.demo.summary import SummaryRow
from nystream.lab.demo.terminal import Keyboard, Quit, taken
from nystream.lab.tasks.electricity import DemandForecast
from nystream.landmarks import kmeans
from nystream.models import StreamModel
from nystream.progress import track

COLUMNS = ("mse\n1e-3", "mean\nerror, GW", "multiply-\nadds", "µs\nper step", "\nmemory")


@dataclass
class Demo:
    """Train on the electricity demand of 24 areas, then follow held-out weeks hour by hour: truth, forecast, error so
    far, time per step, memory. At the end, print a table and write demo/report.html.

    Example:
        nystream demo --weeks 8 --seconds 40
    """

    weeks: int = option(4, "Number of held-out weeks to follow, of about 15.")
    seconds: float = option(20.0, "Approximate duration of the stream on the screen; a step takes microseconds.")
    epochs: int = option(15, "Number of training epochs.")
    out: Path = option(Path("demo"), "Folder to write report.html to.", "FOLDER")
    seed: int = option(0, "Random seed of the weights and the order of the data.")
    plain: bool = option(False, "Print one line per week, without colours or a moving chart, as in a pipe.")

    def run(self) -> None:
        report = self._checked()
        console = standard_output(self.plain)
        with Interrupts():
            problem = models.load()
            with taken(console) as keyboard:
                lines, tally = self._watched(problem, console, keyboard)
            if not lines:
                console.print("Stopped before a model was trained: there is nothing to show.")
                return
            # The table first, in case the page cannot be written.
            notes = summary.notes(problem, lines)
            console.print(*fitting(table(lines), console))
            for note in notes:
                console.print(note.replace("`", ""), style="dim", highlight=False)
            if not tally.hours:
                console.print("Stopped before the stream began: no page was written, and the steps were not timed.")
                return
            command = typed(["nystream", "demo"], self, skip=("seconds", "out", "plain"))
            text = page.render(lines, tally, notes, command)
            files.write_text(report, text)
            console.print(f"wrote {report}", highlight=False, soft_wrap=True)

    def _checked(self) -> Path:
        """The path of the page. Whatever is needed at the end is checked now, not after a minute of training."""
        for name, minimum in (("weeks", 1), ("epochs", 3)):
            if getattr(self, name) < minimum:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {minimum}")
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"seconds={self.seconds:g} must be a number greater than 0")
        kmeans.require()
        plotting.require("the page")
        files.require_folder("out", self.out)
        report = self.out / "report.html"
        files.require_writable("out", report)
        return report

    def _watched(self, problem: DemandForecast, console: Console, keyboard: Keyboard) -> tuple[list[SummaryRow], Tally]:
        """Train, score, time and stream; the results so far if somebody presses q."""
        trained: dict[str, StreamModel] = {}
        lines: list[SummaryRow] = []
        show = False if self.plain else None
        self._announce(problem, console, keyboard)
        budget = dataclasses.replace(models.BUDGET, epochs=self.epochs, seed=self.seed)
        try:
            # One thread: the model is too small to be split, in particular on a busy machine.
            with keyboard.quits(), threads(1):
                for variant, model in models.train(problem, show, budget):
                    trained[variant] = model
                lines = summary.scored(problem, trained, show)
                with track("compiling the step, the first time only", 1, show) as advance:
                    stream = DemandStream(problem, trained["co-fixed-single"], self.weeks)
                    advance()
                lines = summary.timed(lines, trained, show=show)
        except Quit:
            if trained and not lines:
                lines = summary.scored(problem, trained, show)
            return lines, Tally()
        # Terminals that cannot be redrawn, or have no braille, get a log.
        if self.plain or not console.is_interactive or not console.encoding.startswith("utf"):
            return lines, screen.tell(stream, console)
        return lines, screen.follow(stream, console, self.seconds, keyboard)

    def _announce(self, problem: DemandForecast, console: Console, keyboard: Keyboard) -> None:
        minutes = round(self.epochs / Demo.epochs)
        console.print(
            f"Training on {len(problem.train.x):,} hours of {len(problem.series.names)} areas, for about "
            f"{f'{minutes} minutes' if minutes > 1 else 'a minute'}: full attention, then low rank in two phases. Loss "
            "and mse are in units of the variance of the hourly change.",
            highlight=False,
        )
        console.print(f"{keyboard.how_to_leave} at any time", style="bold")
        available = len(problem.test.x) / WEEK
        if self.weeks > available:
            console.print(f"weeks={self.weeks}: only {available:.1f} were held out; all are followed.", highlight=False)


def table(lines: list[SummaryRow]) -> Table:
    """The results, for 80 columns."""
    result = new_table(("",), COLUMNS)
    for place, line in enumerate(lines):
        last = place + 1 == len(lines) or not lines[place + 1].variant
        result.add_row(line.name, *line.cells("-"), end_section=last and bool(line.variant))
    return result

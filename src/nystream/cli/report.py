"""`nystream report`: render the results in a folder as Markdown and one HTML page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from nystream import files
from nystream.cli import screen
from nystream.cli.options import plain_option
from nystream.config.option import option
from nystream.files import require_folder, require_writable
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import html, markdown, numbers, plots, records
from nystream.lab.reproduce.report.compare import comparisons, headline
from nystream.lab.reproduce.report.document import MISSING
from nystream.lab.reproduce.report.grouping import GroupTable, tables
from nystream.lab.reproduce.report.sections import document, sentence
from nystream.progress import track


@dataclass
class Report:
    """Render results as tables and plots, next to the paper's numbers: Markdown, and one self-contained HTML page.

    Example:
        nystream report results --plots plots
    """

    folder: Positional[Path] = option(
        Path("results"),
        "Folder with the records of nystream reproduce. Other JSON files are ignored.",
        "FOLDER",
    )
    markdown: Path | None = option(
        Path("report.md"), "Markdown file to write, or None. It shows the plots if --plots is given.", "FILE"
    )
    html: Path | None = option(Path("report.html"), "HTML page to write, or None.", "FILE")
    plots: Path | None = option(None, "Write all plots to this folder, as PNG and SVG.", "FOLDER")
    no_plots: bool = option(False, "Write tables only, without matplotlib.")
    plain: bool = plain_option()

    def run(self) -> None:
        results = records.read(self.folder)
        self.check()
        grouped = tables(results)
        pictures = {} if self.no_plots else _drawn(grouped, False if self.plain else None)
        page = document(results, figures=not self.no_plots)
        written: list[Path] = []
        if self.plots is not None:
            for picture in pictures.values():
                picture.write(self.plots)
            written.append(self.plots)
        if self.markdown is not None:
            images = {name: _address(self.plots / f"{name}.png", self.markdown) for name in pictures if self.plots}
            files.write_text(self.markdown, markdown.render(page, images))
            written.append(self.markdown)
        if self.html is not None:
            inline = {name: picture.inline() for name, picture in pictures.items()}
            files.write_text(self.html, html.render(page, inline))
            written.append(self.html)
        console = screen.console(self.plain)
        for table in grouped:
            summary(console, table)
        for path in written:
            console.print(f"wrote {path}", style="dim", highlight=False, soft_wrap=True)

    def check(self) -> None:
        """Raise if something is missing, before anything is drawn."""
        if self.no_plots and self.plots is not None:
            raise ValueError(f"plots={self.plots} and no_plots are both given; use one of them")
        if not self.no_plots:
            plots.require()
        for name, path in (("markdown", self.markdown), ("html", self.html)):
            if path is not None:
                require_writable(name, path)
        if self.plots is not None:
            require_folder("plots", self.plots)


def _drawn(grouped: list[GroupTable], show: bool | None) -> dict[str, plots.Drawn]:
    drawings, wanted = {}, plots.every(grouped)
    with track("plots", len(wanted), show) as advance:
        for plot in wanted:
            drawings[plot.name] = plots.drawn(plot)
            advance(1, plot.name)
    return drawings


def summary(console: Console, table: GroupTable) -> None:
    """Print the models of a task, and the effect of low rank on them."""
    metric = table.metric
    console.print(Text(f"{table.group.title}: {metric.head}, {metric.better}", style="bold"))
    lines = screen.new_table(("model",), ("blocks", "paper", "ours", "µs per step", "ratio"))
    for (model, layers), cell in table.cells.items():
        printed = None if table.group.extra else paper.score(table.group.task, model, layers)
        step = cell.raw["step"]
        lines.add_row(
            cell.label,
            str(layers),
            str(printed or MISSING),
            numbers.score(cell.score, metric),
            numbers.microseconds(step),
            numbers.times(step["relative"] if step else None),
        )
    for part in screen.fitting(lines, console):
        console.print(part)
    notes = [sentence(comparison) for comparison in headline(comparisons(table))]
    if table.baselines:
        baselines = (f"{line.label} {numbers.score(line.score, metric)}" for line in table.baselines)
        notes.append(f"baselines: {', '.join(baselines)}")
    if table.others:
        notes.append(f"{len(table.others)} cells with other settings are in the report")
    for note in notes:
        console.print(screen.filled([note], console.width), style="dim")
    console.print()


def _address(plot: Path, page: Path) -> str:
    """The path of a plot, relative to a page."""
    return Path(os.path.relpath(plot.resolve(), page.resolve().parent)).as_posix()

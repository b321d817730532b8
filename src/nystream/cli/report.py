"""`nystream report`: the results of a folder as Markdown and one HTML page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich import box
from rich.console import Console
from rich.table import Table as Lines
from rich.text import Text
from tyro.conf import Positional, arg

from nystream import files
from nystream.cli import screen
from nystream.cli.folders import require_folder
from nystream.files import require_writable
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import html, markdown, numbers, plots, records
from nystream.lab.reproduce.report.compare import comparisons, headline
from nystream.lab.reproduce.report.document import MISSING
from nystream.lab.reproduce.report.grouping import GroupTable, tables
from nystream.lab.reproduce.report.sections import document, sentence
from nystream.progress import track


@dataclass
class Report:
    """Render results as tables and plots, the paper's numbers beside ours: Markdown, and one HTML page that needs no
    other file.

    Example:
        nystream report results --plots plots
    """

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")] = Path("results")
    """Where nystream reproduce wrote its records. Other JSON files in it are left alone."""
    markdown: Annotated[Path | None, arg(metavar="FILE")] = Path("report.md")
    """Write the Markdown here; None for none. It shows the plots if --plots puts them into a folder."""
    html: Annotated[Path | None, arg(metavar="FILE")] = Path("report.html")
    """Write the page here; None for none."""
    plots: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Write every plot into this folder, as PNG and SVG."""
    no_plots: bool = False
    """Tables only, which needs no matplotlib."""
    plain: bool = False
    """No colours and no progress bar, as in a pipe."""

    def run(self) -> None:
        found = records.read(self.folder)
        self.check()
        grouped = tables(found)
        pictures = {} if self.no_plots else _drawn(grouped, False if self.plain else None)
        page = document(found, figures=not self.no_plots)
        written: list[Path] = []
        if self.plots is not None:
            for picture in pictures.values():
                picture.write(self.plots)
            written.append(self.plots)
        if self.markdown is not None:
            images = {name: _address(self.plots / f"{name}.png", self.markdown) for name in pictures if self.plots}
            _write(self.markdown, markdown.render(page, images))
            written.append(self.markdown)
        if self.html is not None:
            _write(self.html, html.render(page, {name: one.inline() for name, one in pictures.items()}))
            written.append(self.html)
        console = screen.console(self.plain)
        for table in grouped:
            summary(console, table)
        for path in written:
            console.print(f"wrote {path}", style="dim", highlight=False, soft_wrap=True)

    def check(self) -> None:
        """Fail before anything is drawn."""
        if self.no_plots and self.plots is not None:
            raise ValueError(f"plots={self.plots} and no_plots exclude each other")
        if not self.no_plots:
            plots.require()
        for name, path in (("markdown", self.markdown), ("html", self.html)):
            if path is not None:
                require_writable(name, path)
        if self.plots is not None:
            require_folder("plots", self.plots)


def _drawn(grouped: list[GroupTable], show: bool | None) -> dict[str, plots.Drawn]:
    found, wanted = {}, plots.every(grouped)
    with track("plots", len(wanted), show) as advance:
        for plot in wanted:
            found[plot.name] = plots.drawn(plot)
            advance(1, plot.name)
    return found


def summary(console: Console, table: GroupTable) -> None:
    """A task in a few lines: the models that stream, and what low rank costs them."""
    metric = table.metric
    console.print(Text(f"{table.group.title}: {metric.head}, {metric.better}", style="bold"))
    lines = Lines(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    lines.add_column("model", style="bold", no_wrap=True)
    for name in ("blocks", "paper", "ours", "µs a step", "ratio"):
        lines.add_column(name, justify="right", no_wrap=True)
    for (model, layers), one in table.cells.items():
        printed = None if table.group.extra else paper.score(table.group.task, model, layers)
        step = one.raw["step"]
        lines.add_row(
            one.label,
            str(layers),
            str(printed or MISSING),
            numbers.score(one.score, metric),
            numbers.microseconds(step),
            numbers.times(step["relative"] if step else None),
        )
    for part in screen.fitting(lines, console):
        console.print(part)
    told = [sentence(one) for one in headline(comparisons(table))]
    if table.baselines:
        beside = (f"{one.label} {numbers.score(one.score, metric)}" for one in table.baselines)
        told.append(f"beside: {', '.join(beside)}")
    if table.others:
        told.append(f"{len(table.others)} cells with other settings are in the report")
    for line in told:
        console.print(screen.filled([line], console.width), style="dim")
    console.print()


def _address(plot: Path, page: Path) -> str:
    """Of a plot, as a page sees it."""
    return Path(os.path.relpath(plot.resolve(), page.resolve().parent)).as_posix()


def _write(path: Path, text: str) -> None:
    files.write_text(path, text)

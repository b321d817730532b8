"""What the demonstration leaves behind: one page that needs no network, with the table and plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nystream.bench.record import hardware
from nystream.demo.hours import Hour, Tally
from nystream.demo.models import EMBED_DIM, LANDMARKS, NUM_HEADS, WINDOW
from nystream.demo.summary import Line
from nystream.reproduce.report import html
from nystream.reproduce.report.document import (
    MISSING,
    Bullets,
    Column,
    Document,
    Figure,
    Grid,
    Paragraph,
    Row,
    Section,
    Sources,
)
from nystream.reproduce.report.plots import BLUE, GREY, INK, RED, Plot, drawn

SHOWN = 14 * 24  # hours of the plot
COLUMNS = ("mse (1e-3)", "mae", "operations a step", "µs a step", "memory of a stream")


def render(lines: Sequence[Line], tally: Tally, command: str) -> str:
    """The page, as text."""
    plots = [_forecast(tally.hours), _errors(tally), _costs(lines)]
    figures = tuple(Figure(plot.name, plot.alt, plot.caption) for plot in plots)
    machine = hardware()
    source = f"`{command}` on {machine['cores']} cores of {machine['cpu']}, torch {machine['torch']}"
    summary = (
        Paragraph(
            "The demand of 24 areas of the United States, forecast an hour ahead by Transformers that read one hour "
            "at a time. They learned from 2022 to 2024 and were then shown weeks that they had never seen."
        ),
        table(lines),
        Sources((source,)),
    )
    about = Bullets(
        (
            f"One block, n = {WINDOW} hours, d = {EMBED_DIM}, {NUM_HEADS} heads, m = {LANDMARKS} landmarks. Full "
            "attention has as many epochs in one phase as fixed landmarks have in two; the model with continual "
            "landmarks is their first phase.",
            "Full attention over a recomputed window and continual full attention have the same weights, and answer "
            "the same: what differs is what a step costs.",
            "Data: EIA-930 as cleaned by Ruggles et al., Scientific Data 7, 155, 2020, CC BY 4.0.",
        )
    )
    page = Document(
        "A stream of electricity",
        summary,
        (Section("The stream", "stream", figures[:2]), Section("What it costs", "costs", (figures[2], about))),
    )
    return html.render(page, {plot.name: drawn(plot).inline() for plot in plots})


def table(lines: Sequence[Line]) -> Grid:
    columns = (Column("model", number=False), *(Column(name) for name in COLUMNS))
    rows = tuple(Row((line.name, *cells(line)), starts=line.operations is None) for line in lines)
    note = (
        "mse, mae: on all held-out hours, in units of the deviation of the total. Operations are those of attention; "
        "µs those of the whole model, median, one thread."
    )
    return Grid("Error and cost of a step", columns, rows, (note,))


def cells(line: Line) -> tuple[str, ...]:
    """The numbers of a row, as they are printed."""
    found = [f"{1e3 * line.mse:.3f}", f"{line.mae:.4f}"]
    if line.operations is None or line.microseconds is None or line.bytes is None:
        return (*found, MISSING, MISSING, MISSING)
    return (*found, f"{line.operations:,.0f}", f"{line.microseconds:,.1f}", f"{line.bytes / 1e3:,.0f} kB")


def _forecast(hours: Sequence[Hour]) -> Plot:
    few = hours[-SHOWN:]

    def fill(figure: Any) -> None:
        from matplotlib.dates import ConciseDateFormatter

        figure.set_size_inches(7.2, 2.8)
        axis = figure.subplots()
        times = np.array([hour.time for hour in few], dtype="datetime64[m]").astype("datetime64[s]").astype(object)
        axis.plot(times, [hour.truth / 1e3 for hour in few], color=INK, linewidth=1.0, label="truth")
        axis.plot(times, [hour.forecast / 1e3 for hour in few], color=BLUE, linewidth=1.0, label="forecast")
        axis.set_ylabel("demand, GW")
        axis.grid()
        axis.legend(loc="upper left", ncols=2)
        short: Any = ConciseDateFormatter
        axis.xaxis.set_major_formatter(short(axis.xaxis.get_major_locator()))

    return Plot(
        "demo-forecast", "Forecast and truth", "The last two weeks of the stream, forecast an hour ahead.", fill
    )


def _errors(tally: Tally) -> Plot:
    def fill(figure: Any) -> None:
        figure.set_size_inches(7.2, 2.6)
        axis = figure.subplots()
        for guess, colour, name in (("before", GREY, "persistence"), ("forecast", BLUE, "fixed landmarks")):
            missed = [(getattr(hour, guess) - hour.truth) / tally.deviation for hour in tally.hours]
            mean = np.cumsum(np.square(missed)) / np.arange(1, len(missed) + 1)
            axis.plot(np.arange(len(mean)) / 168, mean, color=colour, label=name)
        axis.set_yscale("log")
        axis.set_xlabel("weeks")
        axis.set_ylabel("mse so far")
        axis.grid()
        axis.legend(loc="center right")

    caption = "The squared error so far, in units of the deviation of the total; persistence says that nothing changes."
    return Plot("demo-errors", "Error against time", caption, fill)


def _costs(lines: Sequence[Line]) -> Plot:
    models = [line for line in lines if line.microseconds is not None]

    def fill(figure: Any) -> None:
        figure.set_size_inches(7.2, 2.2)
        axis = figure.subplots()
        colours = [GREY, GREY, RED, BLUE]
        axis.barh([line.name for line in models], [line.microseconds for line in models], color=colours, height=0.6)
        for row, line in enumerate(models):
            axis.annotate(f" {line.microseconds:,.1f} µs", (line.microseconds, row), va="center")
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.margins(x=0.15)
        axis.set_xlabel("µs a step, whole model, one thread")

    return Plot(
        "demo-costs", "Time of a step", "The median time of a step of each model, side by side; log scale.", fill
    )

"""What the demonstration leaves behind: one page that needs no network, with the table and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nystream.lab.demo.hours import WEEK, Hour, Tally
from nystream.lab.demo.models import EMBED_DIM, LANDMARKS, NUM_HEADS, WINDOW
from nystream.lab.demo.summary import SummaryRow
from nystream.lab.reproduce.report import html
from nystream.lab.reproduce.report.document import (
    Bullets,
    Document,
    Figure,
    Grid,
    GridColumn,
    GridRow,
    Paragraph,
    Section,
    Sources,
)
from nystream.lab.reproduce.report.plots import GREY, INK, PAGE, Plot, drawn
from nystream.plotting import BLUE, RED
from nystream.provenance import hardware

SHOWN = 14 * 24  # hours of the plot
EVERY = 6  # hours between two marks of forecasts
COLUMNS = ("mse (1e-3)", "mean error, GW", "multiply-adds", "µs per step", "memory")
STYLE = Path(__file__).with_name("page.css")
BROAD, SLIM = 7.6, 4.4  # inches


def render(lines: Sequence[SummaryRow], tally: Tally, notes: tuple[str, ...], command: str) -> str:
    """The page, as text."""
    makers: list[Callable[[float], Plot]] = [
        lambda width: _forecast(tally.hours, width),
        lambda width: _errors(tally, width),
        lambda width: _costs(lines, width),
    ]
    pairs = [(make(BROAD), make(SLIM)) for make in makers]
    figures = tuple(Figure(broad.name, broad.alt, broad.caption) for broad, _ in pairs)
    machine = hardware()
    source = f"`{command}` on {machine['cores']} cores of {machine['cpu']}, torch {machine['torch']}"
    summary = (
        Paragraph(
            "The demand of 24 areas of the United States, forecast an hour ahead by Transformers that read one hour "
            "at a time. They learned from 2022 to 2024 and were then shown weeks that they had never seen."
        ),
        table(lines, notes),
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
    return html.render(page, {broad.name: _both(broad, slim) for broad, slim in pairs}, STYLE.read_text("utf-8"))


def table(lines: Sequence[SummaryRow], notes: tuple[str, ...]) -> Grid:
    columns = (GridColumn("model", number=False), *(GridColumn(name) for name in COLUMNS))
    rows = tuple(GridRow((line.name, *line.cells()), starts=not line.variant) for line in lines)
    return Grid("Error and cost of a step", columns, rows, notes)


def _both(broad: Plot, slim: Plot) -> str:
    """For a desk and for a phone; the style shows one of them."""
    slim = slim._replace(name=f"{slim.name}-slim")  # ids are its own
    return f'<div class="broad">{drawn(broad).inline()}</div><div class="slim">{drawn(slim).inline()}</div>'


def _forecast(hours: Sequence[Hour], width: float) -> Plot:
    few = hours[-SHOWN:]

    def fill(figure: Any) -> None:
        from matplotlib import dates

        figure.set_size_inches(width, 3.9)
        upper, lower = figure.subplots(2, sharex=True, height_ratios=(2, 1))
        times = np.array([hour.time for hour in few], dtype="datetime64[m]").astype("datetime64[s]").astype(object)
        upper.plot(times, [hour.truth / 1e3 for hour in few], color=INK, linewidth=1.0, label="truth")
        upper.plot(
            times[::EVERY], [hour.forecast / 1e3 for hour in few[::EVERY]], "o", color=BLUE, markersize=4.5,
            markerfacecolor=PAGE, markeredgewidth=1.1, label=f"forecast, every {EVERY} hours",
        )  # fmt: skip
        upper.set_ylabel("demand, GW")
        upper.margins(y=0.2)
        upper.legend(loc="upper left", ncols=2)
        lower.fill_between(times, [100 * hour.missed for hour in few], color=BLUE, linewidth=0, step="mid")
        lower.axhline(0, color=INK, linewidth=0.8)
        lower.set_ylabel("forecast\nminus truth, %")
        for axis in (upper, lower):
            axis.margins(x=0.01)
            axis.grid()
        figure.align_ylabels()
        ways: Any = dates
        where = ways.AutoDateLocator(minticks=5 if width == BROAD else 3, maxticks=9 if width == BROAD else 5)
        lower.xaxis.set_major_locator(where)
        lower.xaxis.set_major_formatter(ways.ConciseDateFormatter(where))

    return Plot(
        "demo-forecast",
        "Demand and its forecasts above, how far off they were below",
        f"The last {len(few) // 24} days of the stream. Above, what came and what had been forecast an hour before; "
        "below, the difference, as a share of demand.",
        fill,
    )


def _errors(tally: Tally, width: float) -> Plot:
    def fill(figure: Any) -> None:
        figure.set_size_inches(width, 2.4)
        axis = figure.subplots()
        for guess, colour, name in (("before", GREY, "persistence"), ("forecast", BLUE, "fixed landmarks")):
            missed = [abs(getattr(hour, guess) - hour.truth) / 1e3 for hour in tally.hours]
            mean = np.cumsum(missed) / np.arange(1, len(missed) + 1)
            axis.plot(np.arange(len(mean)) / WEEK, mean, color=colour)
            axis.annotate(name, (len(mean) / WEEK, mean[-1]), (0, 5), textcoords="offset points", ha="right",
                          color=colour)  # fmt: skip
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.margins(y=0.15)
        axis.set_xlabel("weeks")
        axis.set_ylabel("mean error so far, GW")
        axis.grid()

    caption = "The mean error so far; persistence says that nothing changes."
    return Plot("demo-errors", "Mean error so far against time", caption, fill)


def _costs(lines: Sequence[SummaryRow], width: float) -> Plot:
    times = {line.name: line.cost.microseconds for line in lines if line.cost is not None}

    def fill(figure: Any) -> None:
        figure.set_size_inches(width, 2.2)
        axis = figure.subplots()
        names = [name if width == BROAD else name.replace(", ", ",\n") for name in times]
        axis.barh(names, list(times.values()), color=[GREY, GREY, RED, BLUE], height=0.6)
        for row, microseconds in enumerate(times.values()):
            axis.annotate(f" {microseconds:,.1f} µs", (microseconds, row), va="center")
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.margins(x=0.2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("µs per step, whole model, one thread")

    return Plot(
        "demo-costs", "Time of a step", "The median time of a step of each model, side by side; log scale.", fill
    )

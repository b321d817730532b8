"""The report of the demo: one self-contained page with the table and plots."""

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
from nystream.lab.reproduce.report.plots import Plot, drawn
from nystream.lab.reproduce.report.style import GREY, INK, PAGE
from nystream.plotting import BLUE, RED
from nystream.provenance import hardware

SHOWN_HOURS = 14 * 24
MARK_HOURS = 6  # between two marks of forecasts
COLUMNS = ("mse (1e-3)", "mean error, GW", "multiply-adds", "µs per step", "memory")
STYLE = Path(__file__).with_name("page.css")
WIDE, NARROW = 7.6, 4.4  # inches


def render(lines: Sequence[SummaryRow], tally: Tally, notes: tuple[str, ...], command: str) -> str:
    """The page as HTML."""
    makers: list[Callable[[float], Plot]] = [
        lambda width: _forecast(tally.hours, width),
        lambda width: _errors(tally, width),
        lambda width: _costs(lines, width),
    ]
    pairs = [(make(WIDE), make(NARROW)) for make in makers]
    figures = tuple(Figure(wide.name, wide.alt, wide.caption) for wide, _ in pairs)
    machine = hardware()
    source = f"`{command}` on {machine['cores']} cores of {machine['cpu']}, torch {machine['torch']}"
    summary = (
        Paragraph(
            "Electricity demand of 24 areas of the United States, forecast an hour ahead by Transformers that read one "
            "hour at a time. They were trained on data from 2022 to 2024, and then followed weeks they had never seen."
        ),
        table(lines, notes),
        Sources((source,)),
    )
    about = Bullets(
        (
            f"One block, n = {WINDOW} hours, d = {EMBED_DIM}, {NUM_HEADS} heads, m = {LANDMARKS} landmarks. Full "
            "attention was trained for as many epochs in one phase as fixed landmarks in two; the model with continual "
            "landmarks is the result of the first phase.",
            "Full attention over a recomputed window and continual full attention have the same weights and the same "
            "forecasts; only the cost of a step differs.",
            "Data: EIA-930 as cleaned by Ruggles et al., Scientific Data 7, 155, 2020, CC BY 4.0.",
        )
    )
    page = Document(
        "Electricity demand as a stream",
        summary,
        (Section("The stream", "stream", figures[:2]), Section("Cost", "costs", (figures[2], about))),
    )
    return html.render(page, {wide.name: _both(wide, narrow) for wide, narrow in pairs}, STYLE.read_text("utf-8"))


def table(lines: Sequence[SummaryRow], notes: tuple[str, ...]) -> Grid:
    columns = (GridColumn("model", number=False), *(GridColumn(name) for name in COLUMNS))
    rows = tuple(GridRow((line.name, *line.cells()), starts=not line.variant) for line in lines)
    return Grid("Error and cost per step", columns, rows, notes)


def _both(wide: Plot, narrow: Plot) -> str:
    """A plot for a desktop and one for a phone; the style sheet shows one of them."""
    narrow = narrow._replace(name=f"{narrow.name}-slim")  # ids must be unique
    return f'<div class="broad">{drawn(wide).inline()}</div><div class="slim">{drawn(narrow).inline()}</div>'


def _forecast(hours: Sequence[Hour], width: float) -> Plot:
    shown = hours[-SHOWN_HOURS:]

    def fill(figure: Any) -> None:
        from matplotlib import dates

        figure.set_size_inches(width, 3.9)
        upper, lower = figure.subplots(2, sharex=True, height_ratios=(2, 1))
        times = np.array([hour.time for hour in shown], dtype="datetime64[m]").astype("datetime64[s]").astype(object)
        upper.plot(times, [hour.truth / 1e3 for hour in shown], color=INK, linewidth=1.0, label="truth")
        upper.plot(
            times[::MARK_HOURS], [hour.forecast / 1e3 for hour in shown[::MARK_HOURS]], "o", color=BLUE, markersize=4.5,
            markerfacecolor=PAGE, markeredgewidth=1.1, label=f"forecast, every {MARK_HOURS} hours",
        )  # fmt: skip
        upper.set_ylabel("demand, GW")
        upper.margins(y=0.2)
        upper.legend(loc="upper left", ncols=2)
        lower.fill_between(times, [100 * hour.missed for hour in shown], color=BLUE, linewidth=0, step="mid")
        lower.axhline(0, color=INK, linewidth=0.8)
        lower.set_ylabel("forecast\nminus truth, %")
        for axis in (upper, lower):
            axis.margins(x=0.01)
            axis.grid()
        figure.align_ylabels()
        untyped: Any = dates
        locator = untyped.AutoDateLocator(minticks=5 if width == WIDE else 3, maxticks=9 if width == WIDE else 5)
        lower.xaxis.set_major_locator(locator)
        lower.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))

    return Plot(
        "demo-forecast",
        "Demand and its forecasts above, their errors below",
        f"The last {len(shown) // 24} days of the stream. Above, demand and its forecasts of an hour before; below, "
        "the difference, in percent of demand.",
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

    caption = "The mean error so far; persistence forecasts no change."
    return Plot("demo-errors", "Mean error so far against time", caption, fill)


def _costs(lines: Sequence[SummaryRow], width: float) -> Plot:
    times = {line.name: line.cost.microseconds for line in lines if line.cost is not None}

    def fill(figure: Any) -> None:
        figure.set_size_inches(width, 2.2)
        axis = figure.subplots()
        names = [name if width == WIDE else name.replace(", ", ",\n") for name in times]
        axis.barh(names, list(times.values()), color=[GREY, GREY, RED, BLUE], height=0.6)
        for row, microseconds in enumerate(times.values()):
            axis.annotate(f" {microseconds:,.1f} µs", (microseconds, row), va="center")
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.margins(x=0.2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("µs per step, whole model, one thread")

    return Plot("demo-costs", "Time per step", "The median time per step of each model, on a log scale.", fill)

"""The stream on a terminal: forecast against truth as a moving chart, and what it costs; or a line a week in a log."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
from rich.console import Console, Group
from rich.filesize import decimal
from rich.live import Live
from rich.text import Text

from nystream.demo.chart import chart
from nystream.demo.hours import Hour, Stream, Tally
from nystream.demo.keys import pressed

FRAMES = 15  # a second
WEEK = 168
TRUTH, FORECAST = "white", "bold cyan"


def follow(stream: Stream, console: Console, seconds: float) -> Tally:
    """The whole stream on the screen, in about so many seconds; q ends it early."""
    tally = Tally(stream.problem.deviation)
    bounds = _bounds(stream)
    hours = iter(stream)
    began = time.monotonic()
    live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with pressed() as key, live as display:
        while len(tally.hours) < len(stream) and key() not in ("q", "Q", "\x1b"):
            due = min(len(stream), max(1, round(len(stream) * (time.monotonic() - began) / seconds)))
            for _ in range(due - len(tally.hours)):
                tally.add(next(hours))
            size = console.size
            display.update(frame(tally, stream, bounds, size.width, size.height), refresh=True)
            time.sleep(1 / FRAMES)
    return tally


def tell(stream: Stream, console: Console) -> Tally:
    """The whole stream as lines, one a week: for logs and pipes."""
    tally = Tally(stream.problem.deviation)
    for hour in stream:
        tally.add(hour)
        if len(tally.hours) % WEEK == 0 or len(tally.hours) == len(stream):
            when = np.datetime_as_string(hour.time, unit="h").replace("T", " ")
            console.print(
                f"{when}:00  forecast {hour.forecast / 1e3:6.1f} GW  truth {hour.truth / 1e3:6.1f} GW  "
                f"mse so far {1e3 * tally.mse:5.3f}e-3  {tally.microseconds:5.1f} µs a step",
                highlight=False,
                soft_wrap=True,
            )
    return tally


def frame(tally: Tally, stream: Stream, bounds: tuple[float, float], width: int, height: int) -> Group:
    """One picture, exactly as large as the terminal."""
    hours = tally.hours
    rows = max(height - 8, 3)
    shown = 2 * width
    lines = [([hour.truth / 1e3 for hour in hours[-shown:]], TRUTH), (forecasts(hours[-shown:]), FORECAST)]
    return Group(
        _cut(Text("Demand of 24 areas of the United States, forecast an hour ahead, live", style="bold"), width),
        _legend(width),
        *chart(lines, width, rows, *bounds),
        _times(hours, width),
        Text(),
        *(_cut(line, width) for line in _figures(tally, stream)),
        _cut(Text("q quits; the table comes at the end", style="dim"), width),
    )


def forecasts(hours: Iterable[Hour]) -> list[float]:
    return [hour.forecast / 1e3 for hour in hours]


def _legend(width: int) -> Text:
    return _cut(Text.assemble(("GW  ", "dim"), ("━ truth  ", TRUTH), ("━ forecast", FORECAST)), width)


def _figures(tally: Tally, stream: Stream) -> list[Text]:
    hour = tally.hours[-1]
    percent = 100 * len(tally.hours) / len(stream)
    now = f"{np.datetime_as_string(hour.time, unit='h').replace('T', ' ')}:00 UTC"
    return [
        Text.assemble(
            (f"{now}  ", "bold"),
            f"forecast {hour.forecast / 1e3:.1f} GW, truth {hour.truth / 1e3:.1f} GW  ",
            (f"{percent:.0f} %", "dim"),
        ),
        Text(
            f"error so far {100 * tally.share:.2f} % of demand; mse {1e3 * tally.mse:.3f}e-3, "
            f"persistence {1e3 * tally.persistence:.1f}e-3"
        ),
        Text(f"a step {tally.microseconds:.1f} µs (median), memory {decimal(stream.bytes_per_stream)}, for ever"),
    ]


def _times(hours: list[Hour], width: int) -> Text:
    """Days beneath the chart, at its two ends."""
    if not hours:
        return Text()
    first, last = (f"{np.datetime_as_string(hour.time, unit='D')}" for hour in (hours[-2 * width :][0], hours[-1]))
    return Text(f"{first:<{max(width - len(last), 1)}}{last}"[:width], style="dim")


def _bounds(stream: Stream) -> tuple[float, float]:
    """A scale that holds all of the stream, in gigawatts; it does not move while one looks."""
    known = stream.problem.last[stream.start : stream.start + len(stream), 0] / 1e3
    low, high = float(known.min()), float(known.max())
    margin = 0.05 * (high - low)
    return low - margin, high + margin


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text

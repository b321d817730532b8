"""The stream on a terminal: what came and what was forecast as a moving chart, how far off, and what a step costs."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console, Group
from rich.filesize import decimal
from rich.live import Live
from rich.text import Text

from nystream.lab.demo.chart import AXIS, Panel, round_up, ticks
from nystream.lab.demo.hours import DemandStream, Hour, Tally
from nystream.lab.demo.terminal import Keyboard

FRAMES = 17  # a second: of four weeks in twenty seconds, two hours a frame are one cell of the chart
FORECAST = "magenta"  # is seen on dark terminals and on light ones
EVERY = 6  # hours between two marks of past forecasts
AHEAD = 2  # columns of dots that the forecast of the next hour stands ahead of the truth
LEAST = 0.01  # largest error that the lower chart shows at first, as a share of demand
NOW, PAST = "●", "○"


def follow(stream: DemandStream, console: Console, seconds: float, keyboard: Keyboard) -> Tally:
    """The whole stream on the screen, in about so many seconds; q ends it early, the space bar holds it."""
    tally = Tally()
    bounds = _bounds(stream)
    hours = iter(stream)
    gone, last, held = 0.0, time.monotonic(), False
    live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with live as display:
        while len(tally.hours) < len(stream):
            keys = keyboard.pressed()
            if "q" in keys:
                break
            held ^= keys.count(" ") % 2 == 1
            now = time.monotonic()
            # A frame that took long, or a stop by Ctrl-Z, delays the stream: it makes no jumps.
            gone, last = gone + (0.0 if held else min(now - last, 3 / FRAMES)), now
            due = min(len(stream), max(2, round(len(stream) * gone / seconds)))
            for _ in range(due - len(tally.hours)):
                tally.add(next(hours))
            size = console.size
            leave = f"{keyboard.how_to_leave}{'; space goes on' if held else '; space holds it' if keyboard else ''}"
            display.update(frame(tally, stream, bounds, size.width, size.height, leave), refresh=True)
            time.sleep(1 / FRAMES)
    return tally


def frame(
    tally: Tally, stream: DemandStream, bounds: tuple[float, float], width: int, height: int, leave: str = "q quits"
) -> Group:
    """One picture, exactly as large as the terminal; what is said beside the charts gives way where it is low.

    The truth of the newest hour has not come yet: there is but its forecast.
    """
    above = [_title(width), _legend(width)]
    days = [_days(tally.hours, width, bounds)]
    below = [_now(tally.hours, width), _error(tally, width), _cost(tally, stream, width)]
    above = above[: (height >= 11) + (height >= 14)]
    days = days[: height >= 12]
    below = [*below[: (height >= 5) + (height >= 7) + (height >= 9)], _foot(tally, stream, leave, width)]
    charts = _charts(tally, bounds, width, height - len(above) - len(days) - len(below))
    return Group(*(_cut(row, width) for row in (*above, *charts, *days, *below)))


def _charts(tally: Tally, bounds: tuple[float, float], width: int, height: int) -> list[Text]:
    """The demand, and beneath it how far off the forecasts were, where there is room for both."""
    below = min(height * 4 // 11, 12) if height >= 8 else 0
    margin = _margin(bounds)
    inner = max(width - margin, 2)
    past, ahead = tally.hours[:-1], tally.hours[-1]
    upper = Panel(inner, max(height - below - (below > 0), 1), *bounds)
    newest = upper.columns - 1
    upper.line([hour.truth / 1e3 for hour in past], newest - AHEAD, "")
    for back, hour in enumerate(reversed(past[-upper.columns :])):
        if _hour_of_day(hour) % EVERY == 0:
            upper.mark(newest - AHEAD - back, hour.forecast / 1e3, PAST, FORECAST)
    upper.mark(newest, ahead.forecast / 1e3, NOW, f"bold {FORECAST}")
    labels = {value: f"{value:.0f}" for value in ticks(*bounds, most=max(upper.height // 2, 2))}
    rows = upper.rows(labels, margin)
    if not below:
        return rows
    scale = 100 * round_up(max(tally.widest, LEAST))
    lower = Panel(inner, below, -scale, scale)
    lower.bars([100 * hour.missed for hour in past], newest - AHEAD, 0.0, FORECAST)
    title = Text(f"{'%':>{margin - AXIS}} forecast minus truth, as a share of demand", style="dim")
    labels = {scale: f"+{scale:g}", 0.0: "0", -scale: f"-{scale:g}"} if below > 2 else {scale: f"±{scale:g}"}
    return [*rows, title, *lower.rows(labels, margin)]


def _title(width: int) -> Text:
    whole = "Demand of 24 areas of the United States, forecast an hour ahead"
    return _first(width, Text(whole, style="bold"), Text("US demand, forecast an hour ahead", style="bold"))


def _legend(width: int) -> Text:
    def said(past: str, now: str) -> Text:
        return Text.assemble(
            ("GW  ", "dim"), ("⠤⠒⠉", ""), " truth   ", (PAST, FORECAST), f" {past}   ", (NOW, FORECAST), f" {now}"
        )

    return _first(
        width, said(f"its forecast, every {EVERY} hours", "forecast of the next hour"), said("forecast", "next")
    )


def _now(hours: list[Hour], width: int) -> Text:
    came, ahead = hours[-2 if len(hours) > 1 else -1], hours[-1]
    when = np.datetime_as_string(came.time, unit="h").replace("T", " ") + ":00"
    truth, forecast = f"{came.truth / 1e3:.1f}", f"{came.forecast / 1e3:.1f}"
    missed, following = f"{100 * came.missed:+.1f} %", f"{ahead.forecast / 1e3:.1f}"
    return _first(
        width,
        Text.assemble((f"{when} UTC  ", "bold"), f"truth {truth} GW, forecast {forecast} ({missed}); next {following}"),
        Text.assemble((f"{when[5:]} ", "bold"), f"truth {truth}, forecast {forecast}"),
    )


def _error(tally: Tally, width: int) -> Text:
    share, error, still = f"{100 * tally.share:.2f} %", f"{tally.error / 1e3:.2f}", f"{tally.persistence / 1e3:.1f}"
    return _first(
        width,
        Text(f"mean error so far {error} GW, {share} of demand; persistence {still} GW"),
        Text(f"mean error {error} GW; persistence {still}"),
    )


def _cost(tally: Tally, stream: DemandStream, width: int) -> Text:
    step, memory = f"{tally.microseconds:.1f} µs", decimal(stream.bytes_per_stream)
    return _first(
        width,
        Text(f"a step takes {step} (median); memory {memory}, however long the stream runs"),
        Text(f"a step {step}, memory {memory}, fixed"),
    )


def _foot(tally: Tally, stream: DemandStream, leave: str, width: int) -> Text:
    done = f"{len(tally.hours):,} of {len(stream):,} hours"
    both = f"{leave}  {done:>{max(width - len(leave) - 2, 0)}}"
    return _first(width, Text(both, style="dim"), Text(leave, style="dim"))


def _days(hours: list[Hour], width: int, bounds: tuple[float, float]) -> Text:
    """Dates beneath the charts, each beginning where its day does."""
    margin = _margin(bounds)
    row = [" "] * width
    free = margin
    newest = 2 * (width - margin) - 1 - AHEAD
    for back, hour in reversed(list(enumerate(reversed(hours[-2 * width - 1 : -1])))):
        cell = margin + (newest - back) // 2
        label = "╵" + hour.time.astype("datetime64[D]").item().strftime("%d %b").lstrip("0")
        if _hour_of_day(hour) == 0 and cell >= free and cell + len(label) <= width:
            row[cell : cell + len(label)] = label
            free = cell + len(label) + 1
    return Text("".join(row), style="dim")


def _bounds(stream: DemandStream) -> tuple[float, float]:
    """A scale that holds all of the stream, in gigawatts; it does not move while one looks."""
    known = stream.problem.last[stream.start : stream.start + len(stream), 0] / 1e3
    return 10 * float(np.floor(known.min() / 10)), 10 * float(np.ceil(known.max() / 10))


def _margin(bounds: tuple[float, float]) -> int:
    return max(len(f"{max(bounds):.0f}"), len("+1.5")) + AXIS


def _hour_of_day(hour: Hour) -> int:
    return int(hour.time.astype("datetime64[h]").astype(int)) % 24


def _first(width: int, *texts: Text) -> Text:
    """The first that fits, or the last."""
    return next((text for text in texts if text.cell_len <= width), texts[-1])


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text

"""The stream on a terminal: a moving chart of truth, forecasts and errors, or one line per week in a log."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console, Group
from rich.filesize import decimal
from rich.live import Live
from rich.text import Text

from nystream.lab.demo.chart import AXIS, Panel, round_up, ticks
from nystream.lab.demo.hours import WEEK, DemandStream, Hour, Tally
from nystream.lab.demo.terminal import Keyboard

FRAMES_PER_SECOND = 17  # with four weeks in twenty seconds, a frame is two hours: one cell of the chart
FORECAST = "magenta"  # visible on dark and on light terminals
MARK_HOURS = 6  # between two marks of past forecasts
AHEAD = 2  # columns of dots between the truth and the forecast of the next hour
MIN_ERROR_SCALE = 0.01  # of the lower chart, relative to demand
NOW, PAST = "●", "○"
LOG_HEAD = "   week  until (UTC)          truth   forecast  mean error  µs per step   memory"


def follow(stream: DemandStream, console: Console, seconds: float, keyboard: Keyboard) -> Tally:
    """Show the stream on the screen in about `seconds`; q ends it, the space bar pauses it."""
    tally = Tally()
    bounds = _bounds(stream)
    hours = iter(stream)
    elapsed, last, paused = 0.0, time.monotonic(), False
    live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with live as display:
        while len(tally.hours) < len(stream):
            keys = keyboard.pressed()
            if "q" in keys:
                break
            paused ^= keys.count(" ") % 2 == 1
            now = time.monotonic()
            # A slow frame, or Ctrl-Z, delays the stream instead of making it jump.
            elapsed, last = elapsed + (0.0 if paused else min(now - last, 3 / FRAMES_PER_SECOND)), now
            due = min(len(stream), max(2, round(len(stream) * elapsed / seconds)))
            for _ in range(due - len(tally.hours)):
                tally.add(next(hours))
            size = console.size
            leave = f"{keyboard.how_to_leave}{'; space resumes' if paused else '; space pauses' if keyboard else ''}"
            display.update(frame(tally, stream, bounds, size.width, size.height, leave), refresh=True)
            time.sleep(1 / FRAMES_PER_SECOND)
    return tally


def frame(
    tally: Tally, stream: DemandStream, bounds: tuple[float, float], width: int, height: int, leave: str = "q quits"
) -> Group:
    """One frame, exactly as large as the terminal; with few rows, it has fewer lines of text.

    The truth of the newest hour is not known yet, only its forecast.
    """
    above = [_title(width), _legend(width)]
    days = [_days(tally.hours, width, bounds)]
    below = [_now(tally.hours, width), _error(tally, width), _cost(tally, stream, width)]
    above = above[: (height >= 11) + (height >= 14)]
    days = days[: height >= 12]
    below = [*below[: (height >= 5) + (height >= 7) + (height >= 9)], _foot(tally, stream, leave, width)]
    charts = _charts(tally, bounds, width, height - len(above) - len(days) - len(below))
    return Group(*(_cut(row, width) for row in (*above, *charts, *days, *below)))


def tell(stream: DemandStream, console: Console) -> Tally:
    """Print the stream as one line per week, none longer than 80 characters."""
    tally = Tally()
    memory = decimal(stream.bytes_per_stream)
    console.print(LOG_HEAD, highlight=False, soft_wrap=True)
    for hour in stream:
        tally.add(hour)
        done = len(tally.hours)
        if done % WEEK and done != len(stream):
            continue
        line = (
            f"{done / WEEK:>7.3g}  {_written(hour)}  {hour.truth / 1e3:5.1f} GW   {hour.forecast / 1e3:5.1f} GW"
            f"      {100 * tally.share:4.2f} %  {tally.microseconds:>11.1f}  {memory:>7}"
        )
        console.print(line, highlight=False, soft_wrap=True)
    return tally


def _written(hour: Hour) -> str:
    return np.datetime_as_string(hour.time, unit="h").replace("T", " ") + ":00"


def _charts(tally: Tally, bounds: tuple[float, float], width: int, height: int) -> list[Text]:
    """The demand, and below it the errors of the forecasts if there is room."""
    below = min(height * 4 // 11, 12) if height >= 8 else 0
    margin = _margin(bounds)
    inner = max(width - margin, 2)
    past, ahead = tally.hours[:-1], tally.hours[-1]
    upper = Panel(inner, max(height - below - (below > 0), 1), *bounds)
    newest = upper.columns - 1
    upper.line([hour.truth / 1e3 for hour in past], newest - AHEAD, "")
    for back, hour in enumerate(reversed(past[-upper.columns :])):
        if _hour_of_day(hour) % MARK_HOURS == 0:
            upper.mark(newest - AHEAD - back, hour.forecast / 1e3, PAST, FORECAST)
    upper.mark(newest, ahead.forecast / 1e3, NOW, f"bold {FORECAST}")
    labels = {value: f"{value:.0f}" for value in ticks(*bounds, max_ticks=max(upper.height // 2, 2))}
    rows = upper.rows(labels, margin)
    if not below:
        return rows
    scale = 100 * round_up(max(tally.widest, MIN_ERROR_SCALE))
    lower = Panel(inner, below, -scale, scale)
    lower.bars([100 * hour.missed for hour in past], newest - AHEAD, 0.0, FORECAST)
    title = Text(f"{'%':>{margin - AXIS}} forecast minus truth, in percent of demand", style="dim")
    labels = {scale: f"+{scale:g}", 0.0: "0", -scale: f"-{scale:g}"} if below > 2 else {scale: f"±{scale:g}"}
    return [*rows, title, *lower.rows(labels, margin)]


def _title(width: int) -> Text:
    whole = "Demand of 24 areas of the United States, forecast an hour ahead"
    return _first(width, Text(whole, style="bold"), Text("US demand, forecast an hour ahead", style="bold"))


def _legend(width: int) -> Text:
    def legend(past: str, now: str) -> Text:
        return Text.assemble(
            ("GW  ", "dim"), ("⠤⠒⠉", ""), " truth   ", (PAST, FORECAST), f" {past}   ", (NOW, FORECAST), f" {now}"
        )

    return _first(
        width,
        legend(f"its forecast, every {MARK_HOURS} hours", "forecast of the next hour"),
        legend("forecast", "next"),
    )


def _now(hours: list[Hour], width: int) -> Text:
    latest, ahead = hours[-2 if len(hours) > 1 else -1], hours[-1]
    when = _written(latest)
    truth, forecast = f"{latest.truth / 1e3:.1f}", f"{latest.forecast / 1e3:.1f}"
    missed, following = f"{100 * latest.missed:+.1f} %", f"{ahead.forecast / 1e3:.1f}"
    return _first(
        width,
        Text.assemble((f"{when} UTC  ", "bold"), f"truth {truth} GW, forecast {forecast} ({missed}); next {following}"),
        Text.assemble((f"{when[5:]} ", "bold"), f"truth {truth}, forecast {forecast}"),
    )


def _error(tally: Tally, width: int) -> Text:
    error, still = f"{tally.error / 1e3:.2f} GW", f"persistence {tally.persistence / 1e3:.1f}"
    return _first(
        width,
        Text(f"mean error so far {error}, {100 * tally.share:.2f} % of demand; {still} GW"),
        Text(f"mean error {error}; {still}"),
    )


def _cost(tally: Tally, stream: DemandStream, width: int) -> Text:
    step, memory = f"{tally.microseconds:.1f} µs", decimal(stream.bytes_per_stream)
    return _first(
        width,
        Text(f"a step takes {step} (median); memory {memory}, however long the stream"),
        Text(f"a step {step}, memory {memory}, fixed"),
    )


def _foot(tally: Tally, stream: DemandStream, leave: str, width: int) -> Text:
    done = f"{len(tally.hours):,} of {len(stream):,} hours"
    both = f"{leave}  {done:>{max(width - len(leave) - 2, 0)}}"
    return _first(width, Text(both, style="dim"), Text(leave, style="dim"))


def _days(hours: list[Hour], width: int, bounds: tuple[float, float]) -> Text:
    """Dates below the charts, each at the start of its day."""
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
    """A scale for the whole stream, in gigawatts, so that it stays the same."""
    known = stream.problem.last[stream.start : stream.start + len(stream), 0] / 1e3
    return 10 * float(np.floor(known.min() / 10)), 10 * float(np.ceil(known.max() / 10))


def _margin(bounds: tuple[float, float]) -> int:
    return max(len(f"{max(bounds):.0f}"), len("+1.5")) + AXIS


def _hour_of_day(hour: Hour) -> int:
    return int(hour.time.astype("datetime64[h]").astype(int)) % 24


def _first(width: int, *texts: Text) -> Text:
    """The first text that fits, or the last one."""
    return next((text for text in texts if text.cell_len <= width), texts[-1])


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text

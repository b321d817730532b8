"""The stream as lines, for logs and pipes: what came and what was forecast, how far off, and what a step costs."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.filesize import decimal

from nystream.lab.demo.hours import WEEK, DemandStream, Tally

HEAD = "   week  until (UTC)       truth   forecast  error so far    µs/step   memory"


def tell(stream: DemandStream, console: Console) -> Tally:
    """The whole stream, a line a week, none longer than 80 letters."""
    tally = Tally()
    memory = decimal(stream.bytes_per_stream)
    _say(console, HEAD)
    for hour in stream:
        tally.add(hour)
        done = len(tally.hours)
        if done % WEEK and done != len(stream):
            continue
        when = np.datetime_as_string(hour.time, unit="h").replace("T", " ")
        _say(
            console,
            f"{done / WEEK:>7.3g}  {when}:00  {hour.truth / 1e3:5.1f} GW   {hour.forecast / 1e3:5.1f} GW"
            f"        {100 * tally.share:4.2f} %  {tally.microseconds:>9.1f}  {memory:>7}",
        )
    return tally


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True)

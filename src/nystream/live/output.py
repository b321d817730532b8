"""Printing answers, one per line: JSON for programs, aligned text for people. Each line is flushed immediately."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import numpy as np

from nystream.data.forecast_values import middle
from nystream.data.table import counted, shortened
from nystream.live.answers import Answer, iso_time

if TYPE_CHECKING:
    from rich.text import Text

MAX_VALUES = 6  # on a line
MAX_CLASSES = 3  # on a line
VALUE_WIDTH = 10  # characters
# Fields of a line that mean something else than the series.
OTHER_FIELDS = {
    *("token", "file", "record", "time", "for", "ahead", "label", "labels", "forecast", "output", "probabilities"),
    *("units", "filled", "gap", "note", "microseconds", "self"),
}


class Printer(Protocol):
    def write(self, answer: Answer, record: int, file: str = "", series: str = "") -> None:
        """Print the answer to a token that belongs to item `record` of the source, or of one of its files."""
        ...


class JsonLines:
    """Prints one JSON object per line; `series` is the field for the name of a series."""

    def __init__(self, file: TextIO, latency: bool = False, series: str = "series") -> None:
        self._file, self._latency = file, latency
        self._series = "series" if series in OTHER_FIELDS else series
        ascii_only = not str(file.encoding).lower().startswith("utf")
        self._encode = json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=False).encode

    def write(self, answer: Answer, record: int, file: str = "", series: str = "") -> None:
        source = ({"file": file} if file else {}) | ({self._series: series} if series else {})
        line = answer.to_dict(**source, record=record)
        if self._latency:
            line["microseconds"] = round(answer.microseconds, 1)
        self._file.write(self._encode(line) + "\n")
        self._file.flush()


class HumanLines:
    """Prints aligned text, in colour on a terminal."""

    def __init__(self, file: TextIO, latency: bool = False) -> None:
        from rich.console import Console

        self._file, self._latency = file, latency
        # Without a terminal, lines are not cut to its width.
        self._console = Console(file=file, highlight=False) if file.isatty() else None
        if isinstance(file, io.TextIOWrapper) and not file.encoding.lower().startswith("utf"):
            file.reconfigure(errors="replace")

    def write(self, answer: Answer, record: int, file: str = "", series: str = "") -> None:
        text = format_line(answer, self._latency, "  ".join(filter(None, (file, series))))
        if self._console is None:
            self._file.write(text.plain + "\n")
        else:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        self._file.flush()


def format_line(answer: Answer, latency: bool = False, file: str = "") -> Text:
    """Format the number of a token, its file and time, the answer, what is wrong with it, and what was filled."""
    from rich.text import Text

    text = Text(f"{answer.token:>7}  ", style="")
    for part in (file, answer.time and _time_text(answer, answer.time)):
        text.append(f"{part}  " if part else "", style="dim")
    for place, (name, value, unit) in enumerate(_named_values(answer)):
        text.append(f"{name} ")
        text.append(f"{value:>{VALUE_WIDTH if answer.kind != 'probabilities' else 0}}", style="" if place else "bold")
        text.append(f" {unit}  " if unit else "  ")
    hidden = len(answer.values) - MAX_VALUES
    if answer.kind != "probabilities" and hidden > 0:
        text.append(f"and {hidden} more  ", style="dim")
    if times := answer.times_ahead:
        text.append(f"for {_ends([_time_text(answer, time) for time in times])}  ", style="dim")
    elif isinstance(answer.rows_ahead, tuple):
        text.append(f"{_ends(list(map(str, answer.rows_ahead)))} rows ahead  ", style="dim")
    elif answer.rows_ahead is not None:
        text.append(f"{counted(answer.rows_ahead, 'row')} ahead  ", style="dim")
    if latency:
        text.append(f"{answer.microseconds:,.1f} µs  ", style="dim")
    if answer.note:
        text.append(f"{answer.note}  ", style="red")
    if answer.gap:
        text.append("gap filled", style="yellow")
    elif answer.filled:
        text.append(f"filled: {shortened(answer.filled, MAX_VALUES)}", style="yellow")
    text.rstrip()
    return text


def _named_values(answer: Answer) -> list[tuple[str, str, str]]:
    """The name, value and unit of everything that is shown."""
    if answer.kind == "probabilities":
        if not answer.finite:
            return [("no class", "", "")]
        width = max(map(len, answer.names))
        likely = np.argsort(-answer.values, kind="stable")[:MAX_CLASSES]
        return [(f"{answer.names[i]:<{width}}", f"{answer.values[i]:.3f}", "") for i in likely]
    count = min(len(answer.values), MAX_VALUES)
    names = answer.names or ("",) * count
    units = answer.units if len(answer.units) > 1 else (answer.units or ("",)) * count
    several = isinstance(answer.rows_ahead, tuple)
    return [(names[i], _shown(answer.values[i], several, answer.quantiles), units[i]) for i in range(count)]


def _shown(values: Any, several: bool, quantiles: Sequence[float]) -> str:
    """A number; of several horizons, the first and the last; of quantiles, the median and the outer ones."""
    if several:
        return _ends([_shown(value, False, quantiles) for value in values])
    if not quantiles:
        return short(values)
    outer = f" ({short(values[0])} to {short(values[-1])})" if len(quantiles) > 1 else ""
    return f"{short(middle(values, quantiles))}{outer}"


def _ends(texts: Sequence[str]) -> str:
    """The first and the last of several texts."""
    return texts[0] if len(texts) == 1 else f"{texts[0]} … {texts[-1]}"


def short(value: Any) -> str:
    """Format a number with about five digits, without an exponent if possible."""
    size = abs(float(value))
    if 1e5 <= size < 1e15:
        return f"{value:,.0f}"
    return f"{value:.5g}"


def _time_text(answer: Answer, time: np.datetime64) -> str:
    return iso_time(time, answer.zoned, answer.timezone).replace("T", " ")

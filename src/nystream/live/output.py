"""Answers as lines: JSON for programs, aligned text for people. Each is flushed at once."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import numpy as np

from nystream.live.answers import Answer, clock

if TYPE_CHECKING:
    from rich.text import Text

SHOWN = 6  # values on a line
LIKELY = 3  # classes on a line
WIDE = 10  # characters of a value


class Printer(Protocol):
    def write(self, answer: Answer, record: int, file: str = "") -> None:
        """An answer to a token that came from item `record` of the source, or of a file of it."""
        ...


class JsonLines:
    """One JSON object a line."""

    def __init__(self, file: TextIO, latency: bool = False) -> None:
        self._file, self._latency = file, latency
        ascii_only = not str(file.encoding).lower().startswith("utf")
        self._encode = json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=False).encode

    def write(self, answer: Answer, record: int, file: str = "") -> None:
        line = answer.to_dict(**({"file": file} if file else {}), record=record)
        if self._latency:
            line["microseconds"] = round(answer.microseconds, 1)
        self._file.write(self._encode(line) + "\n")
        self._file.flush()


class HumanLines:
    """Aligned text; in colours where it is on a terminal."""

    def __init__(self, file: TextIO, latency: bool = False) -> None:
        from rich.console import Console

        self._file, self._latency = file, latency
        # Elsewhere a line is as long as it is: nothing cuts it.
        self._console = Console(file=file, highlight=False) if file.isatty() else None
        if isinstance(file, io.TextIOWrapper) and not file.encoding.lower().startswith("utf"):
            file.reconfigure(errors="replace")

    def write(self, answer: Answer, record: int, file: str = "") -> None:
        text = line_of(answer, self._latency, file)
        if self._console is None:
            self._file.write(text.plain + "\n")
        else:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        self._file.flush()


def line_of(answer: Answer, latency: bool = False, file: str = "") -> Text:
    """A token's number, its file and its time, what the model says, what is wrong with it, and what was filled."""
    from rich.text import Text

    text = Text(f"{answer.token:>7}  ", style="")
    for said in (file, answer.time and _spaced(answer.time, answer.zoned)):
        text.append(f"{said}  " if said else "", style="dim")
    for place, (name, value, unit) in enumerate(_said(answer)):
        text.append(f"{name} ")
        text.append(f"{value:>{WIDE if answer.kind != 'probabilities' else 0}}", style="" if place else "bold")
        text.append(f" {unit}  " if unit else "  ")
    hidden = len(answer.values) - SHOWN
    if answer.kind != "probabilities" and hidden > 0:
        text.append(f"and {hidden} more  ", style="dim")
    if answer.time_ahead is not None:
        text.append(f"for {_spaced(answer.time_ahead, answer.zoned)}  ", style="dim")
    elif answer.rows_ahead is not None:
        text.append(f"{answer.rows_ahead} {'row' if answer.rows_ahead == 1 else 'rows'} ahead  ", style="dim")
    if latency:
        text.append(f"{answer.microseconds:,.1f} µs  ", style="dim")
    if answer.note:
        text.append(f"{answer.note}  ", style="red")
    if answer.gap:
        text.append("gap filled", style="yellow")
    elif answer.filled:
        more = f" and {len(answer.filled) - SHOWN} more" if len(answer.filled) > SHOWN else ""
        text.append(f"filled: {', '.join(answer.filled[:SHOWN])}{more}", style="yellow")
    text.rstrip()
    return text


def _said(answer: Answer) -> list[tuple[str, str, str]]:
    """(name, value, unit) of what is shown."""
    if answer.kind == "probabilities":
        if not answer.finite:
            return [("no class", "", "")]
        wide = max(map(len, answer.names))
        likely = np.argsort(-answer.values, kind="stable")[:LIKELY]
        return [(f"{answer.names[i]:<{wide}}", f"{answer.values[i]:.3f}", "") for i in likely]
    count = min(len(answer.values), SHOWN)
    names = answer.names or ("",) * count
    units = answer.units if len(answer.units) > 1 else (answer.units or ("",)) * count
    return [(names[i], short(answer.values[i]), units[i]) for i in range(count)]


def short(value: Any) -> str:
    """Five digits or so, no exponent where it can be helped."""
    size = abs(float(value))
    if 1e5 <= size < 1e15:
        return f"{value:,.0f}"
    return f"{value:.5g}"


def _spaced(time: np.datetime64, zoned: bool) -> str:
    return clock(time, zoned).replace("T", " ")

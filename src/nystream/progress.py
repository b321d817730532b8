"""How far a long job is: a bar with the time left on a terminal, lines in the log elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

log = logging.getLogger("nystream")

QUIET = 10.0  # seconds between two lines in the log

Advance = Callable[..., None]  # advance(steps=1, note=None, left=None)

_live: ContextVar[Any] = ContextVar("live", default=None)  # the display that is on the terminal: there is but one


@contextmanager
def track(what: str, total: int | None, show: bool | None = None) -> Iterator[Advance]:
    """Report progress on `what`: call the given function after every step, or after several, with a note if any, and
    the seconds that are left where that is known better than from the time of the steps so far.

    `show`: True for a bar, False for none, None for a bar where standard error is a terminal. Without a bar, the
    "nystream" logger gets a line now and then, at level INFO. A job within a job has a bar beneath, while it lasts.
    """
    shown = sys.stderr.isatty() if show is None else show
    if not shown:
        yield _lines(what, total)
        return
    if (outer := _live.get()) is not None:
        task = outer.add_task(what, total=total, note="", left=None)
        try:
            yield _bar(outer, task)
        finally:
            outer.remove_task(task)
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
        from rich.table import Column
        from rich.text import Text
    except ModuleNotFoundError as error:
        if show is None:
            yield _lines(what, total)
            return
        raise ModuleNotFoundError("a progress bar needs rich: pip install 'nystream[train]'", name="rich") from error

    def whole() -> Column:
        return Column(no_wrap=True, min_width=6)

    class Left(TimeRemainingColumn):
        def render(self, task: Task) -> Text:
            known = task.fields["left"]
            if known is None or task.finished:
                return super().render(task)
            hours, seconds = divmod(round(known), 3600)
            clock = f"{hours}:" * (hours > 0) + f"{seconds // 60:02d}:{seconds % 60:02d}"
            return Text(clock, style="progress.remaining")

    columns = (
        TextColumn("{task.description}", table_column=whole()),
        BarColumn(bar_width=12),
        MofNCompleteColumn(table_column=whole()),
        Left(compact=True, table_column=whole()),
        # The note gives way where the terminal is narrow.
        TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    )
    # Estimates over many minutes: cells of a table come one in a while.
    # What is printed meanwhile goes above the bars if both are on the terminal; if not, it goes where it was to go.
    display = Progress(
        *columns,
        console=Console(stderr=True),
        expand=True,
        redirect_stdout=sys.stdout.isatty(),
        speed_estimate_period=3600,
    )
    with display as bar:
        held = _live.set(bar)
        try:
            yield _bar(bar, bar.add_task(what, total=total, note="", left=None))
        finally:
            _live.reset(held)


def _bar(display: Any, task: Any) -> Advance:
    def advance(steps: int = 1, note: str | None = None, left: float | None = None) -> None:
        fields = {name: value for name, value in (("note", note), ("left", left)) if value is not None}
        display.update(task, advance=steps, **fields)

    return advance


def _lines(what: str, total: int | None) -> Advance:
    done, began, last = 0, time.monotonic(), time.monotonic()

    def advance(steps: int = 1, note: str | None = None, left: float | None = None) -> None:
        nonlocal done, last
        done += steps
        now = time.monotonic()
        if now - last < QUIET and done != total:
            return
        last = now
        if left is None and total is not None:
            left = (now - began) / max(done, 1) * (total - done)
        ahead = "" if left is None else f", {left:.0f} s left"
        log.info("%s: %d of %s%s%s", what, done, "?" if total is None else total, ahead, f", {note}" if note else "")

    return advance

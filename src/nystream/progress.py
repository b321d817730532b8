"""Progress of long jobs: a bar with the remaining time on a terminal, lines in the log elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nystream import extras

log = logging.getLogger("nystream")

MIN_INTERVAL, MAX_INTERVAL = 10.0, 60.0  # seconds between two lines in the log: at first, and after hours
MIN_REPORTED = 2.0  # seconds: shorter jobs are not reported

Advance = Callable[..., None]  # advance(steps=1, note=None, left=None)

_live: ContextVar[Any] = ContextVar("live", default=None)  # the display on the terminal
_innermost: ContextVar[_Lines | None] = ContextVar("innermost", default=None)  # job that is reported in lines
_name: ContextVar[str] = ContextVar("name", default="")


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Prefix all jobs within the block with `name`, as in "fixed landmarks, training"; names can be nested."""
    outer = _name.get()
    token = _name.set(f"{outer}, {name}" if outer else name)
    try:
        yield
    finally:
        _name.reset(token)


@contextmanager
def logged_to_stderr() -> Iterator[None]:
    """Print the lines of jobs without a bar to standard error; for programs, not for a library."""
    handler, before = _Stderr(), log.level
    log.addHandler(handler)
    log.setLevel(min(before or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


class _Stderr(logging.Handler):
    """Writes to the current standard error, which a progress bar replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")
        sys.stderr.flush()


@contextmanager
def track(what: str, total: int | None, show: bool | None = None) -> Iterator[Advance]:
    """Report progress on `what`.

    Call the function that this yields after one or several steps, optionally with a note, and with the seconds left if
    these are not proportional to the remaining steps.

    `show`: True for a bar, False for none, None for a bar if standard error is a terminal. Without a bar, the
    "nystream" logger gets a line from time to time, at level INFO; `logged_to_stderr` prints them. A nested job has a
    second bar below, or lines that report both.
    """
    what = f"{_name.get()}, {what}" if _name.get() else what
    shown = sys.stderr.isatty() if show is None else show
    if not shown:
        with _lines(what, total) as advance:
            yield advance
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
            with _lines(what, total) as advance:
                yield advance
            return
        raise extras.missing("a progress bar", "rich") from error

    def whole() -> Column:
        return Column(no_wrap=True, min_width=6)

    class Count(MofNCompleteColumn):
        def render(self, task: Task) -> Text:
            # Without a total, print the count alone, not "5/?".
            return super().render(task) if task.total is not None else Text(f"{task.completed:,.0f}")

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
        Count(table_column=whole()),
        Left(compact=True, table_column=whole()),
        # On a narrow terminal, the note is cut.
        TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    )
    # Estimates over many minutes, because some jobs have few, long steps.
    # Printed lines go above the bars if both are on the terminal.
    display = Progress(
        *columns,
        console=Console(stderr=True),
        expand=True,
        redirect_stdout=sys.stdout.isatty(),
        speed_estimate_period=3600,
    )
    with display as bar:
        token = _live.set(bar)
        try:
            yield _bar(bar, bar.add_task(what, total=total, note="", left=None))
        finally:
            _live.reset(token)


def _bar(display: Any, task: Any) -> Advance:
    def advance(steps: int = 1, note: str | None = None, left: float | None = None) -> None:
        fields = {name: value for name, value in (("note", note), ("left", left)) if value is not None}
        display.update(task, advance=steps, **fields)

    return advance


@contextmanager
def _lines(what: str, total: int | None) -> Iterator[Advance]:
    job = _Lines(what, total, _innermost.get())
    token = _innermost.set(job)
    try:
        yield job.advance
        job.end()
    finally:
        _innermost.reset(token)


class _Lines:
    """A job that is reported in lines."""

    def __init__(self, what: str, total: int | None, outer: _Lines | None) -> None:
        self.what, self.total, self.outer = what, total, outer
        self.done, self.note, self.line = 0, "", ""
        self.left: float | None = None
        self.began = self.reported = time.monotonic()

    def advance(self, steps: int = 1, note: str | None = None, left: float | None = None) -> None:
        self.done += steps
        self.note, self.left = self.note if note is None else note, left
        now, first = time.monotonic(), self._outermost()
        # Nested jobs share the interval of the outermost one: there may be thousands.
        if now - first.reported >= min(max(MIN_INTERVAL, (now - first.began) / 12), MAX_INTERVAL):
            self._report(now)

    def end(self) -> None:
        """Report the end of a job that is not nested."""
        now = time.monotonic()
        if self.outer is None and now - self.began > MIN_REPORTED:
            self._report(now)

    def _report(self, now: float) -> None:
        left = self.left
        if left is None and self.total is not None:
            left = (now - self.began) / max(self.done, 1) * (self.total - self.done)
        ahead = f", {_words(left)} left" if left else ""
        line, first = f"{self._where()}{ahead}{f', {self.note}' if self.note else ''}", self._outermost()
        if line != first.line:
            log.info(line)
        first.reported, first.line = now, line

    def _where(self) -> str:
        count = f"{self.done:,.0f}" if self.total is None else f"{self.done:,.0f} of {self.total:,}"
        return f"{self.outer._where()}; {self.what}: {count}" if self.outer else f"{self.what}: {count}"

    def _outermost(self) -> _Lines:
        return self.outer._outermost() if self.outer else self


def _words(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

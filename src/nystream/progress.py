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

QUIET, SELDOM = 10.0, 60.0  # seconds between two lines in the log: at first, and of a job that takes hours
SHORT = 2.0  # a job that took no longer is not told of

Advance = Callable[..., None]  # advance(steps=1, note=None, left=None)

_live: ContextVar[Any] = ContextVar("live", default=None)  # the display that is on the terminal: there is but one
_told: ContextVar[_Lines | None] = ContextVar("told", default=None)  # the innermost job that is told of in lines
_name: ContextVar[str] = ContextVar("name", default="")


@contextmanager
def naming(name: str) -> Iterator[None]:
    """What is reported within is about `name`: "fixed landmarks, training"; names within names are put together."""
    outer = _name.get()
    held = _name.set(f"{outer}, {name}" if outer else name)
    try:
        yield
    finally:
        _name.reset(held)


@contextmanager
def spoken() -> Iterator[None]:
    """The lines of jobs without a bar go to standard error: for a program, which has a log of its own or none."""
    handler, before = _Stderr(), log.level
    log.addHandler(handler)
    log.setLevel(min(before or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


class _Stderr(logging.Handler):
    """To whatever standard error is at the time: a bar on the terminal takes its place."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")
        sys.stderr.flush()


@contextmanager
def track(what: str, total: int | None, show: bool | None = None) -> Iterator[Advance]:
    """Report progress on `what`: call the given function after every step, or after several, with a note if any, and
    the seconds that are left where that is known better than from the time of the steps so far.

    `show`: True for a bar, False for none, None for a bar where standard error is a terminal. Without a bar, the
    "nystream" logger gets a line now and then, at level INFO; `spoken` makes them visible. A job within a job has a bar
    beneath, while it lasts; in lines, it speaks for both.
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
        raise ModuleNotFoundError("a progress bar needs rich: pip install 'nystream[train]'", name="rich") from error

    def whole() -> Column:
        return Column(no_wrap=True, min_width=6)

    class Count(MofNCompleteColumn):
        def render(self, task: Task) -> Text:
            # A total that nobody knows is no question to ask the reader.
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


@contextmanager
def _lines(what: str, total: int | None) -> Iterator[Advance]:
    job = _Lines(what, total, _told.get())
    held = _told.set(job)
    try:
        yield job.advance
        job.end()
    finally:
        _told.reset(held)


class _Lines:
    """A job that is told of in lines: seldom enough to be read, often enough to be believed."""

    def __init__(self, what: str, total: int | None, outer: _Lines | None) -> None:
        self.what, self.total, self.outer = what, total, outer
        self.done, self.note, self.line = 0, "", ""
        self.left: float | None = None
        self.began = self.said = time.monotonic()

    def advance(self, steps: int = 1, note: str | None = None, left: float | None = None) -> None:
        self.done += steps
        self.note, self.left = self.note if note is None else note, left
        now, first = time.monotonic(), self._outermost()
        # Jobs within a job take turns with it: what each of a thousand says would bury the rest.
        if now - first.said >= min(max(QUIET, (now - first.began) / 12), SELDOM):
            self._say(now)

    def end(self) -> None:
        """A job that is within no other says what became of it."""
        now = time.monotonic()
        if self.outer is None and now - self.began > SHORT:
            self._say(now)

    def _say(self, now: float) -> None:
        left = self.left
        if left is None and self.total is not None:
            left = (now - self.began) / max(self.done, 1) * (self.total - self.done)
        ahead = f", {_words(left)} left" if left else ""
        line, first = f"{self._where()}{ahead}{f', {self.note}' if self.note else ''}", self._outermost()
        if line != first.line:
            log.info(line)
        first.said, first.line = now, line

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

"""From a source through a session to lines, one record after another, and now and then to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nystream.data.reader import RecordError
from nystream.live import saving
from nystream.live.interrupts import Interrupts
from nystream.live.output import Printer
from nystream.live.saving import Position
from nystream.live.session import Session
from nystream.live.sources import Feed, Item

OnError = Literal["skip", "fail"]

SECONDS = 1.0  # between two saves of a slow stream, at most so many tokens apart


@dataclass
class Count:
    """What became of the records."""

    taken: int = 0
    skipped: int = 0


def follow(
    session: Session,
    feed: Feed,
    printer: Printer,
    *,
    on_error: OnError = "skip",
    limit: int | None = None,
    keeper: Keeper | None = None,
    report: Callable[[str], object] = print,
) -> Count:
    """Take in record after record until the source ends, or `limit` records were taken.

    A record that cannot be read is reported and skipped, or ends the run with a ValueError; the session is as if it had
    not come. One that its reader leaves out, as it was asked to, is reported too. What was answered is written out
    before it is saved, so that after a kill nothing is missing from the output: the answers since the last save are
    given again.
    """
    count, unit = Count(), feed.source.unit
    with Interrupts() as interrupts, _kept(keeper, interrupts):
        for item in feed:
            with interrupts.held():
                try:
                    if not _take(session, item, printer) and not session.gathers:
                        report(f"{unit} {item.number} left out, as asked")
                    count.taken += 1
                except RecordError as error:
                    if on_error == "fail":
                        raise ValueError(f"{unit} {item.number}: {error}") from error
                    report(f"{unit} {item.number} skipped: {error}")
                    count.skipped += 1
                if keeper is not None:
                    keeper.settle(feed.position)
            if count.taken == limit:
                break
    return count


class Keeper:
    """Saves a session now and then: after `every` tokens, or a second, and at the end.

    Args:
        path: the file.
        session: what is saved.
        every: how many tokens may be lost by a kill.
        position: where the source is now.
    """

    def __init__(self, path: Path, session: Session, every: int, position: Position) -> None:
        self.path, self.session, self.every = path, session, every
        self._position, self._settled = position, session.tokens  # after the last record that was answered
        self._saved: tuple[Position, int] | None = None
        self._next, self._when = session.tokens + every, time.monotonic()

    def settle(self, position: Position) -> None:
        """A record was answered, or skipped, and the answer is out."""
        self._position, self._settled = position, self.session.tokens
        if self._settled >= self._next or time.monotonic() - self._when >= SECONDS:
            self.save()

    def save(self) -> None:
        """Write the session, unless it is written, or has gone on since the last answer that is out."""
        now = self._position, self._settled
        if now == self._saved or not self.session.whole or self.session.tokens != self._settled:
            return
        saving.save(self.path, self.session, self._position)
        self._saved = now
        self._next, self._when = self._settled + self.every, time.monotonic()


def _take(session: Session, item: Item, printer: Printer) -> int:
    """How many answers an item brought."""
    if item.error is not None:
        raise item.error
    answers = session.take(item.record)
    for answer in answers:
        printer.write(answer, item.number)
    return len(answers)


@contextmanager
def _kept(keeper: Keeper | None, interrupts: Interrupts) -> Iterator[None]:
    """Whatever ends the run, what was answered is saved."""
    try:
        yield
    finally:
        if keeper is not None:
            with interrupts.held():
                keeper.save()

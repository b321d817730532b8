"""From a source through a session to lines, one record after another, and now and then to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nystream.data.reader import RecordError
from nystream.interrupts import Interrupts
from nystream.live import saving
from nystream.live.answers import NOT_FINITE
from nystream.live.output import Printer
from nystream.live.reports import Reports
from nystream.live.saving import Position
from nystream.live.session import Session
from nystream.live.sources import Feed, Item

OnError = Literal["skip", "fail"]

# Whoever reads the answers must know what one that is not finite looks like.
ADVICE = "such answers are null, with a note (an input far beyond those of training, or weights that are not finite?)"
SECONDS = 1.0  # between two saves of a slow stream, at most so many tokens apart


@dataclass
class Count:
    """What became of the records."""

    taken: int = 0
    skipped: int = 0  # since they could not be read
    left: int = 0  # of those that were taken, how many were left out
    answers: int = 0
    not_finite: int = 0  # of the answers
    reasons: list[str] = field(default_factory=list)  # why records were skipped or left out, kind by kind


def follow(
    session: Session,
    feed: Feed,
    printer: Printer,
    *,
    on_error: OnError = "skip",
    limit: int | None = None,
    keeper: Keeper | None = None,
    report: Callable[[str], object] = print,
    count: Count | None = None,
) -> Count:
    """Take in record after record until the source ends, or `limit` records were taken.

    A record that cannot be read is reported and skipped, or ends the run with a ValueError; the session is as if it had
    not come. One that its reader leaves out is reported too, and so is the first answer that is not finite. A source
    whose every record would be refused ends the run at once. What was answered is written out before it is saved, so
    that after a kill nothing is missing from the output: the answers since the last save are given again.

    What became of the records is written into `count`, also where something ends the run before the source does.
    """
    count = Count() if count is None else count
    reports, unit, file, warned = Reports(report), feed.source.unit, None, False
    begun = feed.source.file  # where a session goes on
    with Interrupts() as interrupts, _summed_up(count, reports), _kept(keeper, interrupts):
        for item in feed:
            with interrupts.held():
                if item.file != file:
                    if item.file != begun:
                        session.restart()
                    _check(session, feed)
                    begun = file = item.file
                try:
                    answers = _take(session, item, printer, count)
                except RecordError as error:
                    if on_error == "fail":
                        raise ValueError(f"{_name(unit, item)}: {error}") from error
                    name = _name(unit, item)
                    reports.tell("skipped", f"{name} skipped: {error}", error.kind, f"{name}: {error}")
                    count.skipped += 1
                    feed.leave()
                else:
                    if session.note:
                        name, fate = _name(unit, item), "left out" if session.lost and not answers else ""
                        said = f"{name}{fate and f' {fate}'}: {session.note}"
                        reports.tell(fate, said, session.note_kind, f"{name}: {session.note}")
                    if count.not_finite and not warned:
                        report(f"{_name(unit, item)}: {NOT_FINITE}; {ADVICE}")
                        warned = True
                if keeper is not None:
                    keeper.settle(feed.position)
            if count.taken == limit:
                break
    return count


def _name(unit: str, item: Item) -> str:
    return f"{unit} {item.number} of {item.file}" if item.file else f"{unit} {item.number}"


def _check(session: Session, feed: Feed) -> None:
    """Refuse a source that the model cannot read, rather than its records one by one."""
    shape = feed.source.shape()
    if shape is not None:
        name = "standard input" if feed.source.name == "-" else feed.source.name
        try:
            session.reader.check(*shape)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


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
        self._last, self._when = session.tokens, time.monotonic()  # of the last save

    @property
    def saved_tokens(self) -> int:
        """How many tokens the session has had that the file holds."""
        return 0 if self._saved is None else self._saved[1]

    def settle(self, position: Position) -> None:
        """A record was answered, or skipped, and the answer is out."""
        self._position, self._settled = position, self.session.tokens
        # A new stream begins to count again.
        if abs(self._settled - self._last) >= self.every or time.monotonic() - self._when >= SECONDS:
            self.save()

    def save(self) -> None:
        """Write the session, unless it is written, or has gone on since the last answer that is out."""
        now = self._position, self._settled
        if now == self._saved or not self.session.whole or self.session.tokens != self._settled:
            return
        saving.save(self.path, self.session, self._position)
        self._saved = now
        self._last, self._when = self._settled, time.monotonic()


def _take(session: Session, item: Item, printer: Printer, count: Count) -> int:
    """Answer one item; how many answers it brought."""
    if item.error is not None:
        raise item.error
    answers = session.take(item.record)
    for answer in answers:
        printer.write(answer, item.number, item.file)
    count.taken += 1
    count.left += session.lost
    count.answers += len(answers)
    count.not_finite += sum(not answer.finite for answer in answers)
    return len(answers)


@contextmanager
def _summed_up(count: Count, reports: Reports) -> Iterator[None]:
    try:
        yield
    finally:
        count.reasons = reports.kinds("skipped") + reports.kinds("left out")


@contextmanager
def _kept(keeper: Keeper | None, interrupts: Interrupts) -> Iterator[None]:
    """Whatever ends the run, what was answered is saved."""
    try:
        yield
    finally:
        if keeper is not None:
            with interrupts.held():
                keeper.save()

"""Following a source: each record goes through a session, and its answers are printed."""

from __future__ import annotations

import time
from collections.abc import Callable
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

NOT_FINITE_HINT = "such answers are null, with a note (inputs far outside the training data, or weights not finite?)"
SAVE_SECONDS = 1.0  # between two saves of a slow stream
MAX_SAVING = 20  # times as long as a save takes: thousands of series are not saved every second
DROPPED, SKIPPED = "dropped", "skipped"


@dataclass
class Count:
    """What happened to the records."""

    taken: int = 0
    skipped: int = 0  # because they could not be read
    dropped: int = 0  # of those taken, the ones that were dropped
    answers: int = 0
    not_finite: int = 0  # of the answers
    reasons: list[str] = field(default_factory=list)  # why records were skipped or dropped, by kind


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
    """Take in records until the source ends, or `limit` records were taken.

    A record that cannot be read is reported and skipped, or raises ValueError; the session is unchanged. A record that
    the reader drops is reported too, and so is the first answer that is not finite. A source of which every record
    would be rejected raises at once. Answers are written before the session is saved, so that none is missing after a
    kill; those since the last save are repeated.

    `count` is updated as records come, so that it is valid even if an exception ends the run.
    """
    count = Count() if count is None else count
    reports, file, resumed_file, warned = Reports(report), None, feed.source.file, False
    with Interrupts() as interrupts:
        try:
            for item in feed:
                with interrupts.deferred():
                    if item.file != file:
                        if item.file != resumed_file:
                            session.restart()
                        _check(session, feed)
                        resumed_file = file = item.file
                    name = f"{feed.source.unit} {item.number}" + (f" of {item.file}" if item.file else "")
                    try:
                        _take(session, item, name, printer, count, reports)
                    except RecordError as error:
                        name += f", series {session.series!r}" if session.series else ""
                        if on_error == "fail":
                            raise ValueError(f"{name}: {error}") from error
                        reports.tell(SKIPPED, f"{name} skipped: {error}", error.kind, f"{name}: {error}")
                        count.skipped += 1
                        feed.leave()
                    if count.not_finite and not warned:
                        report(f"{name}: {NOT_FINITE}; {NOT_FINITE_HINT}")
                        warned = True
                    if keeper is not None:
                        keeper.settle(feed.position)
                if count.taken == limit:
                    break
        finally:
            count.reasons = reports.kinds(SKIPPED) + reports.kinds(DROPPED)
            if keeper is not None:
                with interrupts.deferred():
                    keeper.save()
    return count


def _check(session: Session, feed: Feed) -> None:
    """Raise if the model cannot read the source at all, instead of rejecting its records one by one."""
    shape = feed.source.shape()
    if shape is not None:
        name = "standard input" if feed.source.name == "-" else feed.source.name
        try:
            session.reader.check(*shape)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


class Keeper:
    """Saves a session regularly: after `every` tokens, after a second, and at the end.

    Args:
        path: The file.
        session: The session.
        every: The number of tokens that a kill may lose.
        position: The current position in the source.
    """

    def __init__(self, path: Path, session: Session, every: int, position: Position) -> None:
        self.path, self.session, self.every = path, session, every
        self._position, self._settled = position, session.tokens  # after the last record that was answered
        self._saved: tuple[Position, int] | None = None
        self._saved_at = session.tokens, time.monotonic()
        self._pause = SAVE_SECONDS

    @property
    def saved_tokens(self) -> int:
        """The number of tokens of the session in the file."""
        return 0 if self._saved is None else self._saved[1]

    def settle(self, position: Position) -> None:
        """Note that a record was skipped, or answered and the answer written; save if it is time to."""
        self._position, self._settled = position, self.session.tokens
        tokens, when = self._saved_at
        # The count of tokens restarts with a new stream.
        if abs(self._settled - tokens) >= self.every or time.monotonic() - when >= self._pause:
            self.save()

    def save(self) -> None:
        """Write the session, unless it is already saved, or has taken tokens whose answers are not written yet."""
        now = self._position, self._settled
        if now == self._saved or not self.session.whole or self.session.tokens != self._settled:
            return
        began = time.monotonic()
        saving.save(self.path, self.session, self._position)
        self._saved, self._saved_at = now, (self._settled, time.monotonic())
        self._pause = max(SAVE_SECONDS, MAX_SAVING * (time.monotonic() - began))


def _take(session: Session, item: Item, name: str, printer: Printer, count: Count, reports: Reports) -> None:
    """Answer one item."""
    if item.error is not None:
        raise item.error
    answers = session.take(item.record)
    for answer in answers:
        printer.write(answer, item.number, item.file, session.series)
    count.taken += 1
    count.dropped += session.lost
    count.answers += len(answers)
    count.not_finite += sum(not answer.finite for answer in answers)
    if session.note:
        fate = DROPPED if session.lost and not answers else ""
        message = f"{name} {fate}".rstrip() + f": {session.note}"
        reports.tell(fate, message, session.reader.note_kind, f"{name}: {session.note}")

"""One stream of a client: which records wait, which are on their way, and how it resumes. It sends nothing itself.

    ASKING --opened--> OPEN --close(), and all records are answered--> CLOSING --closed--> ENDED

A stream is ASKING at first, and again after a lost connection, after an error that asks for a pause, and after `open`.
An error that is not about a single record ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from enum import Enum, auto
from typing import Any

from nystream.serve.clients.frames import push_message, push_start
from nystream.serve.protocol import Message, pack

log = logging.getLogger(__name__)

Answers = list[dict[str, Any]]


class State(Enum):
    """What a stream of a client waits for."""

    ASKING = auto()  # the service is asked which number it expects: now, after a pause or with the next connection
    OPEN = auto()  # records are sent as long as there is room for them
    CLOSING = auto()  # the service is asked to delete it
    ENDED = auto()  # whoever waited was told; the next call with this key makes a new stream


class Pushed:
    """A packed record, and who waits for its answers."""

    def __init__(self, record: bytes) -> None:
        self.record = record
        self.answers: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()


class ClientStream:
    """A stream of a client.

    A record gets its number when it is first sent, so that one that was not sent can be withdrawn.

    Args:
        key: The key of the stream.
        window: The most records on their way at a time.

    Attributes:
        state: What it waits for.
        opened: Who waits for the number of the next record; done unless the stream is ASKING.
        closed: Who waits for its end; None until `close` is called.
        waiting: Records without a number, in the order of the calls.
        sent: Records on their way, by number.
        next: The number of the next record that is sent.
    """

    def __init__(self, key: str, window: int) -> None:
        self.key, self.state = key, State.ASKING
        self.opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] | None = None
        self.waiting: OrderedDict[Pushed, None] = OrderedDict()
        self.sent: dict[int, Pushed] = {}
        self.next = 1
        self._taken = 0  # the last number that the service is known to have taken
        self._window = self._room = window
        self._max_frame_bytes = 0  # not known yet
        self._push_start = push_start(key)

    def ask(self) -> bytes:
        """Send no record until the service has said which number it expects; return the message that asks."""
        self.state = State.ASKING
        if self.opened.done():
            self.opened = asyncio.get_running_loop().create_future()
        return pack({"type": "open", "key": self.key})

    def add(self, record: bytes) -> Pushed:
        """Let a packed record wait."""
        pushed = Pushed(record)
        self.waiting[pushed] = None
        return pushed

    def withdraw(self, pushed: Pushed) -> bool:
        """Forget a record that was not sent; return whether that is so.

        One that was sent keeps its number and its room until it is answered: the service may have taken it.
        """
        if pushed not in self.waiting:
            return False
        del self.waiting[pushed]
        return True

    def close(self) -> asyncio.Future[None]:
        """Close the stream after all records that were pushed; return who waits for that."""
        if self.closed is None:
            self.closed = asyncio.get_running_loop().create_future()
        return self.closed

    def resume(self, opened: Message) -> list[bytes]:
        """Return the messages that send again what was not answered, as the service expects it."""
        expected = opened["next"]
        self._room = min(self._window, opened["kept"])
        self._max_frame_bytes = opened["max_frame_bytes"]
        if expected <= self._taken:  # which happens only if its durability is not "log", or if it was deleted
            fields = {"key": self.key, "records": self._taken + 1 - expected}
            log.warning("the service lost records", extra={"fields": fields})
        self._taken = expected - 1
        # The service has answers to lower numbers. The others follow without a gap, also where one was refused.
        again = [pushed for number, pushed in self.sent.items() if number >= expected]
        self.sent = {number: pushed for number, pushed in self.sent.items() if number < expected}
        self.sent |= enumerate(again, expected)
        self.next = expected + len(again)
        self.state = State.OPEN
        if not self.opened.done():
            self.opened.set_result(self.next)
        return [push_message(self._push_start, number, pushed.record) for number, pushed in self.sent.items()]

    def due(self) -> list[bytes]:
        """Number the records for which there is room; return the messages that push them, or close the stream."""
        if self.state is not State.OPEN:
            return []
        messages = list[bytes]()
        while self.waiting and len(self.sent) < self._room:
            pushed, _ = self.waiting.popitem(last=False)
            message = push_message(self._push_start, self.next, pushed.record)
            if len(message) > self._max_frame_bytes:
                set_error(pushed.answers, self._too_large(len(message)))
                continue
            self.sent[self.next] = pushed
            self.next += 1
            messages.append(message)
        if self.closed is not None and not self.sent:
            self.state = State.CLOSING
            messages.append(pack({"type": "close", "key": self.key}))
        return messages

    def answer(self, number: int, outcome: Answers | Exception) -> None:
        """Tell who waits for a record that was taken what became of it."""
        self._taken = max(self._taken, number)
        self._finish(number, outcome)

    def refuse(self, number: int, error: Exception, expected: int) -> None:
        """Tell who waits for a record that it was not taken.

        Args:
            number: Its number.
            error: Why.
            expected: The number that the service expects now, if it has said so; otherwise 0.
        """
        self.next = max(self.next, expected)  # someone else has pushed to the stream
        self._finish(number, error)

    def end(self, error: Exception | None = None) -> None:
        """Tell everyone who waits of an error, or that the stream was closed: then only `close` does."""
        self.state = State.ENDED
        if error is None:
            self.close().set_result(None)
            return
        set_error(self.opened, error)
        set_error(self.close(), error)
        for pushed in (*self.sent.values(), *self.waiting):
            set_error(pushed.answers, error)
        self.sent.clear()
        self.waiting.clear()

    def _finish(self, number: int, outcome: Answers | Exception) -> None:
        pushed = self.sent.pop(number, None)
        if pushed is None or pushed.answers.done():  # nobody waits for it any more
            return
        if isinstance(outcome, Exception):
            set_error(pushed.answers, outcome)
        else:
            pushed.answers.set_result(outcome)

    def _too_large(self, size: int) -> ValueError:
        return ValueError(
            f"record of key {self.key!r} needs a frame of {size} bytes, but the service accepts "
            f"max_frame_bytes={self._max_frame_bytes}; push less at a time or start it with a larger --max-frame-bytes"
        )


def set_error(future: asyncio.Future[Any], error: Exception) -> None:
    """Raise an error where someone waits for a result."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # nobody may wait: that is not worth a warning

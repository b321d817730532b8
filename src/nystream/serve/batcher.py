"""The thread that runs the engine: requests wait in a bounded queue, and those that arrive together run together."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Literal, NamedTuple

from nystream.serve.engine import Engine, Reply
from nystream.serve.metrics import Metrics
from nystream.serve.protocol import Push, RequestError
from nystream.serve.residents import StreamName
from nystream.serve.settings import Settings
from nystream.serve.view.looking import looked
from nystream.serve.waiting import Waiting

SWEEP_SECONDS = 1.0  # between two searches for idle streams

log = logging.getLogger(__name__)

Kind = Literal["open", "push", "find", "list", "close", "look"]


class Request(NamedTuple):
    """What the engine is to do, and who gets the reply."""

    kind: Kind
    owner: str
    value: Any  # a Push; a key; for a list, the last key before it and its length; for a look, a Look
    done: Callable[[Reply], object]  # called in the event loop
    arrived: float

    @property
    def name(self) -> StreamName:
        """The stream that it is about; a list is about none."""
        return StreamName(self.owner, self.value.key if isinstance(self.value, Push) else self.value)


Observer = Callable[[Sequence[tuple[Request, Reply]]], object]


class Requests(ABC):
    """Takes in requests and replies to them, some time later, in the event loop.

    Attributes:
        observers: Called in the event loop with requests and their replies, once these are delivered. Empty unless
            someone looks.
    """

    def __init__(self) -> None:
        self.observers: set[Observer] = set()

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether requests are accepted."""

    @abstractmethod
    def start(self) -> None:
        """Begin; replies are delivered in the running event loop."""

    @abstractmethod
    def stop(self) -> None:
        """Run what waits. Later requests are refused."""

    @abstractmethod
    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests, in order: all of them or, with RequestError, none."""

    def deliver(self, replies: Sequence[tuple[Request, Reply]]) -> None:
        """Give replies to those who wait for them."""
        for request, reply in replies:
            request.done(reply)
        for observer in tuple(self.observers):
            observer(replies)

    async def ask(self, kind: Kind, owner: str, *values: Any) -> list[Reply]:
        """Queue one request for each value and return the replies; RequestError if they are not accepted."""
        return await self.ask_all([(kind, owner, value) for value in values])

    async def ask_all(self, asked: Sequence[tuple[Kind, str, Any]]) -> list[Reply]:
        """Queue requests of any kinds and owners, and return the replies; RequestError if they are not accepted."""
        loop, now = asyncio.get_running_loop(), time.perf_counter()
        futures: list[asyncio.Future[Reply]] = [loop.create_future() for _ in asked]
        self.submit([Request(*one, _resolver(future), now) for one, future in zip(asked, futures, strict=True)])
        return list(await asyncio.gather(*futures))


class Batcher(Requests):
    """A bounded queue of requests, and the thread that runs them.

    Args:
        engine: Runs batches of requests; only this thread uses it.
        settings: Those of the service.
        metrics: Counts batches and waiting times.
    """

    def __init__(self, engine: Engine, settings: Settings, metrics: Metrics) -> None:
        super().__init__()
        self._engine, self._settings, self._metrics = engine, settings, metrics
        self._queue: deque[Request] = deque()
        self._waiting = Waiting(engine)
        self._changed = threading.Condition()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="nystream-batcher", daemon=True)
        metrics.queue.set_function(self._count)

    @property
    def ready(self) -> bool:
        is_running = self._thread.is_alive() and not self._stopping
        return is_running and self._count() < self._settings.max_queue and not self._engine.residents.failures.of_store

    def _count(self) -> int:
        return len(self._queue) + len(self._waiting)

    @property
    def streams(self) -> int:
        """Number of streams in memory."""
        return len(self._engine.residents)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Run what waits, write out all streams and end the thread. Later requests are refused."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def submit(self, requests: Sequence[Request]) -> None:
        with self._changed:
            before = len(self._queue)
            require_room(len(requests), self._count(), self._settings.max_queue, self._stopping)
            self._queue.extend(requests)
            # The thread waits for the first request, or for a full batch: more wake-ups would only cost time.
            if not before or before < self._settings.max_batch <= len(self._queue):
                self._changed.notify()

    def _run(self) -> None:
        swept = time.monotonic()
        while (arrived := self._next_batch()) is not None:
            # Those that have waited come first, so that all requests to a stream stay in order.
            restored, refused = self._waiting.turn(self._settings.max_batch) if self._waiting else ([], [])
            batch = [*restored, *self._waiting.admit(arrived)]
            replies: list[tuple[Request, Reply]] = [*refused]
            for kind, group in groupby(batch, key=lambda request: request.kind):
                requests = list(group)
                replies += zip(requests, self._replies(kind, requests), strict=True)
            self._deliver(replies)
            self._quietly(self._engine.tidy, len(batch))
            if time.monotonic() - swept > SWEEP_SECONDS:
                self._quietly(self._engine.residents.evict_idle)
                swept = time.monotonic()
        self._quietly(self._engine.shut_down)

    def _next_batch(self) -> list[Request] | None:
        """Wait for requests, but not longer than a sweep: there may be none. None if the thread is to end."""
        most, wait = self._settings.max_batch, self._settings.max_wait_ms / 1000
        with self._changed:
            if not self._queue and not self._waiting and not self._stopping:
                self._changed.wait(SWEEP_SECONDS)
            if not self._queue:
                return None if self._stopping and not self._waiting else []
            if wait and not self._waiting and len(self._queue) < most and not self._stopping:
                left = self._queue[0].arrived + wait - time.perf_counter()
                if left > 0:
                    self._changed.wait_for(lambda: len(self._queue) >= most or self._stopping, left)
            return [self._queue.popleft() for _ in range(min(most, len(self._queue)))]

    def _replies(self, kind: Kind, requests: Sequence[Request]) -> Sequence[Reply]:
        engine = self._engine
        try:
            if kind == "push":
                self._metrics.batch_records.observe(len(requests))
                return engine.push([(request.owner, request.value) for request in requests])
            if kind == "open":
                return engine.open([StreamName(request.owner, request.value) for request in requests])
            if kind == "look":
                return [looked(engine, request.owner, request.value) for request in requests]
            if kind == "list":
                return [engine.streams(request.owner, *request.value) for request in requests]
            one = engine.find if kind == "find" else engine.close
            return [one(StreamName(request.owner, request.value)) for request in requests]
        except Exception:
            log.exception("requests failed", extra={"fields": {"kind": kind, "requests": len(requests)}})
            return [RequestError("failed", "the request could not be processed")] * len(requests)

    def _deliver(self, replies: Sequence[tuple[Request, Reply]]) -> None:
        self._metrics.count(replies)
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the replies
            self._loop.call_soon_threadsafe(self.deliver, replies)

    @staticmethod
    def _quietly(do: Callable[..., object], *arguments: Any) -> None:
        """Do what nobody waits for: an error is logged, and the thread goes on."""
        try:
            do(*arguments)
        except Exception:
            log.exception("background work failed")


def push_requests(owner: str, pushes: Sequence[Push], done: Callable[[Reply], object]) -> list[Request]:
    """Return the requests of records."""
    now = time.perf_counter()
    return [Request("push", owner, push, done, now) for push in pushes]


def require_room(more: int, waiting: int, most: int, is_stopping: bool) -> None:
    """Raise RequestError if so many more requests cannot wait."""
    if is_stopping:
        raise RequestError("shutting_down", "the service is shutting down; connect again", retry_after=1)
    if waiting + more > most:
        message = f"{waiting} requests wait, and {most} may; send {more} later"
        raise RequestError("overloaded", message, retry_after=0.1)


def _resolver(future: asyncio.Future[Reply]) -> Callable[[Reply], None]:
    def resolve(reply: Reply) -> None:
        if not future.done():  # the client may be gone
            future.set_result(reply)

    return resolve

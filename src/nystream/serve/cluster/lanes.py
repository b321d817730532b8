"""The requests of a gateway on their way to the replicas.

Streams are in lanes, and a lane is in one replica at a time. The gateway sends a lane's requests one batch after
another, so that the records of a stream stay in order. While a batch is on its way others wait, and form the next one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Any, NamedTuple

from nystream.serve.batcher import Kind, Request, Requests, require_room
from nystream.serve.engine import Reply, answer_kind
from nystream.serve.lanes import LANES, lane_of
from nystream.serve.metrics import Metrics
from nystream.serve.protocol import Message, Push, RequestError
from nystream.serve.settings import Settings
from nystream.serve.view.looking import Look

REPLY_SECONDS = 5.0  # after which a replica is taken for lost; the streams may have moved
RETRY_SECONDS = 0.2
LATELY_SECONDS = 30.0

log = logging.getLogger(__name__)

# What travels between gateways and replicas: requests without those who wait for the reply, and replies in which an
# error is a pair of its code and its fields.
Sent = tuple[Kind, str, Any]
Returned = Message | tuple[str, Message]


class Condition(NamedTuple):
    """A replica, as it was when it replied last."""

    process: str
    streams: int  # in its memory
    memory_bytes: int


class Lanes(Requests):
    """Sends requests to the replicas that have their streams.

    Args:
        send: Sends a batch of a lane to the replica that has it, and returns the replies and how the replica is.
        settings: Those of the service.
        metrics: Counts waiting times and refusals.
    """

    def __init__(
        self,
        send: Callable[[int, list[Sent]], Awaitable[tuple[list[Returned], Condition]]],
        settings: Settings,
        metrics: Metrics,
    ) -> None:
        super().__init__()
        self._send, self._settings, self._metrics = send, settings, metrics
        self._queues: list[deque[Request]] = [deque() for _ in range(LANES)]
        self._waiting = 0
        self._stopping = False
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by lane: those that send
        self._conditions: dict[str, tuple[float, Condition]] = {}  # of replicas, and when they replied
        metrics.queue.set_function(lambda: self._waiting)
        metrics.streams.set_function(lambda: sum(replica.streams for replica in self.replicas))

    @property
    def replicas(self) -> list[Condition]:
        """Those that replied lately."""
        before = time.monotonic() - LATELY_SECONDS
        return [condition for when, condition in self._conditions.values() if when > before]

    @property
    def ready(self) -> bool:
        return not self._stopping and self._waiting < self._settings.max_queue

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self._stopping = True

    def submit(self, requests: Sequence[Request]) -> None:
        require_room(len(requests), self._waiting, self._settings.max_queue, self._stopping)
        self._waiting += len(requests)
        for request in requests:
            lane = lane_of(request.owner, _key(request))
            self._queues[lane].append(request)
            if lane not in self._tasks:
                # Without the context of a client's request: Ray would give its id to all calls, and mix them up.
                self._tasks[lane] = asyncio.create_task(self._run(lane), context=Context())

    async def _run(self, lane: int) -> None:
        queue = self._queues[lane]
        try:
            while queue:
                batch = [queue.popleft() for _ in range(min(len(queue), self._settings.max_batch))]
                replies = list(zip(batch, await self._replies(lane, batch), strict=True))
                self._waiting -= len(batch)
                self._metrics.count(replies)
                for request, reply in replies:
                    if request.kind == "push" and isinstance(reply, dict):
                        self._metrics.records[answer_kind(reply)].inc()
                self.deliver(replies)
        finally:
            del self._tasks[lane]

    async def _replies(self, lane: int, batch: Sequence[Request]) -> list[Reply]:
        sent: list[Sent] = [(request.kind, request.owner, request.value) for request in batch]
        call = asyncio.ensure_future(self._send(lane, sent))
        try:
            # Not wait_for, which would wait on while the call is cancelled: some calls never end.
            if not (await asyncio.wait({call}, timeout=REPLY_SECONDS))[0]:
                call.cancel()
                raise TimeoutError(f"no reply within {REPLY_SECONDS:g} s")
            replies, condition = call.result()
            self._conditions[condition.process] = time.monotonic(), condition
            return [received(reply) for reply in replies]
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # a replica that has died, is being replaced, or does not answer
            log.warning("a replica gave no reply", extra={"fields": {"lane": lane, "error": repr(error)[:300]}})
            lost = RequestError(
                "moved", "the stream is moving to another machine; send it again", retry_after=RETRY_SECONDS
            )
            return [lost] * len(batch)


def returned(reply: Reply) -> Returned:
    """Return a reply as it travels."""
    return (reply.code, {"message": str(reply), **reply.details}) if isinstance(reply, RequestError) else reply


def received(reply: Returned) -> Reply:
    """Return a reply that has travelled."""
    if isinstance(reply, dict):
        return reply
    code, details = reply
    return RequestError(code, **details)


def _key(request: Request) -> str:
    if isinstance(request.value, Push | Look):
        return request.value.key
    return request.value if isinstance(request.value, str) else ""  # a list can come from any replica

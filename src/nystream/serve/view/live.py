"""The live feed of a page: the state of the service, the streams, and the answers of those that are watched.

It reads what the service has anyway, a few times a second. Nothing is done while nobody looks, except that counters are
read once a second. What a page does not take in time is left out; it never waits for the page.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, WebSocket

from nystream.serve.batcher import Request
from nystream.serve.engine import Reply
from nystream.serve.protocol import (
    MAX_KEY,
    Message,
    RequestError,
    checked_key,
    checked_message,
    encode,
    messages,
    unpack,
)
from nystream.serve.service import Front
from nystream.serve.view.looking import MAX_KEPT, Look
from nystream.serve.view.status import Status
from nystream.serve.view.summaries import Truths, brief
from nystream.serve.websocket import accepted, is_sent, until_one_ends

TICK_SECONDS = 0.25  # between two updates
STATUS_TICKS = 4  # updates until the state of the service and the list of streams are sent again
MAX_VIEWERS = 32
MAX_WATCHED = 8  # streams of one viewer
MAX_WAITING = MAX_KEPT  # results of one stream in an update: the last ones
TRY_LATER = 1013  # close code


def live_routes(service: Front, status: Status, truths: Truths) -> APIRouter:
    """Return the route of the feed."""
    router, viewers = APIRouter(), set[Viewer]()

    @router.websocket("/v1/live")
    async def live(socket: WebSocket) -> None:
        if (admitted := await accepted(socket, service)) is None:
            return
        if len(viewers) >= MAX_VIEWERS:
            await socket.close(TRY_LATER, f"{MAX_VIEWERS} pages look already")
            return
        viewer = Viewer(socket, admitted[0], service, status, truths)
        viewers.add(viewer)
        try:
            await viewer.run()
        finally:
            viewers.discard(viewer)

    return router


class Watched:
    """A stream that a viewer watches, and what it has not been sent yet."""

    def __init__(self) -> None:
        self.first = self.last = 0  # numbers of the first and last record since it is watched
        self.results: deque[Message] = deque(maxlen=MAX_WAITING)
        self.missed = 0  # results that were left out
        self.is_new = True  # the answers that the service keeps have not been sent

    def add(self, result: Message) -> None:
        """Note a result; one that was sent again is ignored."""
        if result["number"] > self.last:
            self.missed += len(self.results) == MAX_WAITING
            self.first = self.first or result["number"]
            self.last = result["number"]
            self.results.append(result)

    def add_kept(self, kept: Sequence[Message]) -> None:
        """Note the results before those that came since the stream is watched."""
        room = MAX_WAITING - len(self.results)
        before = [result for result in kept if not self.first or result["number"] < self.first]
        self.results.extendleft(reversed(before[-room:] if room else []))
        self.last = max([self.last, *(result["number"] for result in before)])
        self.is_new = False

    def taken(self, key: str) -> Message:
        """Return what is to be sent, which is then forgotten."""
        message = {"type": "answers", "key": key, "results": list(self.results), "missed": self.missed}
        self.results.clear()
        self.missed = 0
        return message


class Viewer:
    """One page that looks at a service.

    Args:
        socket: The accepted WebSocket.
        owner: Whose streams it may see.
        service: The service.
        status: Describes it.
        truths: Finds the truth in records.
    """

    def __init__(self, socket: WebSocket, owner: str, service: Front, status: Status, truths: Truths) -> None:
        self._socket, self._owner, self._service = socket, owner, service
        self._status, self._truths = status, truths
        self._watched: dict[str, Watched] = {}
        self._search = ""
        self._waiting: deque[Message] = deque(maxlen=MAX_WAITING)  # other messages
        self._is_asked = asyncio.Event()  # for an update before the next second

    async def run(self) -> None:
        """Send updates until the page leaves, or takes none."""
        observers = self._service.batcher.observers
        observers.add(self._observe)
        self._service.metrics.connections.inc()
        try:
            await until_one_ends(self._read(), self._write())
        finally:
            self._service.metrics.connections.dec()
            observers.discard(self._observe)

    async def _read(self) -> None:
        while True:
            frame = await self._socket.receive()
            if frame["type"] == "websocket.disconnect":
                return
            try:
                if frame.get("text") is None:
                    raise RequestError("bad_request", "frames of the live feed must be JSON text")
                for message in messages(frame["text"], "json"):
                    self._watch(checked_message(message))
            except RequestError as error:
                self._waiting.append({"type": "error", **error.to_dict()})

    def _watch(self, message: Message) -> None:
        if message["type"] != "watch":
            raise RequestError("bad_request", f'"type" is {message["type"]!r:.40}, but must be "watch"')
        keys, search = message.get("keys", []), message.get("search", "")
        if not isinstance(keys, list) or len(keys) > MAX_WATCHED:
            raise RequestError("bad_request", f'"keys" must be an array of at most {MAX_WATCHED} keys')
        if not isinstance(search, str) or len(search) > MAX_KEY or not (search.isprintable() or not search):
            raise RequestError("bad_request", f'"search" must be text of at most {MAX_KEY} printable characters')
        before, self._watched = self._watched, {}
        for key in map(checked_key, keys):
            self._watched[key] = before.get(key) or Watched()
        self._search = search
        self._is_asked.set()

    def _observe(self, replies: Sequence[tuple[Request, Reply]]) -> None:
        """Note the answers of watched streams among those of a batch."""
        if not self._watched:
            return
        for request, reply in replies:
            if request.owner != self._owner or isinstance(reply, RequestError):
                continue
            if request.kind == "push":
                if (watched := self._watched.get(request.value.key)) is not None:
                    watched.add(self._result(reply, request.value.record))
            elif request.kind == "close" and request.value in self._watched:
                self._watched[request.value] = Watched()
                self._waiting.append({"type": "closed", "key": request.value})

    def _result(self, reply: Message, record: Any) -> Message:
        """A result with the truth that its record has."""
        truth = self._truths(unpack(record) if isinstance(record, bytes) else record)
        return {**reply, "truth": truth} if truth else reply

    async def _write(self) -> None:
        tick = 0
        while True:
            is_due = tick % STATUS_TICKS == 0 or self._is_asked.is_set()
            if is_due:
                self._is_asked.clear()
            update = await self._update(is_due)
            frame = encode(update, "json") if update else ""
            if frame and not await is_sent(self._socket, frame, self._service.settings.send_seconds):
                return
            await asyncio.sleep(TICK_SECONDS)
            tick = 1 if is_due else tick + 1

    async def _update(self, is_due: bool) -> list[Message]:
        update = [*self._waiting]
        self._waiting.clear()
        if is_due:
            update.append({"type": "status", **self._status.now()})
            update.append(await self._streams())
        update += [watched.taken(key) for key, watched in self._watched.items() if watched.results]
        return update

    async def _streams(self) -> Message:
        """The list of streams; besides, the answers that are kept of streams that are newly watched."""
        owner, search, watched = self._owner, self._search, dict(self._watched)
        looks = [Look(search), *(Look(key=key, with_answers=stream.is_new) for key, stream in watched.items())]
        try:
            found, *of_watched = await self._service.batcher.ask("look", owner, *looks)
        except RequestError as error:  # it is overloaded, or shuts down
            found, of_watched = error, []
        if isinstance(found, RequestError):
            return {"type": "error", **found.to_dict()}
        rows = {stream["key"]: stream for stream in found["streams"]}
        for key, seen in zip(watched, of_watched, strict=True):
            if isinstance(seen, dict):
                rows[key] = seen["stream"]
                if watched[key].is_new:
                    watched[key].add_kept([self._result(unpack(answer), record) for answer, record in seen["kept"]])
        streams = [rows[key] for key in sorted(rows)]
        for stream in streams:
            stream["last"] = None if stream["last"] is None else brief(unpack(stream["last"]))
        return {"type": "streams", "search": search, **found, "streams": streams}

"""One WebSocket: many streams, any number of records on their way, and a bound on what waits to be sent."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from fastapi import Response, WebSocket, WebSocketDisconnect

from nystream.serve.batcher import Request, push_requests
from nystream.serve.engine import Reply
from nystream.serve.protocol import (
    SLOW_CLIENT,
    SUBPROTOCOLS,
    Encoding,
    Message,
    Push,
    RequestError,
    checked_key,
    checked_message,
    encode,
    messages,
    pushes,
)
from nystream.serve.service import Front

MAX_MESSAGES = 256  # in one frame to a client
POLICY_VIOLATION = 1008
TOO_LARGE = 1009

log = logging.getLogger(__name__)


async def accepted(socket: WebSocket, service: Front) -> tuple[str, Encoding | None] | None:
    """Accept a WebSocket; return whose streams it may use and the encoding it asked for, or None if it is refused."""
    try:
        owner = service.owner(socket.headers)
    except RequestError as error:
        service.metrics.refuse(error)
        await socket.close(POLICY_VIOLATION)  # before it is accepted: the client gets 403
        return None
    chosen = next((name for name in socket.scope.get("subprotocols", []) if name in SUBPROTOCOLS), None)
    await socket.accept(chosen)
    return owner, SUBPROTOCOLS[chosen] if chosen else None


async def until_one_ends(reading: Coroutine[Any, Any, None], writing: Coroutine[Any, Any, None]) -> None:
    """Run both sides of a connection until one of them ends, then end the other."""
    tasks = {asyncio.create_task(reading), asyncio.create_task(writing)}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if (error := task.exception()) is not None and not isinstance(error, WebSocketDisconnect):
                log.error("a connection failed", exc_info=error)
    finally:
        for task in tasks:
            task.cancel()


async def is_sent(socket: WebSocket, frame: str | bytes, seconds: float) -> bool:
    """Send a frame; if the client does not take it in time, close the connection."""
    send = socket.send_text(frame) if isinstance(frame, str) else socket.send_bytes(frame)
    try:
        await asyncio.wait_for(send, seconds or None)
    except TimeoutError:
        with suppress(Exception):
            await asyncio.wait_for(socket.close(SLOW_CLIENT, "answers were not taken"), 1)
        return False
    return True


async def misdirected_socket(socket: WebSocket) -> None:
    """Refuse a WebSocket at a path that there is not."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(Response("not found; the WebSocket is at /v1/stream", 404))
    else:  # the server can only say 403
        await socket.close(POLICY_VIOLATION)


class Connection:
    """Reads messages of one client and sends the replies.

    Args:
        socket: The accepted WebSocket.
        owner: Whose streams it may use.
        service: Runs the requests.
        encoding: That of the replies; None for that of the first frame.
    """

    def __init__(self, socket: WebSocket, owner: str, service: Front, encoding: Encoding | None = None) -> None:
        self._socket, self._owner, self._batcher = socket, owner, service.batcher
        self._settings, self._rates, self._metrics = service.settings, service.rates, service.metrics
        self._all_in_flight = service.in_flight
        self._encoding = encoding
        self._replies: deque[Message] = deque()
        self._in_flight = 0  # messages whose replies are not sent yet: bounds the replies that wait
        self._bytes = 0  # of those without a reply
        self._changed = asyncio.Event()  # a reply waits
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Serve the client until it leaves, or is closed because it takes no answers."""
        self._metrics.connections.inc()
        try:
            await until_one_ends(self._read(), self._write())
        finally:
            self._metrics.connections.dec()
            self._all_in_flight.replies -= self._in_flight

    async def _read(self) -> None:
        while True:
            frame = await self._socket.receive()
            if frame["type"] == "websocket.disconnect":
                return
            text = frame.get("text")
            data: str | bytes = frame["bytes"] if text is None else text
            encoding: Encoding = "msgpack" if text is None else "json"
            if len(data) > self._settings.max_frame_bytes:  # on Ray, whose server has a limit of its own
                await self._socket.close(TOO_LARGE, f"frames may have {self._settings.max_frame_bytes} bytes")
                return
            self._encoding = self._encoding or encoding
            try:
                found = messages(data, encoding)
            except RequestError as error:
                await self._wait_for_room(1)
                self._refuse(error, {})
                continue
            for message in found:
                await self._handle(message, len(data) // len(found))

    async def _handle(self, value: Any, size: int) -> None:
        """Submit a message that takes so many bytes, or refuse it."""
        try:
            message = checked_message(value)
            requests = self._requests(message, size)
        except RequestError as error:
            await self._wait_for_room(1)
            self._refuse(error, value if isinstance(value, dict) else {})
            return
        await self._wait_for_room(len(requests), size)
        size = size // len(requests) * len(requests)  # what the replies give back
        try:
            self._rates.take(self._owner, len(requests), "records" if message["type"] == "push" else "requests")
            self._all_in_flight.add(size)
        except RequestError as error:
            self._refuse(error, message)
            return
        try:
            self._batcher.submit(requests)
        except RequestError as error:
            self._all_in_flight.remove(size)
            self._refuse(error, message)
        else:
            self._bytes += size
            self._count(len(requests))

    async def _wait_for_room(self, count: int, size: int = 0) -> None:
        """Read no more while the client does not take its answers, or has sent as many bytes as a frame may have."""
        most, most_bytes = self._settings.max_in_flight, self._settings.max_frame_bytes
        while self._in_flight and (self._in_flight + count > most or self._bytes + size > most_bytes):
            self._room.clear()
            await self._room.wait()

    def _requests(self, message: Message, size: int) -> list[Request]:
        kind, key = message["type"], checked_key(message.get("key"))
        if kind == "push":
            found = pushes(key, message)
            if len(found) > self._settings.max_in_flight:
                most = self._settings.max_in_flight
                raise RequestError("bad_request", f"{len(found)} records in one message, but at most {most} may be")
            share = size // len(found)
            return [
                request for push in found for request in push_requests(self._owner, [push], self._answer(push, share))
            ]
        if kind in ("open", "close"):
            return [Request(kind, self._owner, key, self._reply(kind, key, size), 0.0)]
        raise RequestError("bad_request", f'"type" is {kind!r:.40}, but must be "open", "push" or "close"')

    def _answer(self, push: Push, size: int) -> Any:
        def done(reply: Reply) -> None:
            self._give_back(size)
            if isinstance(reply, RequestError):
                number = {} if push.number is None else {"number": push.number}
                self._queue_error(reply, {"key": push.key, **number})
            else:
                self._queue({"type": "answer", "key": push.key, **reply})

        return done

    def _reply(self, kind: str, key: str, size: int) -> Any:
        def done(reply: Reply) -> None:
            self._give_back(size)
            if isinstance(reply, RequestError):
                self._queue_error(reply, {"key": key})
            else:
                self._queue({"type": "opened" if kind == "open" else "closed", **reply})

        return done

    def _refuse(self, error: RequestError, message: Message) -> None:
        """Reply to a message that was not submitted."""
        self._count(1)
        about = {name: message[name] for name in ("key", "number") if isinstance(message.get(name), str | int)}
        self._queue_error(error, about)

    def _give_back(self, size: int) -> None:
        self._bytes -= size
        self._all_in_flight.remove(size)

    def _count(self, messages: int) -> None:
        self._in_flight += messages
        self._all_in_flight.replies += messages

    def _queue_error(self, error: RequestError, about: Message) -> None:
        self._metrics.refuse(error)
        self._queue({"type": "error", **about, **error.to_dict()})

    def _queue(self, reply: Message) -> None:
        self._replies.append(reply)
        self._changed.set()

    async def _write(self) -> None:
        while True:
            await self._changed.wait()
            count = min(len(self._replies), MAX_MESSAGES)
            replies = [self._replies.popleft() for _ in range(count)]
            if not self._replies:
                self._changed.clear()
            frame = encode(replies[0] if count == 1 else replies, self._encoding or "json")
            if not await is_sent(self._socket, frame, self._settings.send_seconds):
                log.warning("a client takes no answers", extra={"fields": {"waiting": self._in_flight}})
                return
            self._count(-count)
            self._room.set()

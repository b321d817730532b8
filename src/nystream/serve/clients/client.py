"""The asynchronous client of a service: it reconnects, resumes its streams and sends again what was not answered."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Self, TypeVar

from nystream.config.checks import positive_int
from nystream.data.reader import RecordError
from nystream.extras import require
from nystream.serve.clients.frames import frames, packed_record
from nystream.serve.clients.stream import Answers, ClientStream, State
from nystream.serve.protocol import RETRIED, STATUS, Message, RequestError, checked_key, decode

SUBPROTOCOL = "nystream.v1.msgpack"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds before connecting again; each time twice as long
MAX_FRAME = 1 << 24  # bytes of answers
FIRST_FRAME = 1 << 10  # bytes sent in a frame until the service has said what it accepts: the longest key fits
MESSAGE_TOO_BIG = 1009  # close code
CLOSED = "the client was closed; create another one"

log = logging.getLogger(__name__)

T = TypeVar("T")


class AsyncClient:
    """Pushes records of any number of streams to a service and returns their answers.

    If the connection is lost, it connects again and resumes every stream with the number that the service expects:
    records without an answer are sent again, which applies them once.

    Args:
        url: The address of the service, such as `ws://localhost:8000`.
        token: The bearer token, if the service needs one.
        window: The most records of a stream on their way at a time; at most as many as the service keeps answers.
        retry: Whether to connect again; otherwise a lost connection is a ConnectionError.
        timeout: Seconds to wait for an answer, reconnecting included, before a TimeoutError that says why; None for no
            limit.
        options: More options of `websockets.connect`, such as `ssl`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        window: int = 32,
        retry: bool = True,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        positive_int("window", window)
        self._url = url.rstrip("/") + "/v1/stream"
        self._options = {"subprotocols": [SUBPROTOCOL], "max_size": MAX_FRAME, "compression": None, **options}
        if token is not None:
            self._options["additional_headers"] = {"Authorization": f"Bearer {token}"}
        self._window, self._retry, self._timeout = window, retry, timeout
        self._streams: dict[str, ClientStream] = {}
        self._task: asyncio.Task[None] | None = None
        self._connected = self._closed = False
        self._trouble = ""  # why there is no connection, until the next reply
        self._pause = FIRST_PAUSE
        self._max_frame_bytes = FIRST_FRAME
        self._outgoing: list[bytes] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def open(self, key: str) -> int:
        """Open a stream or resume it, and return the number of its next record, which the service is asked for."""
        stream = self._stream(key)
        if stream.state is State.OPEN:
            self._send([stream.ask()])
        return await self._within_timeout(asyncio.shield(stream.opened))

    async def push(self, key: str, record: Any) -> Answers:
        """Push a record and return the answers to its tokens, as `nystream stream --json` prints them.

        Raises RecordError if the record cannot be read; the stream is then unchanged. If the call is cancelled or times
        out, a record that was not sent yet is withdrawn. One that was sent is still taken, once: do not push it again.
        """
        packed = packed_record(record)
        stream = self._stream(key)
        pushed = stream.add(packed)
        self._send(stream.due())
        try:
            return await self._within_timeout(pushed.answers)
        except asyncio.CancelledError:
            stream.withdraw(pushed)
            raise
        except TimeoutError as error:
            unsent = stream.withdraw(pushed)
            fate = "not sent and is withdrawn" if unsent else "sent and may still be taken: do not push it again"
            raise TimeoutError(f"{error}; the record was {fate}") from None

    async def push_many(self, keys: Sequence[str], records: Sequence[Any]) -> list[Answers | RecordError]:
        """Push one record of each key, and return the answers or a RecordError for each, in order.

        A key may come several times: its records are taken in order.
        """
        if len(keys) != len(records):
            raise ValueError(f"keys has {len(keys)} keys, but there are {len(records)} records; each needs a key")
        pushes = [self.push(key, record) for key, record in zip(keys, records, strict=True)]
        results = await asyncio.gather(*pushes, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, RecordError):
                raise result
        return [
            result for result in results if not isinstance(result, BaseException) or isinstance(result, RecordError)
        ]

    async def close(self, key: str) -> None:
        """End a stream, after the records that were pushed before, and delete it from the service."""
        stream = self._stream(key, closing=True)
        closed = stream.close()
        self._send(stream.due())
        await self._within_timeout(asyncio.shield(closed))

    async def aclose(self) -> None:
        """Close the connection; the streams stay on the service and can be resumed with another client."""
        self._closed = True
        self._end_all(ConnectionError(CLOSED))
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _within_timeout(self, reply: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await reply
        except TimeoutError:
            link = f"connected to {self._url}" if self._connected else f"no connection to {self._trouble or self._url}"
            raise TimeoutError(f"no answer within timeout={self._timeout} seconds; {link}") from None

    def _stream(self, key: str, closing: bool = False) -> ClientStream:
        if self._closed:
            raise ConnectionError(CLOSED)
        stream = self._streams.get(key)
        if stream is None:
            try:
                checked_key(key)
            except RequestError as error:
                raise ValueError(str(error)) from None
            stream = self._streams[key] = ClientStream(key, self._window)
            self._send([stream.ask()])
        elif stream.closed is not None and not closing:
            raise ValueError(f"key={key!r} is being closed; wait for close() before it is used again")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return stream

    def _send(self, messages: Iterable[bytes]) -> None:
        """Send messages with others of the same turn of the event loop.

        Without a connection they are dropped: with the next one, every stream asks first.
        """
        if self._connected:
            self._outgoing += messages
            self._changed.set()

    async def _run(self) -> None:
        """Keep a connection until an error that another attempt would not change; everyone is told of it."""
        try:
            while True:
                await self._connect()
                await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))  # clients do not come all at once
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
        except Exception as error:
            self._end_all(error)

    async def _connect(self) -> None:
        """Talk to the service until the connection is lost; raise if it makes no sense to connect again."""
        websockets = require("the client", "websockets")
        try:
            async with websockets.connect(self._url, **self._options) as socket:
                await self._talk(socket)
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            trouble = f"{self._url}: {str(error) or type(error).__name__}"
            status = getattr(getattr(error, "response", None), "status_code", 0)
            if status in (401, 403):
                raise PermissionError(f"{self._url} refused the connection: {error}") from error
            final = isinstance(error, ssl.SSLCertVerificationError | websockets.InvalidURI) or 400 <= status < 500
            if isinstance(error, websockets.ConnectionClosed):  # a frame that is too large would be so again
                final = MESSAGE_TOO_BIG in {close.code for close in (error.rcvd, error.sent) if close is not None}
            if final or not self._retry:
                raise ConnectionError(f"no connection to {trouble}") from error
            if trouble != self._trouble:
                log.warning("no connection to %s; trying again", trouble)
            self._trouble = trouble

    async def _talk(self, socket: Any) -> None:
        self._connected, self._max_frame_bytes = True, FIRST_FRAME
        self._send([stream.ask() for stream in self._streams.values()])
        tasks = [asyncio.create_task(self._read(socket)), asyncio.create_task(self._write(socket))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._connected = False
            self._outgoing.clear()
            for stream in self._streams.values():
                stream.ask()
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _read(self, socket: Any) -> None:
        while True:
            frame = await socket.recv()
            messages = decode(frame, "json" if isinstance(frame, str) else "msgpack")
            for message in messages if isinstance(messages, list) else [messages]:
                self._receive(message)

    async def _write(self, socket: Any) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(0)  # what others send in this turn goes into the same frame
            messages, self._outgoing = self._outgoing, []
            for frame in frames(messages, self._max_frame_bytes):
                await socket.send(frame)

    def _receive(self, message: Message) -> None:
        self._trouble = ""
        self._pause = FIRST_PAUSE
        kind, key = message["type"], message.get("key")
        if key is None:  # the service cannot say which stream it is about, so that all have to know
            raise ValueError(f"{self._url} did not understand a frame: {message.get('message')}")
        stream = self._streams.get(key)
        if stream is None:  # it has ended
            return
        if kind == "opened":
            self._max_frame_bytes = message["max_frame_bytes"]
            self._send(stream.resume(message))
        elif kind == "closed":
            self._end(stream)
        elif kind == "answer":
            error = message.get("error")
            stream.answer(message["number"], message["answers"] if error is None else RecordError(error["message"]))
        elif kind == "error":
            self._error(stream, message)
        self._send(stream.due())

    def _error(self, stream: ClientStream, message: Message) -> None:
        code, number = message["code"], message.get("number")
        if number is not None and number not in stream.sent:  # a record of a stream with this key that has ended
            return
        if code in RETRIED:
            if number is None or stream.state is State.OPEN:  # once for all records on their way
                stream.ask()
                self._ask_later(stream, 0 if code == "gap" else message.get("retry_after", FIRST_PAUSE))
            return
        text = f"{code}: {message['message']}"
        error = RuntimeError(text) if STATUS.get(code, 0) >= 500 else ValueError(text)
        if number is None or code == "unknown_stream":
            self._end(stream, error)
        else:
            stream.refuse(number, error, message.get("expected", 0))

    def _ask_later(self, stream: ClientStream, pause: float) -> None:
        def ask() -> None:
            if stream.state is State.ASKING:
                self._send([stream.ask()])

        asyncio.get_running_loop().call_later(pause, ask)

    def _end(self, stream: ClientStream, error: Exception | None = None) -> None:
        del self._streams[stream.key]
        stream.end(error)

    def _end_all(self, error: Exception) -> None:
        for stream in list(self._streams.values()):
            self._end(stream, error)

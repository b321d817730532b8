"""The asynchronous client of a service: it reconnects, resumes its streams and sends again what was not answered."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from nystream.data.reader import RecordError
from nystream.extras import require
from nystream.serve.protocol import RETRIED, Message, RequestError, checked_key, decode, encode

SUBPROTOCOL = "nystream.v1.msgpack"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds before connecting again; each time twice as long
MAX_FRAME = 1 << 24  # bytes of answers

log = logging.getLogger(__name__)

Answers = list[dict[str, Any]]


class ClientStream:
    """A stream of a client.

    Attributes:
        pending: Records without an answer, by number, with who waits for it.
        next: The number of the next new record.
        is_open: Whether records may be sent: the service has said which number it expects.
        opened: Who waits for that.
    """

    def __init__(self) -> None:
        self.pending: OrderedDict[int, tuple[Any, asyncio.Future[Answers]]] = OrderedDict()
        self.next = 0  # not known yet
        self.is_open = False
        self.opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] | None = None  # who waits for its end
        self.order = asyncio.Lock()  # records are numbered in the order of the calls
        self.room: asyncio.Semaphore | None = None  # for records on their way; None until it was opened

    def fail(self, error: Exception) -> None:
        """Tell everyone who waits."""
        waiting: list[asyncio.Future[Any] | None] = [self.opened, self.closed]
        for future in [*waiting, *(future for _, future in self.pending.values())]:
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # nobody may wait: that is not worth a warning
        self.pending.clear()


class AsyncClient:
    """Pushes records of any number of streams to a service and returns their answers.

    If the connection is lost, it connects again and resumes every stream with the number that the service expects:
    records without an answer are sent again, which applies them once.

    Args:
        url: The address of the service, such as `ws://localhost:8000`.
        token: The bearer token, if the service needs one.
        window: The most records of a stream on their way at a time; at most as many as the service keeps answers.
        retry: Whether to connect again; otherwise a lost connection is a ConnectionError.
        options: More options of `websockets.connect`, such as `ssl`.
    """

    def __init__(
        self, url: str, token: str | None = None, *, window: int = 32, retry: bool = True, **options: Any
    ) -> None:
        self._url = url.rstrip("/") + "/v1/stream"
        self._options = {"subprotocols": [SUBPROTOCOL], "max_size": MAX_FRAME, "compression": None, **options}
        if token is not None:
            self._options["additional_headers"] = {"Authorization": f"Bearer {token}"}
        self._window, self._retry = window, retry
        self._streams: dict[str, ClientStream] = {}
        self._socket: Any = None
        self._task: asyncio.Task[None] | None = None
        self._outgoing: list[Message] = []
        self._changed = asyncio.Event()
        self._retries: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def open(self, key: str) -> int:
        """Open a stream or resume it, and return the number of its next record."""
        return await asyncio.shield(self._stream(key).opened)

    async def push(self, key: str, record: Any) -> Answers:
        """Push a record and return the answers to its tokens, as `nystream stream --json` prints them.

        Raises RecordError if the record cannot be read; the stream is then unchanged.
        """
        stream = self._stream(key)
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        async with stream.order:
            await asyncio.shield(stream.opened)
            assert stream.room is not None
            await stream.room.acquire()
        number = stream.next
        stream.next += 1
        stream.pending[number] = record, future
        if stream.is_open:
            self._send({"type": "push", "key": key, "number": number, "record": record})
        try:
            return await future
        finally:
            stream.room.release()

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
        """End a stream and delete it from the service."""
        stream = self._stream(key)
        await asyncio.shield(stream.opened)
        stream.closed = asyncio.get_running_loop().create_future()
        self._send({"type": "close", "key": key})
        await stream.closed
        self._streams.pop(key, None)

    async def aclose(self) -> None:
        """Close the connection; the streams stay on the service and can be resumed."""
        for task in (*self._retries, *([self._task] if self._task is not None else [])):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        self._task = None
        for stream in self._streams.values():
            stream.fail(ConnectionError("the client was closed"))
        self._streams.clear()

    def _stream(self, key: str) -> ClientStream:
        if key not in self._streams:
            try:
                checked_key(key)
            except RequestError as error:
                raise ValueError(str(error)) from None
            self._streams[key] = ClientStream()
            self._send({"type": "open", "key": key})
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return self._streams[key]

    def _send(self, message: Message) -> None:
        """Send a message with others of the same turn of the event loop; nothing is sent without a connection."""
        if self._socket is not None:
            self._outgoing.append(message)
            self._changed.set()

    async def _run(self) -> None:
        """Keep a connection open."""
        websockets = require("the client", "websockets")
        pause = FIRST_PAUSE
        while True:
            try:
                async with websockets.connect(self._url, **self._options) as self._socket:
                    pause = FIRST_PAUSE
                    await self._talk()
                if not self._retry:
                    self._fail(ConnectionError(f"{self._url} closed the connection"))
                    return
            except (OSError, TimeoutError, websockets.WebSocketException) as error:
                status = getattr(getattr(error, "response", None), "status_code", 0)
                if not self._retry or 400 <= status < 500 or isinstance(error, websockets.InvalidURI):
                    refused = f"{self._url} refused the connection: {error}"
                    self._fail(PermissionError(refused) if status in (401, 403) else ConnectionError(refused))
                    return
                log.info("connecting again", extra={"fields": {"url": self._url, "error": str(error)}})
            finally:
                self._socket = None
                self._outgoing.clear()
            for stream in self._streams.values():
                stream.is_open = False
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # so that clients do not come all at once
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _talk(self) -> None:
        self._outgoing = [{"type": "open", "key": key} for key in self._streams]
        self._changed.set()
        writer = asyncio.create_task(self._write())
        try:
            async for frame in self._socket:
                messages = decode(frame, "json" if isinstance(frame, str) else "msgpack")
                for message in messages if isinstance(messages, list) else [messages]:
                    self._receive(message)
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await writer

    async def _write(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(0)  # what others send in this turn goes into the same frame
            messages, self._outgoing = self._outgoing, []
            if messages:
                await self._socket.send(encode(messages, "msgpack"))

    def _receive(self, message: Message) -> None:
        stream = self._streams.get(message.get("key", ""))
        if stream is None:
            if message["type"] == "error":
                log.warning("the service refused a message", extra={"fields": message})
        elif message["type"] == "opened":
            self._resume(message["key"], stream, message["next"], message["kept"])
        elif message["type"] == "closed":
            if stream.closed is not None and not stream.closed.done():
                stream.closed.set_result(None)
        elif message["type"] == "answer":
            self._answer(stream, message)
        elif message["type"] == "error":
            self._error(message["key"], stream, message)

    def _resume(self, key: str, stream: ClientStream, expected: int, kept: int) -> None:
        """Send what was not answered, as the service expects it."""
        first = next(iter(stream.pending), stream.next)
        if stream.room is None:
            stream.room = asyncio.Semaphore(min(self._window, kept))
        if not stream.next:
            stream.next = expected
        elif expected < first:  # it has lost records that were answered, which it may unless its durability is "log"
            log.warning("the service lost records", extra={"fields": {"key": key, "records": first - expected}})
            stream.pending = OrderedDict(enumerate(stream.pending.values(), expected))
            stream.next = expected + len(stream.pending)
        elif expected > stream.next:
            stream.next = expected  # someone else has pushed to it
        stream.is_open = True
        if not stream.opened.done():
            stream.opened.set_result(stream.next)
        for number, (record, _) in stream.pending.items():
            self._send({"type": "push", "key": key, "number": number, "record": record})
        if stream.closed is not None:
            self._send({"type": "close", "key": key})

    def _answer(self, stream: ClientStream, message: Message) -> None:
        _, future = stream.pending.pop(message["number"], (None, None))
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(RecordError(message["error"]["message"]))
        else:
            future.set_result(message["answers"])

    def _error(self, key: str, stream: ClientStream, message: Message) -> None:
        code, number = message["code"], message.get("number")
        if code in RETRIED and number is not None:
            if stream.is_open:  # once for all records on their way
                stream.is_open = False
                pause = message.get("retry_after", FIRST_PAUSE) if code != "gap" else 0
                self._again(key, pause)
        elif code in RETRIED:
            self._again(key, message.get("retry_after", FIRST_PAUSE))
        elif number is None:
            stream.fail(ValueError(f"{code}: {message['message']}"))
            self._streams.pop(key, None)
        else:
            _, future = stream.pending.pop(number, (None, None))
            if future is not None and not future.done():
                future.set_exception(ValueError(f"{code}: {message['message']}"))

    def _again(self, key: str, pause: float) -> None:
        """Ask, after a pause, which number the service expects."""

        async def ask() -> None:
            await asyncio.sleep(pause)
            self._send({"type": "open", "key": key})

        task = asyncio.create_task(ask())
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    def _fail(self, error: Exception) -> None:
        for stream in self._streams.values():
            stream.fail(error)
        self._streams.clear()

"""The client of a service for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, TypeVar

from nystream.data.reader import RecordError
from nystream.serve.clients.client import CLOSED, AsyncClient
from nystream.serve.clients.stream import Answers

T = TypeVar("T")


class Client:
    """Pushes records of any number of streams to a service and returns their answers.

    If the connection is lost, it connects again, resumes its streams and sends again what was not answered; every
    record is applied once. Methods can be called from several threads.

    Args:
        url: The address of the service, such as `ws://localhost:8000`.
        token: The bearer token, if the service needs one.
        timeout: Seconds to wait for answers, reconnecting included, before a TimeoutError that says why; None for no
            limit.
        options: Those of `AsyncClient`.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float | None = 60.0, **options: Any) -> None:
        self._client = AsyncClient(url, token, timeout=timeout, **options)
        self._ended = False
        self._calling = threading.Lock()  # no call starts after the last one
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nystream-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def open(self, key: str) -> int:
        """Open a stream or resume it, and return the number of its next record, which the service is asked for."""
        return self._call(self._client.open, key)

    def push(self, key: str, record: Any) -> Answers:
        """Push a record and return the answers to its tokens, as `nystream stream --json` prints them.

        Raises RecordError if the record cannot be read; the stream is then unchanged. After a TimeoutError, a record
        that was not sent yet is withdrawn. One that was sent is still taken, once: do not push it again. The error says
        which of the two it was.
        """
        return self._call(self._client.push, key, record)

    def push_many(self, keys: Sequence[str], records: Sequence[Any]) -> list[Answers | RecordError]:
        """Push one record of each key, and return the answers or a RecordError for each, in order."""
        return self._call(self._client.push_many, keys, records)

    def close(self, key: str) -> None:
        """End a stream, after the records that were pushed before, and delete it from the service."""
        self._call(self._client.close, key)

    def disconnect(self) -> None:
        """Close the connection; the streams stay on the service and can be resumed with another client."""
        with self._calling:
            if self._ended:
                return
            self._ended = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        await self._client.aclose()
        calls = asyncio.all_tasks() - {asyncio.current_task()}  # of other threads, which have to be told
        await asyncio.gather(*calls, return_exceptions=True)

    def _call(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        with self._calling:
            if self._ended:
                raise ConnectionError(CLOSED)
            future = asyncio.run_coroutine_threadsafe(method(*args), self._loop)
        return future.result()

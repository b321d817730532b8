"""The client of a service for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar

from nystream.data.reader import RecordError
from nystream.serve.client import Answers, AsyncClient

T = TypeVar("T")


class Client:
    """Pushes records of any number of streams to a service and returns their answers.

    If the connection is lost, it connects again, resumes its streams and sends again what was not answered; every
    record is applied once. Methods can be called from several threads.

    Args:
        url: The address of the service, such as `ws://localhost:8000`.
        token: The bearer token, if the service needs one.
        timeout: Seconds to wait for answers, reconnecting included; None for no limit.
        options: Those of `AsyncClient`.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float | None = 60.0, **options: Any) -> None:
        self._timeout = timeout
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nystream-client", daemon=True)
        self._thread.start()
        self._client = AsyncClient(url, token, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def open(self, key: str) -> int:
        """Open a stream or resume it, and return the number of its next record."""
        return self._wait(self._client.open(key))

    def push(self, key: str, record: Any) -> Answers:
        """Push a record and return the answers to its tokens, as `nystream stream --json` prints them.

        Raises RecordError if the record cannot be read; the stream is then unchanged.
        """
        return self._wait(self._client.push(key, record))

    def push_many(self, keys: Sequence[str], records: Sequence[Any]) -> list[Answers | RecordError]:
        """Push one record of each key, and return the answers or a RecordError for each, in order."""
        return self._wait(self._client.push_many(keys, records))

    def close(self, key: str) -> None:
        """End a stream and delete it from the service."""
        self._wait(self._client.close(key))

    def disconnect(self) -> None:
        """Close the connection; the streams stay on the service and can be resumed."""
        if self._loop.is_closed():
            return
        self._wait(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, answer: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(answer, self._loop)
        try:
            return future.result(self._timeout)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within timeout={self._timeout} seconds") from None

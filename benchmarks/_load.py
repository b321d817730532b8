"""Shared by the benchmarks of the service: clients that push records at random times, whatever the answers do."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgpack
import websockets
from _service import Service, record

from nystream.serve.protocol import RETRIED

OPTIONS: dict[str, Any] = {"compression": None, "max_size": 1 << 24, "ping_interval": None, "close_timeout": 1}
OPEN_SECONDS = 30.0
DRAIN_SECONDS = 5.0  # for the last answers
PIECE, AT_ONCE = 14, 4  # records of a stream, and streams of a connection, that are sent together beforehand
NOT_COUNTED = float("-inf")  # when a record that is not measured was due


class LoadStream:
    """A stream of a client.

    Attributes:
        last: Number of the last record that was due.
        pending: When records without an answer were due, by number, in order.
        is_open: Whether they may be sent: not after a refusal, until the service says that it goes on.
    """

    def __init__(self, place: int) -> None:
        self.place, self.key = place, f"stream {place}"
        self.last = 0
        self.pending: dict[int, float] = {}
        self.is_open = False


class Tally:
    """What clients have seen.

    Attributes:
        count_from: When the first record that is measured was due.
        latencies: Seconds from the time a record was due to its answer.
        refusals: Messages that were refused for now.
        retries: Records that were sent again.
        errors: Records that were refused for good, and connections that were lost.
    """

    def __init__(self) -> None:
        self.count_from = float("inf")
        self.latencies: list[float] = []
        self.refusals = self.retries = self.errors = 0

    def begin(self) -> None:
        """Count from now on."""
        self.count_from = time.perf_counter()
        self.refusals = self.retries = self.errors = 0


class Connection:
    """One WebSocket, which carries some streams.

    Args:
        socket: It.
        streams: The streams.
        tally: Counts what comes.
        seed: Of the times at which records are due.
    """

    def __init__(self, socket: Any, streams: Sequence[LoadStream], tally: Tally, seed: int) -> None:
        self._socket, self.streams, self._tally = socket, streams, tally
        self._by_key = {stream.key: stream for stream in streams}
        self._chance = random.Random(seed)
        self._outgoing: deque[dict[str, Any]] = deque()
        self._waiting = asyncio.Event()  # something is to be sent
        self._tasks = [asyncio.create_task(self._kept(self._read())), asyncio.create_task(self._kept(self._write()))]

    async def open(self) -> None:
        """Open the streams."""
        for stream in self.streams:
            self._ask(stream)
        async with asyncio.timeout(OPEN_SECONDS):
            while not all(stream.is_open for stream in self.streams):
                await asyncio.sleep(0.01)

    async def push_ahead(self, records: int, until: float) -> None:
        """Push the first records of all streams as fast as they are answered, but not longer than until some time."""
        for first in range(0, len(self.streams), AT_ONCE):
            streams = self.streams[first : first + AT_ONCE]
            for _ in range(0, records, PIECE):
                if time.perf_counter() > until:
                    return
                for stream in streams:
                    numbers = range(stream.last + 1, stream.last + PIECE + 1)
                    stream.last = numbers[-1]
                    stream.pending |= dict.fromkeys(numbers, NOT_COUNTED)
                    self._push(stream, *numbers)
                while any(stream.pending for stream in streams) and time.perf_counter() < until:
                    await asyncio.sleep(0.002)

    async def pace(self, rate: float, until: float) -> None:
        """Push records of random streams at random times, `rate` a second of each stream."""
        rate *= len(self.streams)
        due = time.perf_counter() + self._chance.expovariate(rate)
        while due < until:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            now = time.perf_counter()
            while due <= now and due < until:
                stream = self._chance.choice(self.streams)
                stream.last += 1
                stream.pending[stream.last] = due
                if stream.is_open:
                    self._push(stream, stream.last)
                due += self._chance.expovariate(rate)

    async def close(self) -> None:
        """Close the WebSocket."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._socket.close()

    def _push(self, stream: LoadStream, *numbers: int) -> None:
        records = [record(stream.place, number) for number in numbers]
        self._send({"type": "push", "key": stream.key, "number": numbers[0], "records": records})

    def _ask(self, stream: LoadStream) -> None:
        """Ask which record of a stream the service expects."""
        self._send({"type": "open", "key": stream.key})

    def _send(self, message: dict[str, Any]) -> None:
        self._outgoing.append(message)
        self._waiting.set()

    async def _kept(self, side: Any) -> None:
        """One side of the connection, which may be lost."""
        try:
            await side
        except websockets.ConnectionClosed:
            self._tally.errors += 1

    async def _write(self) -> None:
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while self._outgoing:  # each in a frame of its own, as a client of one stream would send it
                await self._socket.send(msgpack.packb(self._outgoing.popleft()))

    async def _read(self) -> None:
        async for data in self._socket:
            now, frame = time.perf_counter(), msgpack.unpackb(data)
            for message in frame if isinstance(frame, list) else [frame]:
                self._receive(message, now)

    def _receive(self, message: dict[str, Any], now: float) -> None:
        stream, tally, number = self._by_key[message["key"]], self._tally, message.get("number")
        if message["type"] == "answer":
            due = stream.pending.pop(number, NOT_COUNTED)
            if "error" in message:
                tally.errors += 1
            elif due >= tally.count_from:
                tally.latencies.append(now - due)
        elif message["type"] == "opened":
            stream.is_open = True
            tally.retries += len(stream.pending)
            for waiting in stream.pending:
                self._push(stream, waiting)
        elif message["code"] in RETRIED:
            tally.refusals += message["code"] != "gap"  # a gap follows from the refusal of an earlier record
            if number is None or stream.is_open:  # once for all records on their way
                stream.is_open = False
                pause = message.get("retry_after", 0.0)
                asyncio.get_running_loop().call_later(pause, self._ask, stream)
        else:
            stream.pending.pop(number, None)
            tally.errors += 1


class Load:
    """Clients of a service.

    Args:
        service: The service.
        streams: Number of streams.
        connections: Number of WebSockets that share them.
    """

    def __init__(self, service: Service, streams: int, connections: int) -> None:
        self._service, self.tally = service, Tally()
        self.streams = [LoadStream(place) for place in range(streams)]
        self._count = min(connections, streams)
        self._connections: list[Connection] = []

    async def open(self, records: int, seconds: float) -> None:
        """Connect, open all streams and push their first records; stop that after so many seconds."""
        for place in range(self._count):
            socket = await websockets.connect(f"{self._service.url}/v1/stream", **OPTIONS)
            self._connections.append(Connection(socket, self.streams[place :: self._count], self.tally, place))
        await asyncio.gather(*(connection.open() for connection in self._connections))
        until = time.perf_counter() + seconds
        await asyncio.gather(*(connection.push_ahead(records, until) for connection in self._connections))

    async def pace(self, rate: float, seconds: float) -> None:
        """Push records of all streams at random times, `rate` a second of each."""
        until = time.perf_counter() + seconds
        await asyncio.gather(*(connection.pace(rate, until) for connection in self._connections))

    async def close(self) -> int:
        """Wait for the last answers, but not for long, and disconnect; return how many records have none.

        The time for which they have waited counts as their latency: that of an answer would have been longer.
        """
        end = time.perf_counter() + DRAIN_SECONDS
        while any(stream.pending for stream in self.streams) and time.perf_counter() < end:
            await asyncio.sleep(0.02)
        await asyncio.gather(*(connection.close() for connection in self._connections))
        now = time.perf_counter()
        waiting = [due for stream in self.streams for due in stream.pending.values() if due >= self.tally.count_from]
        self.tally.latencies += [now - due for due in waiting]
        return len(waiting)

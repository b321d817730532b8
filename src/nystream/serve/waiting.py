"""Requests to streams that are not in memory: they wait until their streams are restored, while others go on.

Many streams come back at once after a restart. Each turn of the batcher restores some of them, for as long as it takes
a client not to notice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from nystream.serve.engine import Engine
from nystream.serve.protocol import RequestError
from nystream.serve.residents import StreamName

if TYPE_CHECKING:
    from nystream.serve.batcher import Request

RESTORE_SECONDS = 0.02  # of a turn


class Waiting:
    """Requests by stream, those of a stream in order.

    Args:
        engine: Restores the streams.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queues: dict[StreamName, deque[Request]] = {}  # longest waiting first
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def admit(self, requests: Iterable[Request]) -> list[Request]:
        """Return the requests that can run now, in order; the others wait, as does what comes after them."""
        ready: list[Request] = []
        residents = self._engine.residents
        for request in requests:
            if request.kind in ("find", "list", "look"):
                ready.append(request)
                continue
            name = request.name
            if name not in self._queues:
                if request.kind != "push" or residents.touch(name) is not None:
                    ready.append(request)
                    continue
                self._queues[name] = deque()
            self._queues[name].append(request)
            self._count += 1
        return ready

    def turn(self, limit: int) -> tuple[list[Request], list[tuple[Request, RequestError]]]:
        """Restore some streams; return requests that can run now, at most `limit`, and those that are refused."""
        residents = self._engine.residents
        absent = [name for name in self._queues if name not in residents]
        outcomes = self._engine.restore(absent, RESTORE_SECONDS) if absent else {}
        ready: list[Request] = []
        refused: list[tuple[Request, RequestError]] = []
        for name in [name for name in self._queues if name in residents or name in outcomes]:
            error = outcomes.get(name)
            if error is not None:
                queue = self._removed(name)
                refused += [(request, error) for request in takewhile(_is_push, queue)]
                # Another request may open the stream.
                ready += self.admit(dropwhile(_is_push, queue))
                continue
            queue = self._queues[name]
            while queue and len(ready) < limit:
                ready.append(queue.popleft())
                self._count -= 1
            if not queue:
                del self._queues[name]
        return ready, refused

    def _removed(self, name: StreamName) -> deque[Request]:
        queue = self._queues.pop(name)
        self._count -= len(queue)
        return queue


def _is_push(request: Request) -> bool:
    return request.kind == "push"

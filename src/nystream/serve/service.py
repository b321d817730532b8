"""The parts of a running service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nystream.data.reader import LiveReader
from nystream.live import Sessions, live_reader
from nystream.models import StreamModel
from nystream.serve.auth import Rates, Tokens
from nystream.serve.batcher import Batcher, Kind, Requests
from nystream.serve.engine import Engine, Reply
from nystream.serve.in_flight import InFlight
from nystream.serve.metrics import Metrics
from nystream.serve.migration import identity, migrate
from nystream.serve.settings import Settings
from nystream.serve.stores.folder import FolderStore
from nystream.serve.stores.redis import SCHEMES, RedisStore
from nystream.serve.stores.sqlite import SqliteStore
from nystream.serve.stores.store import Kept, Store

STATM = Path("/proc/self/statm")  # in pages: the size of this process, and what of it is in memory


class Front:
    """What the clients of a service see: who may come in, how fast, and what takes their requests.

    Args:
        settings: Those of the service.
        tokens: Who may come in.
        metrics: Counts what happens.
        batcher: Takes the requests.
    """

    def __init__(self, settings: Settings, tokens: Tokens, metrics: Metrics, batcher: Requests) -> None:
        self.settings, self.tokens, self.metrics, self.batcher = settings, tokens, metrics, batcher
        self.rates, self.in_flight = Rates(settings.max_rate), InFlight(settings.max_queue_bytes)
        metrics.queue_bytes.set_function(lambda: self.in_flight.bytes)

    def owner(self, headers: Mapping[str, str]) -> str:
        """Return whose streams a request may use; RequestError if it may not come in."""
        return self.tokens.owner(headers)

    async def ask(self, kind: Kind, owner: str, *values: Any) -> list[Reply]:
        """Return the replies to one request for each value; RequestError if they are not accepted, or come too fast."""
        self.rates.take(owner, len(values), "records" if kind == "push" else "requests")
        return await self.batcher.ask(kind, owner, *values)

    def memory_bytes(self) -> int | None:
        """Return the memory that the service takes, if that is known."""
        return process_bytes()

    def store_bytes(self) -> int | None:
        """Return the size of the store, if that is known."""
        return None


class Service(Front):
    """A service with all its streams in this process.

    Args:
        sessions: Without any stream.
        settings: How to serve them.
    """

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        tokens, metrics = Tokens.of(settings), Metrics()
        self.store = open_store(settings, sessions.model, sessions.reader)
        super().__init__(settings, tokens, metrics, batcher_of(sessions, self.store, settings, metrics))

    def store_bytes(self) -> int | None:
        return self.store.size()


def batcher_of(sessions: Sessions, store: Store, settings: Settings, metrics: Metrics) -> Batcher:
    """Return what runs requests in this process; first, streams of another model are continued with this one."""
    engine = Engine(sessions, store, identity(sessions.model, sessions.reader), settings, metrics)
    if settings.migrate:
        migrate(engine.residents, store)
    return Batcher(engine, settings, metrics)


def open_store(settings: Settings, model: StreamModel, reader: LiveReader | None = None) -> Store:
    """Return the store of a service; the reader is by default the model's, with the policies of the settings."""
    kept = Kept(0, model.replay_length) if settings.keep is None else Kept(settings.keep, 0)
    reader = reader or live_reader(model, settings.missing, settings.gaps)
    name, store = identity(model, reader), str(settings.store)
    if settings.durability == "none":
        return SqliteStore(None, name, kept)
    if settings.durability == "snapshot" and (store.startswith(SCHEMES) or is_folder(store)):
        raise ValueError(
            f"durability='snapshot' with store={store}: two processes could advance a stream between its snapshots; "
            f"give durability='log', or a file"
        )
    if store.startswith(SCHEMES):
        return RedisStore(store, name, kept, settings.migrate)
    if is_folder(store):
        return FolderStore(Path(store), name, kept, settings.migrate)
    return SqliteStore(Path(store), name, kept, settings.migrate)


def is_folder(store: str) -> bool:
    """Whether a store is a folder: there is one, or its name ends as one."""
    return store.endswith(("/", os.sep)) or Path(store).is_dir()


def process_bytes() -> int | None:
    """Return the memory of this process; None where the system does not tell it in this way."""
    if not STATM.exists():
        return None
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

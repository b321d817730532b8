"""The parts of a running service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nystream.data.reader import LiveReader
from nystream.live import Sessions, live_reader
from nystream.models import StreamModel
from nystream.serve.auth import Rates, Tokens
from nystream.serve.batcher import Batcher, Requests
from nystream.serve.engine import Engine
from nystream.serve.metrics import Metrics
from nystream.serve.migration import identity, migrate
from nystream.serve.redis_store import SCHEMES, RedisStore
from nystream.serve.settings import Settings
from nystream.serve.sqlite_store import SqliteStore
from nystream.serve.store import Kept, Store


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
        self.rates = Rates(settings.max_rate)

    def owner(self, headers: Mapping[str, str]) -> str:
        """Return whose streams a request may use; RequestError if it may not come in."""
        return self.tokens.owner(headers)


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
    if store.startswith(SCHEMES):
        return RedisStore(store, name, kept, settings.migrate)
    return SqliteStore(Path(store), name, kept, settings.migrate)

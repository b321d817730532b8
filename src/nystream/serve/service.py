"""The parts of a running service."""

from __future__ import annotations

from collections.abc import Mapping

from nystream.live import Sessions
from nystream.models import StreamModel
from nystream.serve.auth import Rates, Tokens
from nystream.serve.batcher import Batcher
from nystream.serve.engine import Engine
from nystream.serve.metrics import Metrics
from nystream.serve.migration import identity, migrate
from nystream.serve.settings import Settings
from nystream.serve.sqlite_store import SqliteStore
from nystream.serve.store import Kept, Store


class Service:
    """The settings, the engine and the limits of a service.

    Args:
        sessions: Without any stream.
        settings: How to serve them.
    """

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.tokens, self.rates = Tokens.of(settings), Rates(settings.max_rate)
        model = identity(sessions.model)
        self.store = open_store(settings, sessions.model)
        engine = Engine(sessions, self.store, model, settings, self.metrics)
        if settings.migrate:
            migrate(engine.residents, self.store)
        self.batcher = Batcher(engine, settings, self.metrics)

    def owner(self, headers: Mapping[str, str]) -> str:
        """Return whose streams a request may use; RequestError if it may not come in."""
        return self.tokens.owner(headers)


def open_store(settings: Settings, model: StreamModel) -> Store:
    """Return the store of a service."""
    kept = Kept(0, model.replay_length) if settings.keep is None else Kept(settings.keep, 0)
    path = None if settings.durability == "none" else settings.store
    return SqliteStore(path, identity(model), kept, settings.migrate)

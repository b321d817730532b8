"""The parts of a running service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from nystream.live import Sessions
from nystream.models import StreamModel
from nystream.serve.auth import Rates, Tokens
from nystream.serve.batcher import Batcher
from nystream.serve.engine import Engine
from nystream.serve.metrics import Metrics
from nystream.serve.settings import Settings
from nystream.serve.sqlite_store import SqliteStore
from nystream.stream.snapshot import fingerprint


class Service:
    """The settings, the engine and the limits of a service.

    Args:
        sessions: Without any stream.
        settings: How to serve them.
    """

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.tokens, self.rates = Tokens.of(settings), Rates(settings.max_rate)
        path = None if settings.durability == "none" else settings.store
        self.store = SqliteStore(path, identity(sessions.model))
        self.batcher = Batcher(Engine(sessions, self.store, settings, self.metrics), settings, self.metrics)

    def owner(self, headers: Mapping[str, str]) -> str:
        """Return whose streams a request may use; RequestError if it may not come in."""
        return self.tokens.owner(headers)


def identity(model: StreamModel) -> str:
    """Return a hash of the weights, and of the inputs and outputs: a stream cannot be resumed with others."""
    info = json.dumps(model.info.to_dict(), sort_keys=True)
    return hashlib.sha256(f"{fingerprint(model)} {info}".encode()).hexdigest()

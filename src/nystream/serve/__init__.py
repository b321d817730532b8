"""A service of live streams: records over HTTP or a WebSocket in, answers out, with a log that survives a crash."""

from nystream.serve.app import create_app, run
from nystream.serve.clients.client import AsyncClient
from nystream.serve.clients.sync import Client
from nystream.serve.settings import Settings

__all__ = ["AsyncClient", "Client", "Settings", "create_app", "run"]

"""The HTTP server: uvicorn, with bounds on clients that send or take nothing."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import weakref
from contextlib import suppress
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from nystream.serve.service import Front
from nystream.serve.settings import Settings

SHUTDOWN_SECONDS = 10  # for what waits to be answered, and again for connections to end
PING_SECONDS = 20.0  # a client that does not answer a ping for as long is gone
CLOSE_SECONDS = 2.0  # for a client to take what was sent before the connection was closed

log = logging.getLogger(__name__)


class Refused(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class HttpConnections:
    """Makes the protocol of each connection, and closes those that send no whole request, or take no response.

    Args:
        service: Has the settings, and counts connections that are refused.
    """

    def __init__(self, service: Front) -> None:
        self._most, self._seconds = service.settings.max_connections, service.settings.receive_seconds
        self._metrics = service.metrics

    def __call__(self, *, server_state: Any, **options: Any) -> asyncio.Protocol:
        if len(server_state.connections) >= self._most:
            self._metrics.refused.labels("too_many_connections").inc()
            return Refused()
        # Not httptools, which has no limits on request lines, headers, trailers and chunk extensions.
        protocol: Any = H11Protocol(server_state=server_state, **options)
        self._check_later(protocol, None)
        return cast(asyncio.Protocol, protocol)

    def _check_later(self, protocol: Any, request: Any) -> None:
        if self._seconds:
            asyncio.get_running_loop().call_later(self._seconds, self._check, weakref.ref(protocol), request)

    def _check(self, reference: weakref.ref[Any], request: Any) -> None:
        """Close a connection if no request has come since the last check; body() limits the time of a body."""
        protocol = reference()
        if protocol is None:
            return
        transport = protocol.transport
        if transport is None:  # within the handshake of TLS, which has a limit of its own
            self._check_later(protocol, None)
            return
        if transport.is_closing() or transport.get_protocol() is not protocol:  # it may have become a WebSocket
            return
        is_idle = request is None or request.response_complete or protocol.flow.write_paused
        if protocol.cycle is request and is_idle:
            transport.abort()
        else:
            self._check_later(protocol, protocol.cycle)


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that ends when it is closed, even if the client takes nothing of what waits to be sent."""

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close":
            self.writable.set()  # it does not wait behind answers that are not taken
        await super().send(message)

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()


class Server(uvicorn.Server):
    """Answers what waits before it closes the connections.

    Args:
        config: That of `configured`.
        service: Runs the requests.
    """

    def __init__(self, config: uvicorn.Config, service: Front) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self._service.batcher.stop)
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                while self._service.in_flight.replies and not self.force_exit:
                    await asyncio.sleep(0.01)
        await super().shutdown(sockets)


def configured(app: Any, settings: Settings) -> uvicorn.Config:
    """Return the configuration of the server."""
    require_certificate(settings)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        http=cast(Any, HttpConnections(app.state.service)),
        ws=WebSocketConnection,
        ws_max_size=settings.max_frame_bytes,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # it takes more memory per connection than a stream
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        server_header=False,
    )


def listening(settings: Settings) -> socket.socket:
    """Return a socket on the address of the settings; ValueError if there can be none."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        found = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise ValueError(
            f"host={settings.host} port={settings.port} cannot be listened on: {error.strerror}; give another `host` "
            "or `port`"
        ) from None
    log.info("listening", extra={"fields": {"host": settings.host, "port": found.getsockname()[1]}})
    return found


def url_of(address: socket.socket, settings: Settings) -> str:
    """Return the URL at which a browser on this machine finds the page of the service."""
    name, port = address.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, settings.host)
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def require_certificate(settings: Settings) -> None:
    """Raise if the files for TLS are not there, or are not a certificate and its key."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    for name, path in (("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key)):
        if not path.is_file():
            raise ValueError(f"{name}={path} is not a file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        raise ValueError(
            f"tls_cert={settings.tls_cert} and tls_key={settings.tls_key} are not a certificate and its key in PEM "
            f"format: {error}"
        ) from None

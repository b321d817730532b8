"""The service as an ASGI application, and running it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nystream.extras import require
from nystream.live import Sessions
from nystream.serve.settings import Settings
from nystream.version import __version__

if TYPE_CHECKING:
    from nystream.serve.service import Front

SHUTDOWN_SECONDS = 10  # for connections to end
PING_SECONDS = 20.0  # a client that does not answer a ping for as long is gone

log = logging.getLogger(__name__)


def create_app(sessions: Sessions, settings: Settings) -> Any:
    """Return the FastAPI application of a service.

    Args:
        sessions: Takes in the records, such as `Sessions(model)` or `estimator.sessions()`. It must have no stream, and
            nothing else may use it.
        settings: How to serve them.
    """
    require("a service", "fastapi")
    from nystream.serve.service import Service

    if len(sessions):
        raise ValueError(f"sessions has {len(sessions)} streams, but must have none")
    return application(Service(sessions, settings))


def application(service: Front) -> Any:
    """Return the FastAPI application of what takes the requests."""
    fastapi = require("a service", "fastapi")
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    from nystream.serve.http import misdirected, misunderstood, refusal, routes
    from nystream.serve.protocol import RequestError

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        service.batcher.start()
        log.info("ready", extra={"fields": {"durability": service.settings.durability}})
        try:
            yield
        finally:
            await asyncio.to_thread(service.batcher.stop)
            log.info("all streams are written")

    app = fastapi.FastAPI(title="nystream", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_exception_handler(RequestError, refusal)
    app.add_exception_handler(HTTPException, misdirected)
    app.add_exception_handler(RequestValidationError, misunderstood)
    app.include_router(routes(service))
    app.state.service = service
    return app


def run(sessions: Sessions, settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM."""
    uvicorn = require("a service", "uvicorn")
    require("a service", "websockets")
    from nystream.serve.logs import log_to_stderr

    log_to_stderr()
    config = uvicorn.Config(
        create_app(sessions, settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=settings.max_frame_bytes,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # it takes more memory per connection than a stream
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        server_header=False,
    )
    uvicorn.Server(config).run()

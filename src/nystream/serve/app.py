"""The service as an ASGI application, and running it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nystream.extras import require
from nystream.live import Sessions
from nystream.serve.settings import Settings
from nystream.version import __version__

if TYPE_CHECKING:
    from nystream.serve.service import Front

DESCRIPTION = (
    "Live streams of one model. OpenAPI describes requests only; there are two WebSockets, too: /v1/stream, over which "
    "many streams are opened and pushed to, and /v1/live, the feed of the page at /. Their messages are those of "
    "docs/serving.md; the status that the feed sends has the fields of /v1/status that change."
)

log = logging.getLogger(__name__)


def create_app(sessions: Sessions, settings: Settings, *, name: str = "") -> Any:
    """Return the FastAPI application of a service.

    Args:
        sessions: Takes in the records, such as `Sessions(model)` or `estimator.sessions()`. It must have no stream, and
            nothing else may use it.
        settings: How to serve them.
        name: Of the model, for the page of the service.
    """
    require("a service", "fastapi")
    from nystream.serve.service import Service

    if len(sessions):
        raise ValueError(f"sessions has {len(sessions)} streams, but must have none")
    return application(Service(sessions, settings), sessions, name)


def application(service: Front, sessions: Sessions, name: str) -> Any:
    """Return the FastAPI application of what takes the requests.

    Args:
        service: Takes the requests.
        sessions: Those of the service, or others of the same model, for the page of the service.
        name: Of the model, for the page.
    """
    fastapi = require("a service", "fastapi")
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware

    from nystream.serve.http import misdirected, misunderstood, refusal, routes
    from nystream.serve.protocol import RequestError
    from nystream.serve.view.demo_records import DemoRecords
    from nystream.serve.view.files import page_routes
    from nystream.serve.view.live import live_routes
    from nystream.serve.view.look import look_routes
    from nystream.serve.view.status import Status
    from nystream.serve.view.summaries import Truths
    from nystream.serve.websocket import misdirected_socket

    settings, status = service.settings, Status(sessions, service, name)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        service.batcher.start()
        counting = asyncio.create_task(status.activity.run())
        log.info("ready", extra={"fields": {"durability": settings.durability}})
        try:
            yield
        finally:
            counting.cancel()
            await asyncio.to_thread(service.batcher.stop)
            log.info("all streams are written")

    app = fastapi.FastAPI(
        title="nystream",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(RequestError, refusal)
    app.add_exception_handler(HTTPException, misdirected)
    app.add_exception_handler(RequestValidationError, misunderstood)
    for router in (
        routes(service),
        look_routes(service, status, DemoRecords(sessions)),
        live_routes(service, status, Truths(sessions.model.info)),
        page_routes(service),
    ):
        app.include_router(router)
    app.add_api_websocket_route("/{path:path}", misdirected_socket)  # the last: all others come first
    if settings.origins:  # the browser asks whether their pages may read replies
        allowed = {"allow_methods": ["DELETE", "GET", "POST"], "allow_headers": ["Authorization", "Content-Type"]}
        app.add_middleware(CORSMiddleware, allow_origins=settings.origins, **allowed)
    app.state.service = service
    return app


def run(sessions: Sessions, settings: Settings, *, name: str = "", say: Callable[[str], object] = print) -> None:
    """Serve until SIGINT or SIGTERM; `name` is that of the model, and `say` is told the address to open."""
    require("a service", "uvicorn")
    require("a service", "websockets")
    from nystream.serve.auth import Tokens
    from nystream.serve.logs import log_to_stderr
    from nystream.serve.server import Server, configured, listening, require_certificate, url_of

    log_to_stderr()
    require_certificate(settings)
    Tokens.of(settings)  # raises if there must be some and are none
    with listening(settings) as address:  # before the store is opened, which may take long
        app = create_app(sessions, settings, name=name)
        say(f"open {url_of(address, settings)}")
        Server(configured(app, settings), app.state.service).run([address])

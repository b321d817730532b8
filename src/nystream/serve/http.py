"""The HTTP side: streams and records under /v1, and what operators look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from nystream.serve import schemas
from nystream.serve.protocol import (
    STATUS,
    Encoding,
    Message,
    RequestError,
    checked_key,
    decode,
    encode,
    pushes,
)
from nystream.serve.service import Front
from nystream.serve.websocket import Connection, accepted

MSGPACK = "application/msgpack"
MAX_LISTED = 1000
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Refusal} for status in (400, 401, 403, 404, 408, 409, 413, 429, 503)
}


def routes(service: Front) -> APIRouter:
    """Return all routes of a service."""
    router = APIRouter(responses=REFUSALS)

    @router.post(
        "/v1/streams",
        response_model=schemas.Opened,
        responses={201: {"model": schemas.Opened}},
        openapi_extra=schemas.body(schemas.OPEN_BODY),
        summary="Open a stream, or resume it",
    )
    async def open_stream(request: Request) -> Response:
        owner = service.owner(request.headers)
        async with body(service, request) as message:
            (opened,) = checked(await service.ask("open", owner, checked_key(message.get("key"))))
        return reply(request, opened, 201 if opened["new"] else 200)

    @router.get("/v1/streams", response_model=schemas.Streams, summary="List streams")
    async def list_streams(request: Request, after: str = "", limit: int = 100) -> Response:
        owner = service.owner(request.headers)
        if not 1 <= limit <= MAX_LISTED:
            raise RequestError("bad_request", f"limit={limit} must be from 1 to {MAX_LISTED}")
        if after:
            checked_key(after)
        (listed,) = checked(await service.ask("list", owner, (after, limit)))
        return reply(request, listed)

    @router.post(
        "/v1/streams/{key:path}/records",
        response_model=schemas.Results,
        openapi_extra=schemas.body(schemas.PUSH_BODY),
        summary="Push records",
    )
    async def push_records(request: Request, key: str) -> Response:
        owner = service.owner(request.headers)
        async with body(service, request) as message:
            found = pushes(checked_key(key), message)
            if len(found) > service.settings.max_in_flight:
                most = service.settings.max_in_flight
                raise RequestError("too_large", f"{len(found)} records in one request, but at most {most} may be")
            replies = await service.ask("push", owner, *found)
        results = [answer for answer in replies if not isinstance(answer, RequestError)]
        for answer in replies:
            if isinstance(answer, RequestError):  # what was taken in before it is stored, and not sent again
                return refusal(request, answer, {"results": results} if results else {})
        return reply(request, {"results": results})

    @router.get("/v1/streams/{key:path}", response_model=schemas.Stream, summary="Describe a stream")
    async def describe_stream(request: Request, key: str) -> Response:
        (described,) = checked(await service.ask("find", service.owner(request.headers), checked_key(key)))
        return reply(request, described)

    @router.delete("/v1/streams/{key:path}", status_code=204, summary="End and delete a stream")
    async def close_stream(request: Request, key: str) -> Response:
        checked(await service.ask("close", service.owner(request.headers), checked_key(key)))
        return Response(status_code=204)

    @router.websocket("/v1/stream")
    async def stream(socket: WebSocket) -> None:
        if (admitted := await accepted(socket, service)) is not None:
            owner, encoding = admitted
            await Connection(socket, owner, service, encoding).run()

    @router.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        service.owner(request.headers)
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @router.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        ready = service.batcher.ready
        return Response("ready" if ready else "not ready", 200 if ready else 503)

    return router


@asynccontextmanager
async def body(service: Front, request: Request) -> AsyncIterator[Message]:
    """Read a body, which must be an object, without reading more than is allowed; its bytes count within the block."""
    data = bytearray()
    try:
        await _read(service, request, data)
        message = decode(bytes(data), encoding_of(request.headers.get("content-type", "")))
        if not isinstance(message, dict):
            raise RequestError("bad_request", f"the body is a {type(message).__name__}, but must be an object")
        yield message
    finally:
        service.in_flight.remove(len(data))


async def _read(service: Front, request: Request, data: bytearray) -> None:
    most, seconds = service.settings.max_frame_bytes, service.settings.receive_seconds
    try:
        async with asyncio.timeout(seconds or None):
            async for chunk in request.stream():
                service.in_flight.add(len(chunk))
                data += chunk
                if len(data) > most:
                    raise RequestError("too_large", f"the body is larger than {most} bytes")
    except TimeoutError:
        raise RequestError("too_slow", f"the body did not arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise RequestError("bad_request", "the client left within the body") from None


def encoding_of(media_type: str) -> Encoding:
    """Return the encoding that a header names: JSON unless it is msgpack."""
    return "msgpack" if media_type.partition(";")[0].strip() in (MSGPACK, "application/x-msgpack") else "json"


def reply(request: Request, message: Message, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response in the encoding that the client accepts."""
    encoding = encoding_of(request.headers.get("accept", ""))
    media_type = MSGPACK if encoding == "msgpack" else "application/json"
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})}
    return Response(encode(message, encoding), status, headers, media_type)


def refusal(request: Request, error: RequestError, more: Message | None = None) -> Response:
    """Return the response to a request that is refused."""
    request.app.state.service.metrics.refuse(error)
    headers = {}
    if error.code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    if error.code in ("too_large", "too_slow"):  # the rest of the body is not read
        headers["Connection"] = "close"
    if "retry_after" in error.details:
        headers["Retry-After"] = str(max(1, round(error.details["retry_after"])))
    return reply(request, {"error": error.to_dict(), **(more or {})}, STATUS[error.code], headers)


def misdirected(request: Request, error: HTTPException) -> Response:
    """Return the response to a path or a method that there is not."""
    code = "not_allowed" if error.status_code == STATUS["not_allowed"] else "not_found"
    message = f"{request.method} {request.url.path!r:.100} is not known; /openapi.json lists what is"
    return reply(request, {"error": {"code": code, "message": message}}, STATUS[code], error.headers)


def misunderstood(request: Request, error: RequestValidationError) -> Response:
    """Return the response to parameters of the wrong type."""
    wrong = "; ".join(f"{part['loc'][-1]}: {part['msg']}" for part in error.errors())
    return refusal(request, RequestError("bad_request", wrong))


def checked(replies: list[Any]) -> list[Message]:
    """Return replies; raise the first that is an error."""
    for message in replies:
        if isinstance(message, RequestError):
            raise message
    return replies

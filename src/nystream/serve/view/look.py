"""What a page asks for over HTTP: the state of the service, and records for a demonstration."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from nystream.serve import schemas
from nystream.serve.http import MAX_LISTED, REFUSALS, reply
from nystream.serve.protocol import MAX_NUMBER, RequestError
from nystream.serve.service import Front
from nystream.serve.view.demo_records import DemoRecords
from nystream.serve.view.status import Status


def look_routes(service: Front, status: Status, demo: DemoRecords) -> APIRouter:
    """Return the routes."""
    router = APIRouter(responses=REFUSALS)

    @router.get("/v1/status", response_model=schemas.Status, summary="Describe the model and the service")
    async def describe_service(request: Request) -> Response:
        service.owner(request.headers)
        return reply(request, status.to_dict())

    @router.get("/v1/demo", response_model=schemas.Demo, summary="Records that the model can read, to try it out")
    async def demo_records(request: Request, after: int = 0, limit: int = 10) -> Response:
        service.owner(request.headers)
        if not 0 <= after <= MAX_NUMBER or not 1 <= limit <= MAX_LISTED:
            raise RequestError(
                "bad_request", f"after={after} must be at least 0, and limit={limit} from 1 to {MAX_LISTED}"
            )
        return reply(request, await asyncio.to_thread(demo.records, after, limit))

    return router

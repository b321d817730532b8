"""The page of a service: its files, read once, and the headers that keep everything else out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from nystream.serve.protocol import RequestError
from nystream.serve.service import Front

FOLDER = Path(__file__).with_name("page")
INDEX = "index.html"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # asked for again, and not sent again if it is the same
}


class PageFile(NamedTuple):
    """A file of the page."""

    content: bytes
    type: str
    tag: str  # changes with the content


def page_files() -> dict[str, PageFile]:
    """Return the files of the page by their paths."""
    files = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            files[path.relative_to(FOLDER).as_posix()] = PageFile(content, TYPES[path.suffix], tag)
    return files


def page_routes(service: Front) -> APIRouter:
    """Return the routes of the page, which has no secrets: what it shows, it asks for with the visitor's token."""
    router, files = APIRouter(include_in_schema=False), page_files()

    def response(request: Request, name: str) -> Response:
        service.tokens.check_site(request.headers)
        if name not in files:  # a name is only ever looked up here: it is no path of the disk
            raise RequestError("not_found", f"the page has no file {name!r:.100}")
        file = files[name]
        headers = {**HEADERS, "ETag": file.tag}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=f"{file.type}; charset=utf-8")

    @router.get("/")
    async def index(request: Request) -> Response:
        return response(request, INDEX)

    @router.get("/page/{name:path}")
    async def file(request: Request, name: str) -> Response:
        return response(request, name)

    return router

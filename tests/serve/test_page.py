"""The files of the page, their headers, and what other sites may do."""

import base64
import re
from pathlib import Path

import pytest
from starlette.websockets import WebSocketDisconnect

from nystream.serve.auth import BEARER_PROTOCOL
from nystream.serve.settings import Settings
from nystream.serve.view.files import FOLDER, page_files

TOKEN = "alice-0123456789abcdef"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "browser" / "src"
SHARED = ("chart/canvas.js", "chart/classes.js", "chart/lines.js", "chart/times.js", "pictures.js", "theme.js")


@pytest.fixture
def tokens_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"alice:{TOKEN}\n")
    return path


def bearer_protocol(token):
    return BEARER_PROTOCOL + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def test_the_page_and_its_files_are_served_with_a_strict_policy(http):
    client = http()
    for name, file in {
        "": page_files()["index.html"],
        **{f"page/{name}": f for name, f in page_files().items()},
    }.items():
        reply = client.get(f"/{name}")
        assert reply.status_code == 200
        assert reply.content == file.content
        assert reply.headers["content-type"] == f"{file.type}; charset=utf-8"
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        again = client.get(f"/{name}", headers={"if-none-match": reply.headers["etag"]})
        assert again.status_code == 304
        assert again.content == b""


@pytest.mark.parametrize("name", ["none.js", "../http.py", "%2e%2e/http.py", "..%2fhttp.py", "/etc/passwd", ""])
def test_no_other_file_is_served(http, name):
    assert http().get(f"/page/{name}").status_code == 404


def test_the_page_needs_nothing_from_elsewhere():
    for path in FOLDER.rglob("*"):
        if path.is_file():
            text = path.read_text("utf-8")
            addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s'\"]*", text)
            assert [address for address in addresses if "www.w3.org/2000/svg" not in address] == [], path.name
            assert len(text.splitlines()) <= 400


def test_the_page_has_no_inline_code_and_all_that_it_names():
    page = page_files()["index.html"].content.decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", page)
    named = set(re.findall(r'(?:src|href)="page/([^"]+)"', page))
    for name, file in page_files().items():
        for imported in re.findall(r'from "([^"]+)"', file.content.decode()) if name.endswith(".js") else ():
            assert imported.startswith("./")
            named.add((Path(name).parent / imported).as_posix())
    assert named == set(page_files()) - {"index.html"}


def test_the_charts_are_those_of_the_example():
    for name in SHARED:
        assert (FOLDER / name).read_bytes() == (EXAMPLE / name).read_bytes(), f"{name} differs: copy the newer one"
    palette = (FOLDER / "palette.css").read_text("utf-8")
    assert (EXAMPLE / "style.css").read_text("utf-8").startswith(palette)


def test_the_page_needs_no_token_and_says_nothing(http, tokens_file):
    client = http(tokens_file=tokens_file)
    assert client.get("/").status_code == 200
    for path in ("/v1/status", "/v1/demo"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/stream", "/v1/live"])
def test_a_browser_sends_its_token_as_a_subprotocol(http, tokens_file, path):
    client = http(tokens_file=tokens_file)
    with client.websocket_connect(
        f"ws://localhost{path}", subprotocols=["nystream.v1.json", bearer_protocol(TOKEN)]
    ) as socket:
        assert socket.accepted_subprotocol == "nystream.v1.json"  # never the one with the token
        if path == "/v1/stream":
            socket.send_json({"type": "open", "key": "k"})
            assert socket.receive_json()["type"] == "opened"
    for offered in (
        *(
            [],
            [bearer_protocol("x" * 20)],
            [BEARER_PROTOCOL],
            [f"{BEARER_PROTOCOL}%%%"],
            [f"{BEARER_PROTOCOL}ü".encode()],
        ),
        *([BEARER_PROTOCOL + TOKEN], ["nystream.v1.json"]),
    ):
        names = [name.decode("latin-1") if isinstance(name, bytes) else name for name in offered]
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect(f"ws://localhost{path}", subprotocols=[name for name in names if name.isascii()]),
        ):
            pass


@pytest.mark.parametrize("path", ["/v1/stream", "/v1/live"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://example.org"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": "http://localhost:9"},  # another port is another origin
        {"host": "rebound.example.org"},
        {"host": "rebound.example.org", "origin": "http://rebound.example.org"},
    ],
)
def test_pages_of_other_sites_cannot_connect(http, path, headers):
    client = http()
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(f"ws://localhost{path}", headers=headers):
        pass
    with client.websocket_connect(f"ws://localhost{path}", headers={"origin": "http://localhost"}):
        pass


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost"}, 200),
        ({"origin": "http://["}, 403),
        ({"origin": "https://example.org"}, 403),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
        ({"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),  # a link
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),  # an image or a script
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"host": "127.9.9.9:8000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "example.org"}, 403),
        ({"host": "["}, 403),
    ],
)
def test_requests_of_pages_of_other_sites(http, headers, status):
    client = http()
    for path in ("/v1/streams", "/v1/status", "/v1/demo", "/metrics", "/"):
        assert client.get(path, headers=headers).status_code == status


def test_origins_that_are_allowed(http):
    allowed = "https://example.org"
    client = http(allow_origins=f"{allowed}, http://localhost:3000")
    reply = client.get("/v1/streams", headers={"origin": allowed, "sec-fetch-site": "cross-site"})
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == allowed
    asked = {"origin": allowed, "access-control-request-method": "POST"}
    asked["access-control-request-headers"] = "authorization,content-type"
    assert client.options("/v1/streams", headers=asked).status_code == 200
    with client.websocket_connect("ws://localhost/v1/stream", headers={"origin": allowed}):
        pass
    other = client.get("/v1/streams", headers={"origin": "https://example.com"})
    assert other.status_code == 403
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("origins", ["*", "example.org", "https://example.org/", "https://a.org https://b.org"])
def test_origins_that_are_none(origins):
    with pytest.raises(ValueError, match=r"allow_origins has .*, but an origin is like https://example.org:8443"):
        Settings(allow_origins=origins)

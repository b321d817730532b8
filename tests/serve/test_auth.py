"""Who may come in, whose streams are whose, and how much is too much."""

import pytest
from starlette.websockets import WebSocketDisconnect

from nystream.serve.auth import Rates, Tokens
from nystream.serve.protocol import RequestError
from nystream.serve.settings import Settings

ALICE, BOB = "alice-0123456789abcdef", "bob-0123456789abcdef"


@pytest.fixture
def tokens_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# who\n\nalice:{ALICE}\n{BOB}\n")
    return path


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_streams_belong_to_their_token(http, tokens_file):
    client = http(tokens_file=tokens_file)
    for token, record in ((ALICE, [1, 2]), (BOB, [3, 4])):
        headers = bearer(token)
        assert client.post("/v1/streams", json={"key": "k"}, headers=headers).status_code == 201
        reply = client.post("/v1/streams/k/records", json={"record": record, "number": 1}, headers=headers)
        assert reply.json()["results"][0]["number"] == 1
    client.post("/v1/streams", json={"key": "own"}, headers=bearer(ALICE))
    for method, path in (("GET", "own"), ("DELETE", "own"), ("POST", "own/records")):
        json = {"record": [1, 2]} if method == "POST" else None
        assert client.request(method, f"/v1/streams/{path}", json=json, headers=bearer(BOB)).status_code == 404
    assert [len(client.get("/v1/streams", headers=bearer(token)).json()["streams"]) for token in (ALICE, BOB)] == [2, 1]


@pytest.mark.parametrize("headers", [{}, {"authorization": ALICE}, bearer("x" * 20), bearer(""), bearer("ü")])
def test_without_a_token_nobody_comes_in(http, tokens_file, headers):
    client = http(tokens_file=tokens_file)
    headers = {name: value.encode() for name, value in headers.items()}
    for method, path in (
        *(("GET", "/v1/streams"), ("POST", "/v1/streams"), ("GET", "/v1/streams/k"), ("DELETE", "/v1/streams/k")),
        *(("POST", "/v1/streams/k/records"), ("GET", "/metrics")),
    ):
        reply = client.request(method, path, headers=headers)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
    assert client.get("/healthz").status_code == 200


def test_the_environment_has_tokens_too(monkeypatch):
    monkeypatch.setenv("NYSTREAM_TOKENS", f"alice:{ALICE}")
    tokens = Tokens.of(Settings(host="0.0.0.0"))
    assert tokens.owner(bearer(ALICE)) == "name:alice"
    assert tokens.owner({"authorization": f"bearer {ALICE}"}) == "name:alice"


def test_spaces_and_byte_order_marks_are_no_part_of_a_token(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"alice : {ALICE} \nalice:{ALICE}\n", "utf-8-sig")
    assert Tokens.of(Settings(tokens_file=path)).owner(bearer(ALICE)) == "name:alice"


@pytest.mark.parametrize("host", ["127.0.0.2:8000", "localhost", "[::1]:80", "LOCALHOST:1"])
def test_any_loopback_name_will_do(host):
    assert Tokens().owner({"host": host}) == ""


def test_other_machines_need_tokens(tmp_path):
    for host in ("127.0.0.1", "::1", "localhost", "127.5.5.5"):
        Tokens.of(Settings(host=host))
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org"):
        with pytest.raises(ValueError, match="so tokens are needed: give `tokens_file` or set NYSTREAM_TOKENS"):
            Tokens.of(Settings(host=host))
    (tmp_path / "none").write_text("# none\n")
    with pytest.raises(ValueError, match="has no token"):
        Tokens.of(Settings(tokens_file=tmp_path / "none"))
    with pytest.raises(ValueError, match="line 2: the token has another name"):
        Tokens(f"alice:{ALICE}\nbob:{ALICE}\n")
    with pytest.raises(ValueError, match="line 2: a token must have at least 16 ASCII characters"):
        Tokens(f"{ALICE}\nshort\n")


def test_a_rate_is_limited(http, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("nystream.serve.auth.time.monotonic", lambda: now[0])
    rates = Rates(10)
    rates.take("a", 10)
    rates.take("b", 10)  # of its own
    with pytest.raises(RequestError) as refused:
        rates.take("a", 1)
    assert refused.value.details == {"retry_after": 0.1}
    now[0] += 0.5
    rates.take("a", 5)
    with pytest.raises(RequestError):
        rates.take("a", 1)
    now[0] += 2
    rates.take("a", 30)  # more than a second's: when the bucket is full
    with pytest.raises(RequestError):
        rates.take("a", 1)


def test_too_fast_is_429(http):
    client = http(max_rate=3)
    client.post("/v1/streams", json={"key": "k"})
    body = {"records": [[1, 2]] * 3}
    assert client.post("/v1/streams/k/records", json=body).status_code == 200
    reply = client.post("/v1/streams/k/records", json=body)
    assert reply.status_code == 429
    assert int(reply.headers["retry-after"]) >= 1
    assert client.get("/v1/streams/k").json()["next"] == 4


def test_other_requests_are_limited_too(http):
    client = http(max_rate=3)
    statuses = [client.post("/v1/streams", json={"key": "k"}).status_code for _ in range(5)]
    assert statuses == [201, 200, 200, 429, 429]
    assert client.get("/v1/streams").status_code == 429
    assert client.delete("/v1/streams/k").status_code == 429
    with client.websocket_connect("ws://localhost/v1/stream") as socket:
        socket.send_json({"type": "open", "key": "k"})
        assert socket.receive_json()["code"] == "rate_limited"
    assert client.post("/v1/streams/k/records", json={"records": [[1, 2]] * 3}).status_code == 200  # of their own


def test_refusals_are_counted(http, tokens_file):
    client = http(tokens_file=tokens_file, max_rate=1)
    assert client.get("/v1/streams").status_code == 401
    headers = bearer(ALICE)
    client.post("/v1/streams", json={"key": "k"}, headers=headers)
    with pytest.raises(WebSocketDisconnect):
        client.websocket_connect("ws://localhost/v1/stream", headers=bearer("x")).__enter__()
    for _ in range(2):
        client.post("/v1/streams/k/records", json={"record": [1, 2], "number": 5}, headers=headers)
    with client.websocket_connect("ws://localhost/v1/stream", headers=bearer(BOB)) as socket:
        socket.send_json({"type": "push", "key": "k", "record": [1, 2]})
        assert socket.receive_json()["code"] == "unknown_stream"
    text = client.get("/metrics", headers=headers).text
    for code, count in (("unauthorized", 2), ("gap", 1), ("rate_limited", 1), ("unknown_stream", 1)):
        assert f'nystream_refused_total{{code="{code}"}} {count}.0' in text


def test_too_many_streams_are_429(http):
    client = http(max_streams_per_token=2)
    statuses = [client.post("/v1/streams", json={"key": key}).status_code for key in "abab"]
    assert statuses == [201, 201, 200, 200]
    assert client.post("/v1/streams", json={"key": "c"}).status_code == 429
    client.delete("/v1/streams/a")
    assert client.post("/v1/streams", json={"key": "c"}).status_code == 201


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_batch": 0}, "max_batch=0 must be at least 1"),
        ({"max_wait_ms": -1}, "max_wait_ms=-1 must be a number of at least 0"),
        ({"port": 70000}, "port=70000 must be from 0 to 65535"),
        ({"durability": "much"}, "durability='much' must be one of none, snapshot, log"),
        ({"max_queue_bytes": 5}, "max_queue_bytes=5 must be at least max_frame_bytes=1048576"),
        ({"tls_cert": "cert.pem"}, "tls_cert and tls_key belong together"),
    ],
)
def test_settings_that_cannot_work(options, said):
    with pytest.raises(ValueError, match=said):
        Settings(**options)

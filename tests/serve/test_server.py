"""The server: clients that send or take nothing, connections too many, shutdown, TLS."""

import asyncio
import base64
import json
import select
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress

import pytest
import websockets

import nystream as ns
from nystream.serve.protocol import SLOW_CLIENT, pack, unpack
from nystream.serve.server import listening, require_certificate
from nystream.serve.settings import Settings

HALVES = {
    "nothing": b"",
    "half a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-a: ",
    "half a body": b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
    "half a body that nobody reads": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
    "half a second header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP",
}
# Parts of a request that never end: what comes before them, and what is sent again and again.
POST = b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "request line": (b"GET /", b"x" * 100),
    "header": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-a: ", b"x" * 100),
    "headers": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"X-a: " + b"x" * 93 + b"\r\n"),
    "trailer": (POST + b"0\r\nX-a: ", b"x" * 100),
    "trailers": (POST + b"0\r\n", b"X-a: " + b"x" * 93 + b"\r\n"),
    "chunk extension": (POST + b"1;a=", b"x" * 100),
}
UPGRADE = (
    b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: " + base64.b64encode(b"0" * 16) + b"\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def received(connection):
    """Everything up to the end of the connection."""
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


def is_cut_off(connection, data, pause=0.0, seconds=20):
    """Whether the server ends a connection that goes on sending."""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            connection.sendall(data)
            time.sleep(pause)
    except ConnectionError:
        return True
    return False


async def until_closed(socket):
    """All messages, and the code with which the connection is closed."""
    found = []
    try:
        while True:
            frame = unpack(await socket.recv())
            found += frame if isinstance(frame, list) else [frame]
    except websockets.ConnectionClosed as closed:
        return found, closed.rcvd and closed.rcvd.code


@pytest.mark.parametrize("sent", HALVES.values(), ids=HALVES)
def test_half_a_request_is_not_waited_for(serve, sent):
    with connected(serve(receive_seconds=0.3)) as connection:
        connection.sendall(sent)
        reply = received(connection)
    assert (b"408 Request Timeout" in reply) == (b"POST" in sent)


def test_a_header_that_trickles_in_is_not_waited_for(serve):
    with connected(serve(receive_seconds=0.3)) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert is_cut_off(connection, b"X-a: b\r\n", 0.02)


@pytest.mark.parametrize(("start", "part"), ENDLESS.values(), ids=ENDLESS)
def test_a_request_without_end_is_refused(serve, start, part):
    """Before it takes much memory: none of it comes to the application, which limits bodies."""
    with connected(serve(receive_seconds=0)) as connection:
        connection.sendall(start)
        sent = 0
        try:
            while not select.select([connection], [], [], 0.005)[0]:
                connection.sendall(part * 10)
                sent += len(part) * 10
                assert sent < 1 << 19, "the server takes all"
            reply = received(connection)
        except ConnectionError:
            reply = b""
    assert reply == b"" or b" 400 " in reply


def test_connections_that_are_used_stay(serve):
    server = serve(receive_seconds=0.3)
    with connected(server) as connection, ns.Client(server.url) as client:
        client.open("k")
        for _ in range(10):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in connection.recv(1 << 16)
            time.sleep(0.1)
        assert client.push("k", [1, 2])[0]["token"] == 1


def test_connections_are_bounded(serve, make_app):
    app = make_app(max_connections=3)
    server = serve(app)
    few = [connected(server) for _ in range(3)]
    deadline = time.monotonic() + 10
    while len(server._server.server_state.connections) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with connected(server) as one_more:
        assert received(one_more) == b""
    for connection in few:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in received(connection)
        connection.close()
    assert b'nystream_refused_total{code="too_many_connections"} 1.0' in app.state.service.metrics.text()


def test_a_client_that_leaves_within_its_body_is_no_error(serve, caplog):
    server = serve()
    with connected(server) as connection:
        connection.sendall(HALVES["half a body"])
    time.sleep(0.2)
    server.stop()
    assert "Traceback" not in caplog.text
    assert "Exception" not in caplog.text


def test_a_client_that_reads_nothing_is_cut_off(serve, make_app):
    app = make_app(send_seconds=0.3, max_frame_bytes=1 << 20)
    server, service = serve(app), app.state.service
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.settimeout(10)
        silent.connect(("127.0.0.1", server.port))
        silent.sendall(UPGRADE)
        assert b"101" in silent.recv(4096)
        # Answers to messages that cannot be understood quote the key: a few frames fill all buffers.
        text = json.dumps([{"type": "x", "key": "k" * 200}] * 200).encode()
        frame = b"\x81\xfe" + len(text).to_bytes(2, "big") + b"\0\0\0\0" + text
        assert is_cut_off(silent, frame)
    deadline = time.monotonic() + 10
    while server._server.server_state.connections:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert service.in_flight.bytes == service.in_flight.replies == 0


def test_a_slow_client_is_told_why_it_is_closed(serve, make_app):
    app = make_app(send_seconds=0.3)
    server, connections = serve(app), app.state.service.metrics.connections._value

    async def work():
        async with websockets.connect(f"{server.url}/v1/stream", max_queue=1, compression=None) as slow:
            frame = pack([{"type": "x", "key": "k" * 200}] * 1000)
            slow.transport.pause_reading()
            while connections.get():
                with suppress(TimeoutError):
                    await asyncio.wait_for(slow.send(frame), 0.05)
            slow.transport.resume_reading()
            return await until_closed(slow)

    _, code = asyncio.run(asyncio.wait_for(work(), 30))
    assert code == SLOW_CLIENT


def test_what_waits_is_answered_before_the_end(serve, make_app, monkeypatch):
    app = make_app(max_batch=64)  # so that what the engine does not have yet is most of it
    server, engine = serve(app), app.state.service.batcher._engine
    push, many_wait = engine.push, threading.Event()

    def slow(pushes):
        assert many_wait.wait(30)
        time.sleep(0.05)
        return push(pushes)

    monkeypatch.setattr(engine, "push", slow)

    async def work():
        async with websockets.connect(f"{server.url}/v1/stream") as socket:
            await socket.send(pack({"type": "open", "key": "k"}))
            await socket.recv()
            for number in range(1, 801):
                await socket.send(pack({"type": "push", "key": "k", "number": number, "record": [1, 2]}))
            while len(app.state.service.batcher._queue) < 300:
                await asyncio.sleep(0.01)
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            many_wait.set()
            found = await until_closed(socket)
            await asyncio.to_thread(stopping.join)
            return found

    found, code = asyncio.run(asyncio.wait_for(work(), 60))
    assert code == 1012
    answers = [message["number"] for message in found if message["type"] == "answer"]
    assert len(answers) >= 300
    assert answers == list(range(1, len(answers) + 1))
    assert {message["code"] for message in found if message["type"] == "error"} <= {"shutting_down"}


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"host=127.0.0.1 port={port} cannot be listened on: Address already in"):
            listening(Settings(port=port))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", cert, "-keyout", key]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no certificate without a recent openssl: {error}")
    return cert, key


def test_tls(serve, certificate):
    cert, key = certificate
    server = serve(tls_cert=cert, tls_key=key)
    url = server.url.replace("ws:", "wss:")
    trusting = ssl.create_default_context(cafile=cert)
    with ns.Client(url, ssl=trusting) as client:
        assert client.push("k", [1, 2])[0]["token"] == 1
    with ns.Client(url, retry=False) as client, pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        client.push("k", [1, 2])


def test_files_for_tls_that_cannot_be_used(certificate, tmp_path):
    cert, key = certificate
    for options, said in (
        ({"tls_cert": tmp_path / "none", "tls_key": key}, "tls_cert=.*none is not a file"),
        ({"tls_cert": cert, "tls_key": tmp_path}, "tls_key=.* is not a file"),
        ({"tls_cert": key, "tls_key": cert}, "tls_cert=.*key.pem and tls_key=.*cert.pem are not a certificate and its"),
    ):
        with pytest.raises(ValueError, match=said):
            require_certificate(Settings(**options))

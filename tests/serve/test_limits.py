"""Back-pressure: what waits is bounded, and one client does not hold up others."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest
import websockets

import nystream as ns
from nystream.serve.protocol import SLOW_CLIENT, pack


def test_a_full_queue_refuses(http, monkeypatch):
    client = http(max_queue=4)
    client.post("/v1/streams", json={"key": "k"})
    engine = client.app.state.service.batcher._engine
    go, push = threading.Event(), engine.push

    def slow(pushes):
        go.wait(10)
        return push(pushes)

    monkeypatch.setattr(engine, "push", slow)
    replies = []

    def send():
        replies.append(client.post("/v1/streams/k/records", json={"records": [[1, 2]] * 2}).status_code)

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    assert client.get("/readyz").status_code == 503
    go.set()
    for thread in threads:
        thread.join(10)
    # The first is being run, two wait, the others were refused at once.
    assert sorted(replies) == [200, 200, 200, 503, 503, 503]
    assert client.get("/v1/streams/k").json()["next"] == 7


def test_records_run_together(http):
    client = http(max_wait_ms=50, max_batch=8)
    keys = [f"k{i}" for i in range(8)]
    with client.websocket_connect("ws://localhost/v1/stream") as socket:
        socket.send_json([{"type": "open", "key": key} for key in keys])
        socket.send_json([{"type": "push", "key": key, "record": [1, 2]} for key in keys])
        count = 0
        while count < 16:
            frame = socket.receive_json()
            count += len(frame) if isinstance(frame, list) else 1
    assert "nystream_batch_records_count 1.0" in client.get("/metrics").text
    assert "nystream_batch_records_sum 8.0" in client.get("/metrics").text


def test_a_client_that_takes_no_answers_is_closed_and_others_go_on(serve, make_app):
    app = make_app(send_seconds=0.5, max_in_flight=1024)
    server, service = serve(app), app.state.service
    key = "k" * 200  # long answers fill the buffers soon

    async def work():
        async with websockets.connect(f"{server.url}/v1/stream", max_queue=1, compression=None) as slow:
            await slow.send(pack({"type": "open", "key": key}))
            await slow.recv()
            slow.transport.pause_reading()
            frame = pack([{"type": "push", "key": key, "record": [1, 2]}] * 500)
            most = 0
            async with ns.AsyncClient(server.url) as other:
                began, answered = time.monotonic(), 0
                while not answered or (time.monotonic() < began + 20 and service.metrics.connections._value.get() > 1):
                    with suppress(TimeoutError, websockets.ConnectionClosed):
                        await asyncio.wait_for(slow.send(frame), 0.05)
                    assert await asyncio.wait_for(other.push("other", [1, 2]), 5)
                    answered += 1
                    most = max(most, len(service.batcher._queue))
            assert most <= service.settings.max_queue
            assert service.metrics.connections._value.get() <= 1
            slow.transport.resume_reading()
            try:
                while True:
                    await slow.recv()
            except websockets.ConnectionClosed as closed:
                return closed, answered

    closed, answered = asyncio.run(asyncio.wait_for(work(), 60))
    assert answered > 3
    assert closed.rcvd is None or closed.rcvd.code in (SLOW_CLIENT, 1000, 1012)


def test_a_large_frame_closes_the_connection(serve):
    server = serve()

    async def work():
        async with websockets.connect(f"{server.url}/v1/stream") as socket:
            await socket.send(b"x" * ((1 << 20) + 1))
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), 10)
            return closed.value.rcvd.code

    assert asyncio.run(work()) == 1009


def test_queued_bytes_are_bounded(http, make_app, monkeypatch):
    app = make_app(max_frame_bytes=10_000, max_queue_bytes=15_000)
    client, service = http(app), app.state.service
    client.post("/v1/streams", json={"key": "k"})
    go, push = threading.Event(), service.batcher._engine.push

    def slow(pushes):
        go.wait(10)
        return push(pushes)

    monkeypatch.setattr(service.batcher._engine, "push", slow)
    body, replies = {"record": {"a": 1, "b": 2, "more": "x" * 8000}}, []

    def send():
        replies.append(client.post("/v1/streams/k/records", json=body))

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    with client.websocket_connect("ws://localhost/v1/stream") as socket:
        socket.send_json({"type": "push", "key": "k", "number": 7, **body})
        refused = socket.receive_json()
    assert (refused["code"], refused["key"], refused["number"]) == ("overloaded", "k", 7)
    assert "\nnystream_queue_bytes 80" in client.get("/metrics").text
    go.set()
    for thread in threads:
        thread.join(10)
    assert sorted(reply.status_code for reply in replies) == [200, 503, 503]
    assert service.in_flight.bytes == 0


def test_a_connection_reads_no_more_than_a_frame_ahead(http, make_app, monkeypatch):
    """However many records may be in flight."""
    app = make_app(max_frame_bytes=10_000)
    client, service = http(app), app.state.service
    go, push, most = threading.Event(), service.batcher._engine.push, []

    def slow(pushes):
        go.wait(10)
        most.append(service.in_flight.bytes)
        return push(pushes)

    monkeypatch.setattr(service.batcher._engine, "push", slow)
    with client.websocket_connect("ws://localhost/v1/stream") as socket:
        socket.send_json({"type": "open", "key": "k"})
        socket.receive_json()
        for _ in range(8):
            socket.send_json([{"type": "push", "key": "k", "record": {"a": 1, "b": 2, "more": "x" * 1000}}] * 6)
        time.sleep(0.3)
        go.set()
        count = 0
        while count < 48:
            frame = socket.receive_json()
            count += len(frame) if isinstance(frame, list) else 1
    assert 5_000 < max(most) <= 10_000
    assert service.in_flight.bytes == service.in_flight.replies == 0


def test_a_client_that_leaves_gives_back_its_bytes(http, make_app, monkeypatch):
    app = make_app()
    client, service = http(app), app.state.service
    client.post("/v1/streams", json={"key": "k"})
    go, push = threading.Event(), service.batcher._engine.push

    def slow(pushes):
        go.wait(10)
        return push(pushes)

    monkeypatch.setattr(service.batcher._engine, "push", slow)
    with client.websocket_connect("ws://localhost/v1/stream") as socket:
        socket.send_json([{"type": "push", "key": "k", "record": [1, 2]}] * 7)
        while not service.in_flight.bytes:
            time.sleep(0.01)
    go.set()
    assert client.get("/v1/streams/k").json()["next"] == 8
    assert service.in_flight.bytes == service.in_flight.replies == 0

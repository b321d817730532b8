"""No call of a client waits for ever, whatever happens to its record, its stream or its connection."""

import asyncio
import shutil
import ssl
import subprocess
import threading
from contextlib import asynccontextmanager

import pytest
import websockets

import nystream as ns
from nystream.serve.protocol import RequestError, pack, unpack


def outcomes(results):
    return [type(result).__name__ if isinstance(result, Exception) else result[0]["token"] for result in results]


async def all_of(pushes, seconds=30):
    return await asyncio.wait_for(asyncio.gather(*pushes, return_exceptions=True), seconds)


@asynccontextmanager
async def fake_service(reply):
    """A service whose replies to pushes are made up."""

    async def talk(socket):
        async for frame in socket:
            message = unpack(frame)
            for one in message if isinstance(message, list) else [message]:
                about = {"key": one["key"], "next": 1, "kept": 64, "max_frame_bytes": 1 << 20, "new": True}
                answer = {"type": "opened", **about} if one["type"] == "open" else reply(one)
                if answer is not None:
                    await socket.send(pack(answer))

    async with websockets.serve(talk, "127.0.0.1", 0, subprotocols=["nystream.v1.msgpack"]) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def held(serve, make_app, monkeypatch):
    """A service that takes in no record until it is let."""
    app = make_app()
    engine, go = app.state.service.batcher._engine, threading.Event()
    push = engine.push

    def wait_and_push(pushes):
        go.wait(20)
        return push(pushes)

    monkeypatch.setattr(engine, "push", wait_and_push)
    yield serve(app), go
    go.set()


def test_a_record_that_failed_is_not_sent_again(serve, make_app, monkeypatch):
    app = make_app()
    engine, failed = app.state.service.batcher._engine, []
    push = engine.push

    def fail(pushes):
        chosen = [record.record == [3, 3] for _, record in pushes]
        if any(chosen) and len(pushes) > 1:
            return [reply for one in pushes for reply in engine.push([one])]
        failed.extend(record for record in chosen if record)
        return [RequestError("failed", "it could not be processed")] if any(chosen) else push(pushes)

    monkeypatch.setattr(engine, "push", fail)
    server = serve(app)

    async def work():
        async with ns.AsyncClient(server.url) as client:
            results = await all_of([client.push("k", [number, number]) for number in range(1, 7)])
            return results, await client.open("k")

    results, number = asyncio.run(work())
    assert outcomes(results) == [1, 2, "RuntimeError", 3, 4, 5]
    assert str(results[2]) == "failed: it could not be processed"
    assert (number, len(failed)) == (6, 1)


def test_a_conflict_is_raised_and_the_next_record_has_the_expected_number():
    def reply(push):
        if push["number"] < 5:
            error = {"code": "conflict", "message": "another record was sent with this number", "expected": 5}
            return {"type": "error", "key": push["key"], "number": push["number"], **error}
        return {"type": "answer", "key": push["key"], "number": push["number"], "answers": [{"token": push["number"]}]}

    async def work():
        async with fake_service(reply) as url, ns.AsyncClient(url, timeout=10) as client:
            with pytest.raises(ValueError, match="conflict: another record"):
                await client.push("k", [1, 2])
            return await client.push("k", [1, 2])

    assert asyncio.run(work()) == [{"token": 5}]


def test_an_error_about_a_whole_frame_reaches_everyone():
    async def work():
        error = {"type": "error", "code": "bad_request", "message": "not valid msgpack"}
        async with fake_service(lambda _: error) as url, ns.AsyncClient(url) as client:
            return await all_of([client.push(key, [1, 2]) for key in "ab"])

    results = asyncio.run(work())
    assert outcomes(results) == ["ValueError"] * 2
    assert "not valid msgpack" in str(results[0])


def test_replies_that_make_no_sense_reach_everyone():
    async def work():
        async with fake_service(lambda _: {"type": "answer", "key": "k"}) as url, ns.AsyncClient(url) as client:
            return await all_of([client.push("k", [1, 2])])

    assert outcomes(asyncio.run(work())) == ["KeyError"]


def test_records_without_room_are_told_of_a_lost_connection(held):
    server, go = held

    async def work():
        async with ns.AsyncClient(server.url, retry=False) as client:
            pushes = [asyncio.create_task(client.push("k", [1, 2])) for _ in range(40)]
            await asyncio.sleep(0.3)
            threading.Timer(0.2, go.set).start()
            await asyncio.to_thread(server.kill)
            return await all_of(pushes)

    assert outcomes(asyncio.run(work())) == ["ConnectionError"] * 40


def test_close_comes_after_the_records_before_it(serve):
    server = serve()

    async def work():
        async with ns.AsyncClient(server.url, window=4) as client:
            pushes = [asyncio.create_task(client.push("k", [1, 2])) for _ in range(30)]
            await asyncio.sleep(0)
            closes = [asyncio.create_task(client.close("k")) for _ in range(2)]
            await asyncio.sleep(0)
            for call in (client.push("k", [1, 2]), client.open("k")):
                with pytest.raises(ValueError, match="key='k' is being closed"):
                    await call
            results = await all_of(pushes)
            assert await all_of(closes) == [None, None]
            return results, await client.open("k")

    results, number = asyncio.run(work())
    assert outcomes(results) == list(range(1, 31))
    assert number == 1


def test_close_survives_a_restart(held, serve, make_app):
    server, go = held

    async def work():
        async with ns.AsyncClient(server.url) as client:
            pushes = [asyncio.create_task(client.push("k", [1, 2])) for _ in range(40)]
            closing = asyncio.create_task(client.close("k"))
            await asyncio.sleep(0.2)
            threading.Timer(0.2, go.set).start()
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(serve, port=server.port)
            results = await all_of([*pushes, closing])
            return results, await client.open("k")

    (*results, closed), number = asyncio.run(work())
    assert outcomes(results) == list(range(1, 41))
    assert (closed, number) == (None, 1)


def test_records_that_were_not_sent_are_withdrawn(serve):
    server = serve()

    async def work():
        async with ns.AsyncClient(server.url) as client:
            await client.push("k", [0, 0])
            client._timeout = 0.3
            await asyncio.to_thread(server.kill)
            results = await all_of([client.push("k", [number, 2]) for number in range(100)])
            assert not client._streams["k"].waiting
            cancelled = asyncio.create_task(client.push("k", [0, 2]))
            await asyncio.sleep(0.05)
            cancelled.cancel()
            await asyncio.to_thread(serve, port=server.port)
            client._timeout = None
            return results, await client.push("k", [1, 1]), await client.open("k")

    results, answers, number = asyncio.run(work())
    assert outcomes(results) == ["TimeoutError"] * 100
    assert "the record was not sent and is withdrawn" in str(results[0])
    assert f"no connection to {server.url}" in str(results[0])
    assert (answers[0]["token"], number) == (2, 3)


def test_a_record_that_was_sent_keeps_its_room_after_a_timeout(held):
    server, go = held

    async def work():
        async with ns.AsyncClient(server.url, window=4) as client:
            await client.open("k")
            client._timeout = 0.5
            results = await all_of([client.push("k", [1, 2]) for _ in range(10)])
            client._timeout = None
            go.set()
            while await client.open("k") < 5:
                await asyncio.sleep(0.05)
            return results, await client.push("k", [1, 2])

    results, answers = asyncio.run(work())
    assert outcomes(results) == ["TimeoutError"] * 10
    fates = ["was sent and may still be taken" in str(result) for result in results]
    assert fates == [True] * 4 + [False] * 6
    assert answers[0]["token"] == 5


def test_open_asks_for_the_number(serve, http):
    server = serve()

    async def work():
        async with ns.AsyncClient(server.url) as client, ns.AsyncClient(server.url) as other:
            numbers = [await client.open("k")]
            await client.push_many(["k"] * 5, [[1, 2]] * 5)
            numbers.append(await client.open("k"))
            await other.push("k", [1, 2])
            numbers.append(await client.open("k"))
            await other.close("k")
            results = await all_of([client.push("k", [1, 2]) for _ in range(40)])
            numbers.append(await client.open("k"))
            return numbers, results, await client.push("k", [1, 2])

    numbers, results, answers = asyncio.run(work())
    assert numbers == [1, 6, 7, 1]
    assert outcomes(results) == ["ValueError"] * 40
    assert "unknown_stream" in str(results[0])
    assert answers[0]["token"] == 1


def test_a_certificate_that_is_not_trusted_is_an_error_at_once(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, "-days", "2", "-subj", "/CN=localhost"],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def work():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        async with server, ns.AsyncClient(f"wss://localhost:{server.sockets[0].getsockname()[1]}") as client:
            return await all_of([client.open("k")])

    (result,) = asyncio.run(work())
    assert isinstance(result, ConnectionError)
    assert "CERTIFICATE_VERIFY_FAILED" in str(result)


def test_a_timeout_says_why_there_is_no_connection(caplog):
    why = r"timeout=2\.0 seconds; no connection to ws://127\.0\.0\.1:9.*Connect call failed"
    with ns.Client("ws://127.0.0.1:9", timeout=2.0) as client, pytest.raises(TimeoutError, match=why):
        client.open("k")
    assert len([record for record in caplog.records if "trying again" in record.getMessage()]) == 1


def test_a_client_that_was_disconnected_says_so(held):
    server, _ = held
    client = ns.Client(server.url)
    client.open("k")
    caught = []

    def push():
        try:
            client.push_many(["k"] * 40, [[1, 2]] * 40)
        except ConnectionError as error:
            caught.append(error)

    thread = threading.Thread(target=push)
    thread.start()
    while not client._client._streams["k"].sent:
        pass
    client.disconnect()
    client.disconnect()
    thread.join(5)
    assert not thread.is_alive()
    assert len(caught) == 1
    for call in (lambda: client.push("k", [1, 2]), lambda: client.open("k"), lambda: client.close("k")):
        with pytest.raises(ConnectionError, match="the client was closed; create another one"):
            call()


def test_a_window_must_be_positive():
    with pytest.raises(ValueError, match="window=0"):
        ns.AsyncClient("ws://localhost:8000", window=0)

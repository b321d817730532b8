"""The clients, against a real server on a loopback port."""

import asyncio

import pytest

import nystream as ns
from nystream.data.reader import RecordError


def test_a_client_pushes_and_resumes(serve, records, uninterrupted):
    server = serve()
    sent = [records(0, number) for number in range(1, 13)]
    with ns.Client(server.url) as client:
        assert client.open("k") == 1
        got = [client.push("k", record) for record in sent[:4]]
        got += client.push_many(["k"] * 4, sent[4:8])
        with pytest.raises(RecordError, match="'oops', which is not a number"):
            client.push("k", {"a": "oops", "b": 1})
    with ns.Client(server.url, window=2) as client:
        got += client.push_many(["k"] * 4, sent[8:])
        assert client.open("k") == 14
        client.close("k")
        assert client.open("k") == 1
    numbers = [*range(1, 9), *range(10, 14)]
    expected = [[a | {"record": n} for a in of] for n, of in zip(numbers, uninterrupted(sent), strict=True)]
    assert got == expected


def test_a_client_survives_a_restart(serve, make_app, records, uninterrupted):
    async def work():
        server = serve()
        port = server.port
        sent = [records(0, number) for number in range(1, 41)]
        async with ns.AsyncClient(server.url) as client:
            got = await client.push_many(["k"] * 20, sent[:20])
            pushing = asyncio.create_task(client.push_many(["k"] * 20, sent[20:]))
            await asyncio.sleep(0.005)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(serve, port=port)
            return got + await pushing, sent

    got, sent = asyncio.run(work())
    assert got == uninterrupted(sent)


def test_refusals_reach_the_caller(serve, tmp_path):
    (tmp_path / "tokens").write_text("alice:0123456789abcdef\n")
    server = serve(tokens_file=tmp_path / "tokens")
    with ns.Client(server.url) as client, pytest.raises(PermissionError, match="refused the connection"):
        client.open("k")
    with ns.Client(server.url, "0123456789abcdef") as client:
        assert client.push("k", [1, 2])[0]["token"] == 1
        with pytest.raises(ValueError, match='"key" is'):
            client.open("")
    with ns.Client("ws://127.0.0.1:9", retry=False) as client, pytest.raises(ConnectionError):
        client.open("k")
    with ns.Client("ws://127.0.0.1:9", timeout=0.2) as client, pytest.raises(TimeoutError, match=r"timeout=0\.2"):
        client.open("k")


def test_a_limited_rate_is_waited_for(serve):
    server = serve(max_rate=50)
    with ns.Client(server.url) as client:
        answers = client.push_many(["k"] * 80, [[1, 2]] * 80)
    assert [answer[0]["token"] for answer in answers] == list(range(1, 81))


@pytest.mark.slow
def test_large_records_survive_a_service_that_is_killed_again_and_again(serve, records, uninterrupted):
    """More is on its way than fits into a frame, so that frames are divided whenever the streams resume."""
    streams, count, kills = 10, 120, 3
    sent = [
        [records(stream, number) | {"more": "x" * 40_000} for number in range(1, count + 1)]
        for stream in range(streams)
    ]

    async def work():
        server = serve()
        async with ns.AsyncClient(server.url, timeout=60) as client:
            pushes = [
                asyncio.create_task(client.push(f"stream {stream}", record))
                for stream in range(streams)
                for record in sent[stream]
            ]
            for kill in range(1, kills + 1):
                while sum(push.done() for push in pushes) < len(pushes) * kill // (kills + 1):
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(server.kill)
                server = await asyncio.to_thread(serve, port=server.port)
            answers = await asyncio.gather(*pushes)
            return answers, [await client.open(f"stream {stream}") for stream in range(streams)]

    answers, numbers = asyncio.run(work())
    assert numbers == [count + 1] * streams
    for stream in range(streams):
        assert answers[stream * count : (stream + 1) * count] == uninterrupted(sent[stream])

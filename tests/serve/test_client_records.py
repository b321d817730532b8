"""What clients send: values of all kinds, records that cannot be sent, and frames of a bounded size."""

import asyncio
import datetime

import numpy as np
import pytest

import nystream as ns
from nystream.serve.clients.frames import MAX_RECORD_DEPTH, frames, packed_record, push_message, push_start
from nystream.serve.protocol import messages, pack, unpack


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("record", "plain"),
    [
        ({"a": np.float32(1.5), "b": np.int64(2), "c": np.bool_(True)}, {"a": 1.5, "b": 2, "c": True}),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        (np.ones((2, 1), np.float32), [[1.0], [1.0]]),
        ({"time": datetime.datetime(2024, 1, 1, 5)}, {"time": "2024-01-01T05:00:00"}),
        ({"time": datetime.date(2024, 1, 1)}, {"time": "2024-01-01"}),
        ({"time": np.datetime64("2024-01-01T05", "ns")}, {"time": "2024-01-01T05:00:00.000000000"}),
        ((1, None, "x"), [1, None, "x"]),
        ([1 << 70, -(10**400)], [float(1 << 70), -np.inf]),
        (nested(MAX_RECORD_DEPTH), nested(MAX_RECORD_DEPTH)),
    ],
)
def test_values_become_plain(record, plain):
    assert unpack(packed_record(record)) == plain


def test_times_with_a_time_zone_stay_times():
    time = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert unpack(packed_record({"time": time})) == {"time": time}


LOOP = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"a": object()}, "of type object, which cannot be sent"),
        ({"a": 1j}, "of type complex, which cannot be sent"),
        ({1: 2}, "record has the key 1, but all keys of a dict must be text"),
        (nested(MAX_RECORD_DEPTH + 1), "more than 30 lists and dicts within each other"),
        (LOOP, "more than 30 lists and dicts within each other"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_push_alone(serve, record, error):
    server = serve()

    async def work():
        async with ns.AsyncClient(server.url) as client:
            await client.push_many(["k", "other"], [[1, 2]] * 2)
            pushes = client.push("k", record), client.push("k", [1, 2]), client.push("other", [1, 2])
            return await asyncio.wait_for(asyncio.gather(*pushes, return_exceptions=True), 10)

    refused, *answers = asyncio.run(work())
    assert isinstance(refused, ValueError)
    assert error in str(refused)
    assert [answer[0]["token"] for answer in answers] == [2, 2]


def test_frames_are_within_the_limit():
    sent = [push_message(push_start("k"), number, packed_record("x" * number)) for number in range(1, 200)]
    limit = 1000
    made = list(frames(sent, limit))
    assert all(len(frame) <= limit for frame in made)
    assert len(made) < len(sent) / 2
    received = [message for frame in made for message in messages(frame, "msgpack")]
    assert received == [
        {"type": "push", "key": "k", "number": number, "record": "x" * number} for number in range(1, 200)
    ]
    assert list(frames([pack("x" * 2000), pack(1)], limit)) == [pack("x" * 2000), pack(1)]
    assert list(frames([], limit)) == []


def test_a_record_that_is_larger_than_a_frame_is_refused(serve):
    server = serve()
    with ns.Client(server.url, timeout=10) as client:
        with pytest.raises(ValueError, match="the service accepts max_frame_bytes=1048576; push less"):
            client.push("k", {"a": 1, "b": 2, "more": "x" * (1 << 20)})
        assert client.push("k", {"a": 1, "b": 2, "more": "x" * ((1 << 20) - 200)})[0]["token"] == 1


def test_a_frame_that_is_too_large_on_the_way_is_an_error(serve):
    """Something between client and service, here the server, accepts less than the service says."""
    server = serve(max_frame_bytes=4 << 20)
    server.limit_frames(1 << 20)
    with ns.Client(server.url, timeout=10) as client:
        client.open("k")
        with pytest.raises(ConnectionError, match="1009"):
            client.push("k", {"a": 1, "b": 2, "more": "x" * (2 << 20)})
        assert client.push("k", [1, 2])[0]["token"] == 1


def test_many_records_at_once(serve):
    server = serve(max_frame_bytes=1 << 16)
    keys = [f"stream {number}" for number in range(100)]
    with ns.Client(server.url, timeout=30) as client:
        for token in (1, 2):
            answers = client.push_many(keys, [{"a": 1, "b": 2, "more": "x" * 2000}] * len(keys))
            assert [answer[0]["token"] for answer in answers] == [token] * len(keys)

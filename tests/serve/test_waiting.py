"""Streams come back a few at a time: others go on, and the requests to a stream stay in order."""

import pytest

from nystream.serve.batcher import Request
from nystream.serve.protocol import Push, RequestError
from nystream.serve.residents import StreamName
from nystream.serve.waiting import Waiting

KEYS = tuple(f"k{i}" for i in range(20))


def request(kind, key, number=None):
    return Request(kind, "", Push(key, number, [1, 2]) if kind == "push" else key, lambda _: None, 0.0)


@pytest.fixture
def engine(make_app):
    """Has 20 streams with a few records each, which are not in memory."""
    engine = make_app().state.service.batcher._engine
    engine.open([StreamName("", key) for key in KEYS])
    for number in range(1, 5):
        engine.push([("", Push(key, number, [1, 2])) for key in KEYS])
    for key in KEYS[1:]:
        engine.residents.drop(StreamName("", key))
    return engine


def test_streams_are_restored_in_turns_while_others_go_on(engine, monkeypatch):
    monkeypatch.setattr("nystream.serve.waiting.RESTORE_SECONDS", 0.0)
    monkeypatch.setattr("nystream.serve.residents.REPLAYED_TOGETHER", 30)
    waiting, turns = Waiting(engine), []
    pushes = [request("push", key, 5) for key in KEYS]
    assert waiting.admit(pushes) == pushes[:1]  # the others wait
    assert len(waiting) == 19
    while waiting:
        ready, refused = waiting.turn(100)
        assert not refused
        assert waiting.admit([request("push", "k0", 6)])
        turns.append([one.value.key for one in ready])
    assert [len(keys) for keys in turns] == [3, 3, 3, 3, 3, 3, 1]  # each is a snapshot and four records
    assert [key for keys in turns for key in keys] == list(KEYS[1:])


def test_the_requests_to_a_stream_stay_in_order(engine):
    waiting = Waiting(engine)
    requests = [request("push", "k1", 5), request("close", "k1"), request("open", "k1"), request("push", "k1", 1)]
    assert waiting.admit([*requests, request("find", "k1")])[0].kind == "find"
    assert waiting.turn(1) == (requests[:1], [])
    assert waiting.admit([request("push", "k1", 2)]) == []
    ready, _ = waiting.turn(100)
    assert ready[:3] == requests[1:]
    assert len(ready) == 4
    assert len(waiting) == 0


def test_a_stream_can_be_opened_after_a_refusal(engine):
    waiting = Waiting(engine)
    requests = [request("push", "new", 1), request("open", "new"), request("push", "new", 1)]
    assert waiting.admit(requests) == []
    ready, refused = waiting.turn(100)
    assert [(one, error.code) for one, error in refused] == [(requests[0], "unknown_stream")]
    assert ready == requests[1:2]
    engine.open([StreamName("", "new")])
    assert waiting.turn(100) == (requests[2:], [])


def test_a_store_that_fails_refuses_what_waits(engine, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError

    waiting = Waiting(engine)
    waiting.admit([request("push", key, 5) for key in KEYS])
    monkeypatch.setattr(engine.residents, "load", fails)
    ready, refused = waiting.turn(100)
    assert ready == []
    assert all(isinstance(error, RequestError) for _, error in refused)
    assert len(refused) == 19
    assert len(waiting) == 0


def test_a_batch_over_http(http):
    client = http()
    for key in KEYS:
        client.post("/v1/streams", json={"key": key})
        reply = client.post(f"/v1/streams/{key}/records", json={"records": [[1, 2]] * 5, "number": 1})
        assert [result["number"] for result in reply.json()["results"]] == [1, 2, 3, 4, 5]
    client.app.state.service.batcher._engine.residents.drop(StreamName("", "k3"))
    reply = client.post("/v1/streams/k3/records", json={"records": [[1, 2]] * 5, "number": 4})
    assert [result["number"] for result in reply.json()["results"]] == [4, 5, 6, 7, 8]

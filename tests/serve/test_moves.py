"""Streams that move between two processes, which are two engines here, and back."""

import pytest

from nystream.live import Sessions
from nystream.serve.engine import Engine
from nystream.serve.metrics import Metrics
from nystream.serve.migration import connected, identity
from nystream.serve.protocol import Push, RequestError
from nystream.serve.residents import StreamName
from nystream.serve.service import open_store
from nystream.serve.settings import Settings
from nystream.serve.stores.store import Segment
from nystream.serve.view.looking import Look, looked

X, Y = StreamName("", "x"), StreamName("", "y")


@pytest.fixture(params=["redis", "folder"])
def engines(request, model, tmp_path):
    """Two processes with one store."""
    is_redis = request.param == "redis"
    store = f"{request.getfixturevalue('redis_url')}#{tmp_path.name}" if is_redis else f"{tmp_path}/streams/"
    made = []
    for _ in range(2):
        settings = Settings(store=store, snapshot_every=1000)
        sessions = Sessions(model, capacity=4, backend="torch")
        name = identity(model, sessions.reader)
        made.append(Engine(sessions, open_store(settings, model, sessions.reader), name, settings, Metrics()))
    yield made
    for engine in made:
        engine.store.close()


@pytest.fixture
def push(records):
    """Push numbers of x, or a record without one; return the values of the answers, or codes of errors."""

    def push(engine, *numbers, key="x"):
        record = records(0, 1)
        pushes = [("", Push(key, number, record if number is None else records(0, number))) for number in numbers]
        return [
            reply.code if isinstance(reply, RequestError) else reply["answers"][0]["output"]["sum"]
            for reply in engine.push(pushes)
        ]

    return push


@pytest.fixture
def truth(uninterrupted, records):
    """What x says to its first records."""
    return [answers[0]["output"]["sum"] for answers in uninterrupted([records(0, n) for n in range(1, 31)])]


def close(got, expected):
    assert got == pytest.approx(expected, abs=1e-5)


def test_a_stream_that_comes_back_continues(engines, push, truth):
    a, b = engines
    a.open([X])
    close(push(a, 1, 2, 3), truth[:3])
    close(push(b, 4, 5, 6), truth[3:6])
    assert push(a, 4) in ([pytest.approx(truth[3], abs=1e-5)], ["moved"])  # the next one, as far as it knows
    close(push(a, 7, 8), truth[6:8])
    assert push(b, 7) in ([pytest.approx(truth[6], abs=1e-5)], ["moved"])
    close(push(b, 9), truth[8:9])
    close(push(a, 10), truth[9:10])  # a number that is too high for what it has in memory


def test_looking_at_a_stream_does_not_revive_an_old_one(engines, push, truth):
    a, b = engines
    a.open([X, Y])
    push(a, *range(1, 11), key="y")
    close(push(a, *range(1, 11)), truth[:10])
    a.residents.note(a.residents.get(X), 1 << 20)  # a snapshot is due
    close(push(b, *range(11, 21)), truth[10:20])
    seen = looked(a, "", Look(key="x", with_answers=True))
    assert seen["stream"]["records"] == 20
    assert len(seen["kept"]) == 20
    a.tidy(100)
    replies = push(a, 21)
    close(replies, truth[20:21])
    assert a.find(X)["next"] == 22
    close(push(b, 22), truth[21:22])


def test_a_stream_that_was_opened_anew_elsewhere(engines, push, truth):
    a, b = engines
    a.open([X])
    close(push(a, 1, 2, 3, 4, 5), truth[:5])
    push(b, 6)
    b.close(X)
    b.open([X])
    close(push(b, 1), truth[:1])
    assert a.find(X)["next"] == 2
    close(push(a, 2), truth[1:2])
    push(b, 3)
    assert push(a, 1) == pytest.approx(truth[:1], abs=1e-5)
    assert a.find(X)["next"] == 4


def test_an_append_that_fails_in_any_way_applies_nothing_twice(engines, push, truth, monkeypatch):
    a, _ = engines
    a.open([X])
    close(push(a, 1, 2), truth[:2])
    with monkeypatch.context() as patched:
        patched.setattr(a.store, "append", lambda rows: (_ for _ in ()).throw(ZeroDivisionError()))
        assert push(a, 3) == ["store_failed"]
    close(push(a, 3, 4), truth[2:4])


def test_only_segments_that_follow_each_other_are_read():
    first, second, third = Segment(0, 0, None, [b""] * 3), Segment(3, 3, {}, [b""] * 2), Segment(9, 9, {}, [b""])
    assert connected([first, second], 5) == [first, second]
    assert connected([first, second], 6) == []
    assert connected([first, third], 10) == [third]


@pytest.mark.parametrize("store", ["redis://localhost", "streams/"])
def test_a_shared_store_needs_the_log(model, store):
    with pytest.raises(ValueError, match="two processes could advance a stream between its snapshots"):
        open_store(Settings(store=store, durability="snapshot"), model)

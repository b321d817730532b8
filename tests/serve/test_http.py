"""Streams and records over HTTP."""

import json
import re

import pytest

from nystream.serve.protocol import Push, pack, unpack


def push(client, key, record, number=None, **more):
    body = {"record": record, **more} | ({} if number is None else {"number": number})
    return client.post(f"/v1/streams/{key}/records", json=body)


def test_records_are_answered_as_a_session_does(http, records, uninterrupted):
    client = http()
    opened = client.post("/v1/streams", json={"key": "north"})
    assert opened.status_code == 201
    assert opened.json() == {"key": "north", "next": 1, "kept": 64, "max_frame_bytes": 1 << 20, "new": True}
    sent = [records(0, number) for number in range(1, 11)]
    replies = [push(client, "north", record, number).json() for number, record in enumerate(sent[:4], 1)]
    replies.append(client.post("/v1/streams/north/records", json={"records": sent[4:], "number": 5}).json())
    results = [result for reply in replies for result in reply["results"]]
    assert [result["number"] for result in results] == list(range(1, 11))
    assert [result["answers"] for result in results] == uninterrupted(sent)
    assert client.post("/v1/streams", json={"key": "north"}).json()["next"] == 11


def test_a_record_sent_again_is_answered_again_and_applied_once(http, records, uninterrupted):
    client = http(keep_answers=3)
    client.post("/v1/streams", json={"key": "a/b ü"})
    sent = [records(0, number) for number in range(1, 8)]
    first = [push(client, "a/b ü", record, number).json() for number, record in enumerate(sent[:5], 1)]
    for number in (3, 4, 5):
        assert push(client, "a/b ü", sent[number - 1], number).json() == first[number - 1]
    conflict = push(client, "a/b ü", {"a": 9, "b": 9}, 5)
    assert conflict.status_code == 409
    assert conflict.json()["error"]["code"] == "conflict"
    assert conflict.json()["error"]["expected"] == 6
    old = push(client, "a/b ü", sent[1], 2)
    assert old.status_code == 409
    assert old.json()["error"]["code"] == "too_old"
    assert old.json()["error"]["expected"] == 6
    gap = push(client, "a/b ü", sent[6], 7)
    assert gap.status_code == 409
    assert gap.json()["error"] == {
        "code": "gap",
        "message": "number 7 of key 'a/b ü' came, but number 6 is expected",
        "expected": 6,
    }
    rest = [push(client, "a/b ü", record).json() for record in sent[5:]]  # without numbers
    assert [reply["results"][0]["answers"] for reply in first + rest] == uninterrupted(sent)


def test_a_bad_record_uses_up_its_number_and_changes_nothing(http, uninterrupted):
    client = http()
    client.post("/v1/streams", json={"key": "k"})
    good = [{"a": 1, "b": 2}, {"a": 2, "b": 1}]
    first = push(client, "k", good[0], 1).json()["results"][0]
    bad = push(client, "k", {"a": 1, "b": "oops"}, 2)
    assert bad.status_code == 200
    assert bad.json()["results"] == [
        {"number": 2, "error": {"code": "bad_record", "message": "b is 'oops', which is not a number"}}
    ]
    assert push(client, "k", {"a": 1, "b": "oops"}, 2).json() == bad.json()  # its answer is stored
    assert push(client, "k", good[1], 2).json()["error"]["code"] == "conflict"
    last = push(client, "k", good[1], 3).json()["results"][0]
    for result, expected in zip((first, last), uninterrupted(good), strict=True):
        assert [answer | {"record": 0} for answer in result["answers"]] == [
            answer | {"record": 0} for answer in expected
        ]


def test_the_same_number_twice_in_one_batch(http, records):
    client = http()
    client.post("/v1/streams", json={"key": "k"})
    engine = client.app.state.service.batcher._engine
    pushed = [("", Push("k", number, records(0, 1))) for number in (1, 1, 3, 2)]
    first, again, gap, second = engine.push(pushed)
    assert first == again
    assert gap.code == "gap"
    assert second["number"] == 2


def test_streams_are_listed_described_and_deleted(http, records):
    client = http()
    assert client.get("/v1/streams").json() == {"streams": []}
    assert client.get("/v1/streams/a").status_code == 404
    assert push(client, "a", records(0, 1)).status_code == 404
    for key in "cab":
        client.post("/v1/streams", json={"key": key})
    push(client, "a", records(0, 1))
    assert client.get("/v1/streams/a").json() == {"key": "a", "next": 2, "kept": 64, "in_memory": True}
    listed = client.get("/v1/streams", params={"limit": 2, "after": "a"}).json()["streams"]
    assert [stream["key"] for stream in listed] == ["b", "c"]
    assert client.delete("/v1/streams/a").status_code == 204
    assert client.delete("/v1/streams/a").status_code == 404
    assert client.post("/v1/streams", json={"key": "a"}).json()["next"] == 1


def test_msgpack(http):
    client = http()
    headers = {"content-type": "application/msgpack", "accept": "application/msgpack"}
    opened = client.post("/v1/streams", content=pack({"key": "k"}), headers=headers)
    assert unpack(opened.content)["new"] is True
    reply = client.post("/v1/streams/k/records", content=pack({"record": [1.5, 2]}), headers=headers)
    assert unpack(reply.content)["results"][0]["number"] == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not valid json"),
        (b"[]", "the body is a list"),
        (b"{}", "either"),
        (b'{"record": 1, "records": [1]}', "either"),
        (b'{"records": []}', "at least one"),
        (b'{"record": 1, "number": 0}', '"number" is 0'),
        (b'{"record": 1, "number": true}', '"number" is True'),
        (b'{"record": 1, "number": 9223372036854775807}', '"number"'),
        (b'{"record": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "json|each other"),
        (b'{"record": ' + b"[" * 40 + b"]" * 40 + b"}", "each other"),
        (b'{"record": ' + b"9" * 5000 + b"}", "not valid json"),
    ],
)
def test_bad_bodies(http, body, said):
    client = http()
    client.post("/v1/streams", json={"key": "k"})
    reply = client.post("/v1/streams/k/records", content=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "bad_request"
    assert re.search(said, reply.json()["error"]["message"])
    assert client.get("/v1/streams/k").json()["next"] == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", 7, None, "\ud800"])
def test_bad_keys(http, key):
    reply = http().post("/v1/streams", content=json.dumps({"key": key}))
    assert reply.status_code == 400
    assert '"key" is' in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "record", [10**30, 10**400, "\ud800", None, True, [[1], [2]], {"a": 10**30, "b": 1}, [1e999, 1]]
)
def test_odd_records_are_answered_and_logged(http, make_app, record):
    client = http()
    client.post("/v1/streams", json={"key": "k"})
    reply = client.post("/v1/streams/k/records", content=json.dumps({"record": record}))
    assert reply.status_code == 200
    client.stop()
    again = http(make_app())
    assert (
        again.post("/v1/streams/k/records", content=json.dumps({"record": record, "number": 1})).json() == reply.json()
    )


def test_other_paths_methods_and_parameters(http):
    client = http()
    for status, reply in (
        (404, client.get("/v2")),
        (405, client.put("/v1/streams")),
        (400, client.get("/v1/streams?limit=x")),
        (400, client.get("/v1/streams?limit=0")),
    ):
        assert reply.status_code == status
        assert set(reply.json()["error"]) == {"code", "message"}


def test_a_large_body_is_refused(http):
    reply = http(max_frame_bytes=100).post("/v1/streams", json={"key": "k", "more": "x" * 100})
    assert reply.status_code == 413


def test_metrics_health_and_description(http, records):
    client = http()
    client.post("/v1/streams", json={"key": "k"})
    push(client, "k", records(0, 1))
    push(client, "k", {"a": 1})
    text = client.get("/metrics").text
    assert 'nystream_records_total{outcome="answered"} 1.0' in text
    assert 'nystream_records_total{outcome="rejected"} 1.0' in text
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
    paths = client.get("/openapi.json").json()["paths"]
    streams = {"/v1/streams", "/v1/streams/{key}", "/v1/streams/{key}/records"}
    assert set(paths) == {*streams, "/v1/status", "/v1/demo"}

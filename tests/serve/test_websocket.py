"""Streams over a WebSocket."""

import json

import pytest
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from nystream.serve.protocol import pack, unpack

URL = "ws://localhost/v1/stream"


def frames(socket, count):
    """The next messages, whatever frames they come in."""
    found = []
    while len(found) < count:
        frame = socket.receive_json()
        found += frame if isinstance(frame, list) else [frame]
    return found


def test_one_connection_carries_many_streams(http, records, uninterrupted):
    with http().websocket_connect(URL) as socket:
        socket.send_json([{"type": "open", "key": key} for key in "ab"])
        about = {"next": 1, "kept": 64, "max_frame_bytes": 1 << 20, "new": True}
        assert frames(socket, 2) == [{"type": "opened", "key": key, **about} for key in "ab"]
        sent = {key: [records(stream, number) for number in range(1, 6)] for stream, key in enumerate("ab")}
        socket.send_json({"type": "push", "key": "a", "number": 1, "records": sent["a"]})
        for number, record in enumerate(sent["b"], 1):
            socket.send_json({"type": "push", "key": "b", "number": number, "record": record})
        answers = frames(socket, 10)
        for key in "ab":
            mine = [answer for answer in answers if answer["key"] == key]
            assert [answer["number"] for answer in mine] == [1, 2, 3, 4, 5]
            assert [answer["answers"] for answer in mine] == uninterrupted(sent[key])
        socket.send_json({"type": "close", "key": "a"})
        assert frames(socket, 1) == [{"type": "closed", "key": "a"}]
        socket.send_json({"type": "push", "key": "a", "record": sent["a"][0]})
        assert frames(socket, 1)[0]["code"] == "unknown_stream"


def test_msgpack_frames(http):
    with http().websocket_connect(URL, subprotocols=["nystream.v1.msgpack"]) as socket:
        assert socket.accepted_subprotocol == "nystream.v1.msgpack"
        socket.send_bytes(pack([{"type": "open", "key": "k"}, {"type": "push", "key": "k", "record": [1, 2]}]))
        found = []
        while len(found) < 2:
            frame = unpack(socket.receive_bytes())
            found += frame if isinstance(frame, list) else [frame]
        assert [message["type"] for message in found] == ["opened", "answer"]


@pytest.mark.parametrize(
    "message",
    [
        7,
        {"type": "fly", "key": "k"},
        {"type": 1},
        {"type": "open"},
        {"type": "open", "key": ""},
        {"type": "push", "key": "k"},
        {"type": "push", "key": "k", "records": "no"},
        {"type": "push", "key": "k", "record": 1, "number": -1},
        {"type": "push", "key": "k", "records": [1] * 2000},
    ],
)
def test_bad_messages_are_refused_and_the_connection_stays(http, message):
    with http().websocket_connect(URL) as socket:
        socket.send_json(message)
        (refused,) = frames(socket, 1)
        assert (refused["type"], refused["code"]) == ("error", "bad_request")
        socket.send_text("{oops")
        assert "not valid json" in frames(socket, 1)[0]["message"]
        socket.send_json({"type": "open", "key": "k"})
        assert frames(socket, 1)[0]["next"] == 1


def nested(depth):
    record = 1
    for _ in range(depth):
        record = [record]
    return record


def test_a_bad_message_is_refused_without_its_neighbours(http):
    with http().websocket_connect(URL) as socket:
        socket.send_json([{"type": "open", "key": key} for key in "ab"])
        frames(socket, 2)
        socket.send_json(
            [
                {"type": "push", "key": "a", "number": 1, "record": [1, 2]},
                {"type": "push", "key": "b", "number": 1, "record": nested(40)},
                7,
                {"type": "push", "key": "a", "number": 2, "record": [1, 2]},
                {"key": "b", "number": 2},
            ]
        )
        found = frames(socket, 5)
        answered = [(reply["key"], reply["number"]) for reply in found if reply["type"] == "answer"]
        assert answered == [("a", 1), ("a", 2)]
        refused = [(reply["code"], reply.get("key"), reply.get("number")) for reply in found if "code" in reply]
        assert refused == [("bad_request", "b", 1), ("bad_request", None, None), ("bad_request", "b", 2)]
        # The frame is no part of the depth: alone or with others, a record may be as deep.
        socket.send_json({"type": "push", "key": "a", "number": 3, "record": nested(31)})
        socket.send_json([{"type": "push", "key": "a", "number": 4, "record": nested(31)}])
        assert [reply["type"] for reply in frames(socket, 2)] == ["answer", "answer"]


def test_replies_have_the_form_of_the_subprotocol_that_was_chosen(http):
    with http().websocket_connect(URL, subprotocols=["other", "nystream.v1.json", "nystream.v1.msgpack"]) as socket:
        assert socket.accepted_subprotocol == "nystream.v1.json"
        socket.send_bytes(pack({"type": "open", "key": "k"}))
        assert socket.receive_json()["next"] == 1


def test_a_path_that_there_is_not(http):
    with pytest.raises(WebSocketDenialResponse) as denied:
        http().websocket_connect("ws://localhost/v2/stream").__enter__()
    assert denied.value.status_code == 404
    assert "/v1/stream" in denied.value.text


def test_pages_of_other_sites_are_refused(http):
    client = http()
    with pytest.raises(WebSocketDisconnect):
        client.websocket_connect(URL, headers={"origin": "http://evil.example"}).__enter__()
    with client.websocket_connect(URL, headers={"origin": "http://localhost", "host": "localhost"}):
        pass
    for origin in ("http://evil.example", "http://[::1", "http://["):
        assert client.get("/v1/streams", headers={"origin": origin}).status_code == 403
    with pytest.raises(WebSocketDisconnect):
        client.websocket_connect(URL, headers={"origin": "http://["}).__enter__()
    assert client.get("/v1/streams", headers={"host": "evil.example"}).status_code == 403


def test_json_has_no_nan(http):
    """Numbers of a record may be NaN; answers never are."""
    with http().websocket_connect(URL) as socket:
        socket.send_json({"type": "open", "key": "k"})
        socket.send_text('{"type": "push", "key": "k", "record": [NaN, 1]}')
        answer = json.loads(json.dumps(frames(socket, 2)[1]), parse_constant=pytest.fail)
        assert answer["error"]["code"] == "bad_record"

"""Anything may come: no crash, no 500, and no stream changes unless a record is taken."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nystream.serve.protocol import (
    STATUS,
    RequestError,
    checked_message,
    decode,
    encode,
    loggable,
    messages,
    pack,
    unpack,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(["k", "other", "", "x" * 201]) | SCALARS
NUMBERS = st.sampled_from([None, 0, 1, 2, 3, 10**20, True, "1", 1.0])
RECORDS = st.sampled_from([[1, 2], {"a": 1, "b": 2}, [float("inf"), 1], ["1", "2"], [None, None]]) | VALUES
MESSAGES = st.fixed_dictionaries(
    {"type": st.sampled_from(["open", "push", "close", "x"]), "key": KEYS},
    optional={"number": NUMBERS, "record": RECORDS, "records": st.lists(RECORDS, max_size=3) | VALUES},
)


@given(VALUES)
def test_values_come_back(value):
    record, packed = loggable(value)
    assert pack(unpack(packed)) == packed
    assert pack(record) == packed
    assert pack(decode(encode(record, "msgpack"), "msgpack")) == packed


@given(st.binary(max_size=64), st.sampled_from(["json", "msgpack"]))
def test_any_bytes_are_messages_or_a_refusal(data, encoding):
    found = refused = None
    try:
        found = [checked_message(message) for message in messages(data, encoding)]
    except RequestError as error:
        refused = error.code
    assert refused == "bad_request" or all(isinstance(message["type"], str) for message in found)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frame=MESSAGES | st.lists(MESSAGES | VALUES, max_size=4) | VALUES, data=st.binary(max_size=20), form=st.booleans()
)
def test_any_frame(http, frame, data, form):
    """After any frame, a known stream answers, and its number has grown by the records that were answered."""
    if not hasattr(http, "client"):
        http.client = http()
    client = http.client
    with client.websocket_connect("ws://localhost/v1/stream") as socket:

        def replies():
            """Up to the reply of a stream that only this test uses."""
            found = []
            while True:
                message = socket.receive()
                if "text" in message and message["text"] is not None:
                    part = json.loads(message["text"])
                else:
                    part = unpack(message["bytes"])
                found += part if isinstance(part, list) else [part]
                if found[-1].get("key") == "the end":
                    return found

        socket.send_text(json.dumps({"type": "open", "key": "k"}))
        socket.send_text(json.dumps({"type": "open", "key": "the end"}))
        before = replies()[0]["next"]
        if form:
            socket.send_text(json.dumps(frame))
        else:
            socket.send_bytes(pack(frame))
        socket.send_bytes(data)
        socket.send_text(json.dumps({"type": "open", "key": "k"}))
        socket.send_text(json.dumps({"type": "open", "key": "the end"}))
        found = replies()
    for message in found:
        assert message["type"] != "error" or (message["code"] in STATUS and message["code"] != "failed")
    if not any(message["type"] == "closed" and message["key"] == "k" for message in found):
        taken = {m["number"] for m in found if m["type"] == "answer" and m["key"] == "k" and m["number"] >= before}
        after = [message for message in found if message["type"] == "opened" and message["key"] == "k"][-1]
        assert after["next"] == before + len(taken)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of schemathesis
def test_the_description_tells_the_truth(serve):
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    server = serve(max_streams_per_token=50)
    url = server.url.replace("ws", "http", 1)
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    checks, tried = [not_a_server_error, response_schema_conformance, status_code_conformance], []
    for operation in schema.get_all_operations():

        @given(case=operation.ok().as_strategy())
        @settings(max_examples=40, suppress_health_check=list(HealthCheck))
        def check(case):
            case.call_and_validate(checks=checks)

        check()
        tried.append(operation.ok().label)
    assert len(tried) == 7

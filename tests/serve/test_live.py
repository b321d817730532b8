"""What the page shows: the live feed, the state of the service, and records for a demonstration."""

import base64
import dataclasses
import socket
import time
from types import SimpleNamespace

import pytest
import torch
from starlette.websockets import WebSocketDisconnect

import nystream as ns
from nystream.data.columns import Column
from nystream.data.frames import FramesReader
from nystream.data.sounds import SoundReader
from nystream.data.table_reader import TableReader
from nystream.live import Sessions
from nystream.models import StreamModel
from nystream.serve.app import create_app
from nystream.serve.settings import Settings
from nystream.serve.view import live
from nystream.serve.view.activity import Activity, quantile_ms
from nystream.serve.view.demo_records import DemoRecords
from nystream.serve.view.summaries import Truths, brief

ALICE, BOB = "alice-0123456789abcdef", "bob-0123456789abcdef"
COLUMNS = (Column("load", (), 100.0), Column("kind", ("work", "holiday")), Column("wind", (), 5.0))
HOURLY = TableReader(COLUMNS, ("load",), "time", "iso", 3600.0)


def model_of(info, input_dim, output_dim=1, **options):
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3, **options)
    return ns.StreamModel(ns.ModelConfig(input_dim=input_dim, output_dim=output_dim, attention=attention), info)


def forecaster(reader):
    info = ns.ModelInfo("forecasting", reader.names, reader.targets, horizon=1, reader=reader.to_dict())
    return model_of(info, len(reader.names))


@pytest.fixture
def look(http):
    """Opens the feed of a client; messages of a type, up to the first that meets a condition."""

    def start(client, keys=(), search="", headers=None):
        socket = client.websocket_connect("ws://localhost/v1/live", headers=dict(headers or {})).__enter__()
        socket.send_json({"type": "watch", "keys": list(keys), "search": search})
        opened.append(socket)

        def until(kind, condition=lambda message: True):
            for _ in range(200):
                frame = socket.receive_json()
                for message in frame:
                    if message["type"] == kind and condition(message):
                        return message
            pytest.fail(f"no {kind}")

        socket.until = until
        return socket

    opened = []
    yield start
    for feed in opened:
        feed.__exit__(None, None, None)


def push(client, key, record, **headers):
    client.post("/v1/streams", json={"key": key}, headers=headers)
    return client.post(f"/v1/streams/{key}/records", json={"record": record}, headers=headers).json()["results"][0]


def test_answers_of_watched_streams_are_sent_and_of_no_others(http, look, records):
    client = http()
    before = [push(client, "a", records(0, number)) for number in (1, 2)]
    push(client, "b", records(1, 1))
    socket = look(client, ["a"])
    assert socket.until("answers")["results"] == before  # what the service keeps
    push(client, "b", records(1, 2))
    now = push(client, "a", records(0, 3))
    message = socket.until("answers")
    assert message == {"type": "answers", "key": "a", "results": [now], "missed": 0}
    socket.send_json({"type": "watch", "keys": ["b"]})
    assert [result["number"] for result in socket.until("answers")["results"]] == [1, 2]


def test_a_record_sent_again_is_shown_once_and_a_deleted_stream_begins_anew(http, look, records):
    client = http()
    socket = look(client, ["a"])
    first = push(client, "a", records(0, 1))
    client.post("/v1/streams/a/records", json={"record": records(0, 1), "number": 1})
    assert socket.until("answers")["results"] == [first]
    client.delete("/v1/streams/a")
    assert socket.until("closed")["key"] == "a"
    assert push(client, "a", records(0, 2))["number"] == 1
    assert socket.until("answers")["results"][0]["number"] == 1


def test_streams_are_listed_and_searched(http, look, records):
    client = http()
    for number, key in enumerate(("north-1", "north-2", "south-1")):
        push(client, key, records(number, 1))
    client.post("/v1/streams", json={"key": "south-empty"})
    socket = look(client)
    message = socket.until("streams")
    assert [stream["key"] for stream in message["streams"]] == ["north-1", "north-2", "south-1", "south-empty"]
    assert message["owned"] == 4
    assert not message["more"]
    first, empty = message["streams"][0], message["streams"][-1]
    assert (first["records"], first["in_memory"]) == (1, True)
    assert 0 <= first["seen_seconds"] < 60
    assert first["last"]["name"] == "sum"
    assert (empty["records"], empty["in_memory"], empty["seen_seconds"], empty["last"]) == (0, False, None, None)
    for search, keys in (("north", ["north-1", "north-2"]), ("-1", ["north-1", "south-1"]), ("x", [])):
        socket.send_json({"type": "watch", "search": search})
        found = socket.until("streams", lambda message, search=search: message["search"] == search)
        assert [stream["key"] for stream in found["streams"]] == keys
    socket.send_json({"type": "watch", "search": "x", "keys": ["north-1"]})  # those watched are listed in any case
    socket.until("streams", lambda message: [stream["key"] for stream in message["streams"]] == ["north-1"])


def test_a_token_sees_only_its_own_streams(http, look, records, tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"alice:{ALICE}\nbob:{BOB}\n")
    client = http(tokens_file=path)
    alice, bob = ({"authorization": f"Bearer {token}"} for token in (ALICE, BOB))
    push(client, "secret", records(0, 1), **alice)
    socket = look(client, ["secret"], headers=bob)
    assert socket.until("streams")["streams"] == []
    push(client, "secret", records(0, 2), **alice)
    mine = push(client, "secret", records(1, 1), **bob)  # a stream of his own
    assert socket.until("answers")["results"] == [mine]
    with pytest.raises(WebSocketDisconnect):
        client.websocket_connect("ws://localhost/v1/live").__enter__()


def test_nothing_is_observed_unless_someone_looks(http, look, records):
    client = http()
    batcher = client.app.state.service.batcher
    assert not batcher.observers
    socket = look(client, ["a"])
    socket.until("status")
    assert len(batcher.observers) == 1
    socket.close()
    for _ in range(100):
        if not batcher.observers:
            break
        time.sleep(0.05)
    assert not batcher.observers


def test_what_is_not_taken_in_time_is_left_out():
    watched = live.Watched()
    for number in range(1, live.MAX_WAITING + 11):
        watched.add({"number": number})
    watched.add_kept([{"number": 1}])
    message = watched.taken("k")
    assert [result["number"] for result in message["results"]] == list(range(11, live.MAX_WAITING + 11))
    assert message["missed"] == 10
    assert watched.taken("k")["results"] == []


def test_a_page_that_takes_nothing_holds_nothing_up(serve, records, monkeypatch):
    async def much(viewer):
        return {"type": "streams", "streams": ["x" * 1_000_000]}

    monkeypatch.setattr(live, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(live, "STATUS_TICKS", 1)
    monkeypatch.setattr(live.Viewer, "_streams", much)
    server = serve(send_seconds=0.5)
    with socket.create_connection(("127.0.0.1", server.port)) as page, ns.Client(server.url) as client:
        page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        key = "Sec-WebSocket-Key: " + base64.b64encode(bytes(16)).decode()
        host = f"Host: 127.0.0.1:{server.port}"
        page.sendall("\r\n".join(["GET /v1/live HTTP/1.1", host, *upgrade, key, "", ""]).encode())
        assert page.recv(12).endswith(b"101")
        began = time.monotonic()
        metric = "nystream_connections"
        value = server.app.state.service.metrics.registry.get_sample_value
        for number in range(1, 2000):
            client.push("k", records(0, number))
            if time.monotonic() - began > 1 and value(metric) == 1:  # only that of the client: the page was closed
                break
            time.sleep(0.01)
        assert value(metric) == 1


def test_only_so_many_pages(http, look, monkeypatch):
    monkeypatch.setattr(live, "MAX_VIEWERS", 1)
    client = http()
    look(client).until("status")
    with client.websocket_connect("ws://localhost/v1/live") as other, pytest.raises(WebSocketDisconnect) as refused:
        other.receive_json()
    assert refused.value.code == live.TRY_LATER


@pytest.mark.parametrize(
    "frame",
    ["{}", "[1]", "nonsense", '{"type": "push"}', '{"type": "watch", "keys": 1}', '{"type": "watch", "keys": [1]}',
     '{"type": "watch", "keys": ["' + '", "'.join("abcdefghi") + '"]}', '{"type": "watch", "search": 1}', b"\x80"],
)  # fmt: skip
def test_bad_frames_are_refused(http, look, frame):
    socket = look(http())
    socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_text(frame)
    assert socket.until("error")["code"] == "bad_request"
    socket.until("status")


def test_the_status_describes_the_model_and_the_service(http, records):
    client = http()
    push(client, "a", records(0, 1))
    push(client, "a", {"a": 1})
    status = client.get("/v1/status").json()
    assert status["model"]["variants"] == ["co-cont-single"]
    assert (status["model"]["window"], status["model"]["landmarks"], status["model"]["kind"]) == (6, 3, "output")
    assert status["service"]["durability"] == "log"
    assert status["records"] == {"answered": 1, "dropped": 0, "rejected": 1, "repeated": 0}
    assert sum(status["latency"]["counts"]) == 2
    assert len(status["latency"]["counts"]) == len(status["latency"]["edges_ms"]) + 1
    assert 0 < status["latency"]["p50_ms"] <= status["latency"]["p99_ms"]
    assert status["memory_bytes"] > 1 << 20
    assert status["store_bytes"] > 0
    assert status["ready"]


def test_throughput_is_counted_second_by_second(http, records, monkeypatch):
    client, now = http(), [100.0]
    monkeypatch.setattr("nystream.serve.view.activity.time", SimpleNamespace(monotonic=lambda: now[0]))
    activity = Activity(client.app.state.service.metrics)
    for number in (1, 2, 3):
        push(client, "a", records(0, number))
    now[0] += 2.0
    activity._samples.append(activity._sample())
    assert activity.to_dict()["throughput"] == {"seconds": 1.0, "rates": [1.5]}


def test_quantiles_of_latencies():
    assert quantile_ms([0] * 13, 0.5) is None
    assert quantile_ms([4] + [0] * 12, 0.5) == 0.5
    assert quantile_ms([1, 0, 1] + [0] * 10, 0.99) == pytest.approx(4.94, abs=0.01)
    assert quantile_ms([0] * 12 + [1], 0.5) == 5000


R = dataclasses.replace
READERS = {
    "hourly": HOURLY,
    "in UTC": R(HOURLY, zoned=True),
    "seconds": R(HOURLY, form="seconds", zoned=True),
    "a format": R(HOURLY, form="%d.%m.%Y %H:%M"),
    "digits": R(HOURLY, form="%Y%m%d%H"),
    "two columns": R(HOURLY, form="%d.%m.%Y %H:%M", clock="clock"),
    "local time": R(HOURLY, timezone="Europe/Berlin"),
    "months": R(HOURLY, months=1, day=31, step=30.4 * 86400),
    "without time": R(HOURLY, time=None, step=None),
    "known ahead": R(HOURLY, known=("wind",), known_rows=3),
    "series": R(HOURLY, series="name", series_rows=10),
}


@pytest.mark.parametrize("name", READERS)
def test_records_of_a_demonstration_of_a_table(name):
    sessions = Sessions(forecaster(READERS[name]), capacity=1)
    demo = DemoRecords(sessions).records(0, 900)
    assert demo["source"] == "generated"
    assert len(demo["records"]) == 900
    assert all(len(sessions.take("k", record)) == 1 for record in demo["records"])  # no gaps, nothing dropped
    assert DemoRecords(sessions).records(5, 2)["records"] == demo["records"][5:7]


def test_records_of_other_demonstrations():
    sound, frames = SoundReader(), FramesReader(3, ("a", "b", "c"), 4)
    models = [
        model_of(ns.ModelInfo("classification", sound.names, ("x", "y"), reader=sound.to_dict()), 128, 2),
        model_of(ns.ModelInfo("detection", frames.names, ("x", "y"), reader=frames.to_dict(), several=True), 12, 2),
        model_of(ns.ModelInfo(), 4, 2, update_size=2),
    ]
    for model, tokens in zip(models, (39, 10, 80), strict=True):
        sessions = Sessions(model, capacity=1)
        demo = DemoRecords(sessions).records(0, 40)
        assert sum(len(sessions.take("k", record)) for record in demo["records"]) == tokens


def test_the_sample_is_the_demonstration_of_a_model_that_reads_it():
    sessions = Sessions(StreamModel.from_pretrained("demand"), capacity=1)
    demo = DemoRecords(sessions)
    first, last = demo.records(0, 3), demo.records(first_after(demo), 10)
    assert first["source"] == "sample"
    assert [len(sessions.take("k", record)) for record in first["records"]] == [1, 1, 1]
    assert len(last["records"]) == 1
    truth = Truths(sessions.model.info)(first["records"][0])
    assert truth == {"total": float(first["records"][0]["total"])}


def first_after(demo):
    return demo.records(0, 1)["length"] - 1


def test_demo_records_over_http(http):
    client = http()
    reply = client.get("/v1/demo", params={"after": 2, "limit": 3}).json()
    assert reply["records"] == client.get("/v1/demo", params={"limit": 5}).json()["records"][2:]
    push(client, "a", reply["records"][0])
    for wrong in ({"limit": 0}, {"limit": 1001}, {"after": -1}, {"after": 1 << 70}):
        assert client.get("/v1/demo", params=wrong).status_code == 400
    assert client.get("/v1/demo", params={"after": 1 << 62}).json()["records"] == []


def test_truth_in_records(http, look, tmp_path):
    model = forecaster(R(HOURLY, decimal=","))
    truths = Truths(model.info)
    assert truths({"load": "1,5", "time": "x"}) == {"load": 1.5}
    for record in ({"load": "oops"}, {"load": None}, {}, [1, 2], None, "load"):
        assert truths(record) == {}
    plain = Truths(ns.ModelInfo("forecasting", ("a", "b"), ("b",)))
    assert plain([1, 2]) == plain({"b": 2}) == {"b": 2.0}
    assert Truths(ns.ModelInfo("classification", ("a", "b"), ("b",)))([1, 2]) == {}
    settings = Settings(store=tmp_path / "truth.db")
    client = http(create_app(Sessions(model, capacity=4), settings, name="load"))
    demo = client.get("/v1/demo", params={"limit": 2}).json()["records"]
    push(client, "k", demo[0])
    socket = look(client, ["k"])
    assert socket.until("answers")["results"][0]["truth"] == {"load": demo[0]["load"]}  # from the log
    push(client, "k", demo[1])
    assert socket.until("answers")["results"][0]["truth"] == {"load": demo[1]["load"]}
    assert client.get("/v1/status").json()["model"]["name"] == "load"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"forecast": {"x": 1.5}, "units": {"x": "MW"}}, {"name": "x", "value": 1.5, "unit": "MW"}),
        ({"forecast": {"x": [{"0.1": 1, "0.5": 2, "0.9": 3}]}}, {"name": "x", "value": 2, "unit": None}),
        ({"forecast": [4.0]}, {"name": "", "value": 4.0, "unit": None}),
        ({"output": [None]}, {"name": "", "value": None, "unit": None}),
        ({"probabilities": {"a": 0.2, "b": 0.8}}, {"name": "b", "value": 0.8, "share": True}),
        ({"probabilities": {"a": None}}, {"name": None, "value": None, "share": True}),
    ],
)
def test_answers_in_brief(answer, expected):
    assert brief({"answers": [{"token": 1, **answer}]}) == {"token": 1, **expected}
    assert brief({"answers": []}) is brief({"error": {}}) is None

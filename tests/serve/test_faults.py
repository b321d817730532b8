"""A fault stays where it is: one record, one stream, one damaged row, a store that cannot be written for a while."""

import logging
import sqlite3

import pytest

from nystream.live import Answer, Sessions
from nystream.serve.app import create_app
from nystream.serve.protocol import Push, RequestError
from nystream.serve.residents import StreamName
from nystream.serve.settings import Settings
from nystream.serve.stores.store import StoreError

KEYS = ("a", "b", "c")


class Direct:
    """The engine of a service without its thread and its protocols."""

    def __init__(self, app, records):
        self.service, self.records = app.state.service, records
        self.engine, self.store = self.service.batcher._engine, self.service.store
        self.engine.open([StreamName("", key) for key in KEYS])

    def push(self, *numbered):
        """Push (key, number) or (key, number, record) together."""
        pushes = [
            Push(key, number, *(record or [self.records(KEYS.index(key), number)])) for key, number, *record in numbered
        ]
        return self.engine.push([("", push) for push in pushes])

    def rounds(self, first, last):
        """Push records to all streams; return the answers by record and stream."""
        got = []
        for number in range(first, last + 1):
            got.append([reply["answers"] for reply in self.push(*((key, number) for key in KEYS))])
            self.engine.tidy(1000)
        return got

    def sql(self, statement, *values):
        return self.store._db.execute(statement, values).fetchall()

    def crash(self):
        self.store.close()


@pytest.fixture
def direct(make_app, records):
    return lambda **options: Direct(make_app(**options), records)


@pytest.fixture
def expected(uninterrupted, records):
    def of_keys(last):
        by_key = [uninterrupted([records(i, number) for number in range(1, last + 1)]) for i in range(len(KEYS))]
        return [list(of_record) for of_record in zip(*by_key, strict=True)]

    return of_keys


def code(reply):
    return reply.code if isinstance(reply, RequestError) else None


def full(*_, **__):
    raise StoreError("database or disk is full")


@pytest.mark.parametrize("durability", ["log", "snapshot", "none"])
def test_an_answer_that_cannot_be_expressed_is_that_of_one_record(direct, expected, monkeypatch, durability):
    service = direct(durability=durability)
    got = service.rounds(1, 3)
    to_dict = Answer.to_dict
    with monkeypatch.context() as patched:

        def failing(answer, **source):
            if answer.token == 4 and failing.calls == 1:
                failing.calls += 1
                raise OverflowError
            failing.calls += 1
            return to_dict(answer, **source)

        failing.calls = 0
        patched.setattr(Answer, "to_dict", failing)
        replies = service.push(("a", 4), ("b", 4), ("c", 4))
    assert [code(reply) for reply in replies] == [None] * 3
    assert replies[1]["error"]["code"] == "failed"
    # Its stream has advanced, once; sent again, the record is not applied again.
    assert service.push(("b", 4), ("a", 4)) == [replies[1], replies[0]]
    got += [[replies[0]["answers"], expected(4)[3][1], replies[2]["answers"]], *service.rounds(5, 7)]
    assert got == expected(7)


@pytest.mark.parametrize("durability", ["log", "snapshot", "none"])
def test_a_record_on_which_the_reader_fails_takes_nothing_from_other_streams(direct, expected, monkeypatch, durability):
    service = direct(durability=durability)
    got = service.rounds(1, 5)
    reader = type(service.engine._sessions.reader)
    read = reader.read

    def failing(self, record):
        if record == "poison":
            raise ZeroDivisionError
        return read(self, record)

    monkeypatch.setattr(reader, "read", failing)
    replies = service.push(("a", 6), ("b", 6, "poison"), ("b", 7, "poison"), ("c", 6))
    assert [reply.get("error", {}).get("code") for reply in replies] == [None, "failed", "failed", None]
    assert service.engine.find(StreamName("", "b"))["next"] == 8
    got += [[replies[0]["answers"], replies[3]["answers"]]]
    assert got == [*expected(5), [expected(6)[5][0], expected(6)[5][2]]]


def test_records_that_failed_and_came_twice_are_refused_together(direct, monkeypatch):
    service = direct()
    take_many = Sessions.take_many
    monkeypatch.setattr(Sessions, "take_many", lambda *_: 1 / 0)
    replies = service.push(("a", 1), ("a", 1), ("b", 1))
    assert [code(reply) for reply in replies] == ["failed"] * 3
    monkeypatch.setattr(Sessions, "take_many", take_many)
    assert service.push(("a", 1))[0]["number"] == 1


def test_a_repeated_number_with_another_record_is_a_conflict(direct):
    service = direct(snapshot_every=2)
    service.rounds(1, 5)
    for _ in range(2):
        (refused,) = service.push(("a", 4, [9, 9]))
        assert (code(refused), refused.details) == ("conflict", {"expected": 6})
        service.crash()
        service = direct(snapshot_every=2)
    first, other = service.push(("a", 6), ("a", 6, [9, 9]))
    assert first["number"] == 6
    assert code(other) == "conflict"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE snapshots SET answers = x'c1' WHERE stream = 2",
        "UPDATE snapshots SET memory = '{' WHERE stream = 2",
        "DELETE FROM log WHERE id = (SELECT min(id) FROM log WHERE stream = 2)",
        "DELETE FROM snapshots WHERE stream = 2",
    ],
)
def test_one_damaged_stream_does_not_fail_its_batch(direct, expected, damage):
    service = direct(snapshot_every=20)
    service.rounds(1, 24)
    service.sql(damage)
    service.crash()
    service = direct(snapshot_every=20)
    replies = service.push(*((key, 25) for key in KEYS))
    assert code(replies[1]) == "damaged"
    assert [replies[0]["answers"], replies[2]["answers"]] == [expected(25)[24][i] for i in (0, 2)]


@pytest.mark.parametrize("column", ["record", "answer"])
def test_a_changed_bit_of_the_log_is_found(direct, column):
    service = direct()
    service.rounds(1, 9)
    ((id, data),) = service.sql(f"SELECT id, {column} FROM log WHERE stream = 2 ORDER BY id DESC LIMIT 1")
    changed = bytearray(data)
    changed[len(changed) // 2] ^= 8
    service.sql(f"UPDATE log SET {column} = ? WHERE id = ?", bytes(changed), id)
    service.crash()
    replies = direct().push(*((key, 10) for key in KEYS))
    assert [code(reply) for reply in replies] == [None, "damaged", None]


def test_without_a_log_streams_stop_when_no_snapshot_can_be_written(direct, expected, monkeypatch):
    service = direct(durability="snapshot", snapshot_every=4)
    service.rounds(1, 6)
    with monkeypatch.context() as patched:
        patched.setattr(service.store, "save", full)
        number = 6
        while code((replies := service.push(("a", number + 1)))[0]) is None:
            number += 1
            service.engine.tidy(1000)
        assert code(replies[0]) == "store_failed"
        assert number <= 6 + 2 * 4
        assert service.engine.residents.failures.of_store
    service.engine.tidy(1000)
    (reply,) = service.push(("a", number + 1))
    assert reply["answers"] == expected(number + 1)[number][0]


def test_a_store_that_fails_is_not_ready_and_is_logged_once(http, monkeypatch, caplog):
    client = http()
    client.post("/v1/streams", json={"key": "k"})
    assert client.get("/readyz").status_code == 200
    caplog.set_level(logging.ERROR)
    with monkeypatch.context() as patched:
        patched.setattr(client.app.state.service.store, "append", full)
        for _ in range(20):
            assert client.post("/v1/streams/k/records", json={"record": [1, 2]}).status_code == 503
        assert client.get("/readyz").status_code == 503
    assert len([record for record in caplog.records if record.message == "the store failed"]) == 1
    monkeypatch.setattr("nystream.serve.failures.RECENT_SECONDS", 0.0)
    assert client.post("/v1/streams/k/records", json={"record": [1, 2]}).status_code == 200
    assert client.get("/readyz").status_code == 200


def test_a_full_disk_moves_the_wal(direct, tmp_path):
    service = direct()
    service.rounds(1, 20)
    wal = tmp_path / "streams.db-wal"
    assert wal.stat().st_size > 0
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    with pytest.raises(StoreError), service.store._errors():
        raise error
    service.engine.tidy(0)
    assert wal.stat().st_size == 0


def test_large_records_make_a_snapshot_due(direct):
    service = direct(max_batch=8)
    for number in range(1, 9):
        for key in KEYS:
            service.push((key, number, {"a": 1, "b": 2, "more": "x" * 100_000}))
        service.engine.tidy(3)
    ((rows,),) = service.sql("SELECT count(*) FROM log")
    assert rows <= 6


def test_other_policies_are_another_reader(model, tmp_path):
    store = tmp_path / "streams.db"
    app = create_app(Sessions(model, missing="fail"), Settings(store=store))  # the default of vectors
    app.state.service.store.close()
    create_app(Sessions(model), Settings(store=store)).state.service.store.close()
    with pytest.raises(ValueError, match=r"other policies; give `missing` and `gaps` as they were, or give `migrate`"):
        create_app(Sessions(model, missing="fill"), Settings(store=store))
    app = create_app(Sessions(model, missing="fill"), Settings(store=store, migrate=True))
    app.state.service.store.close()


def test_a_link_to_a_store_in_use_is_refused(make_app, tmp_path):
    app = make_app()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "streams.db")
    with pytest.raises(OSError, match="in use by another process"):
        make_app(store=link)
    app.state.service.store.close()
    make_app(store=link).state.service.store.close()


def test_streams_of_an_owner_are_counted(direct):
    service = direct()
    names = [StreamName("", f"k{i}") for i in range(5)]
    assert service.store.count("") == 3
    service.engine.open(names)
    service.engine.open(names[:2])
    service.engine.close(names[0])
    assert service.store.count("") == 7
    service.crash()
    assert direct().store.count("") == 7

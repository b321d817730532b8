"""What is acknowledged survives: restarts, a torn commit, a full disk, eviction, another model."""

import shutil
import sqlite3

import pytest
import torch

import nystream as ns
from nystream.live import Sessions
from nystream.serve.app import create_app
from nystream.serve.protocol import Push, RequestError
from nystream.serve.residents import StreamName
from nystream.serve.settings import Settings

KEYS = ("a", "b", "c")


class Direct:
    """The engine of a service without its thread and its protocols; nothing is written when it is abandoned."""

    def __init__(self, app):
        self.service = app.state.service
        self.engine = self.service.batcher._engine
        self.engine.open([StreamName("", key) for key in KEYS])

    def push(self, *numbered):
        """Push (key, number, record) together."""
        return self.engine.push([("", Push(*item)) for item in numbered])

    def crash(self):
        """Close the file without writing out any stream, as the end of the process would."""
        self.service.store.close()


@pytest.fixture
def direct(make_app):
    return lambda **options: Direct(make_app(**options))


def rounds(records, first, last):
    return [[(key, number, records(i, number)) for i, key in enumerate(KEYS)] for number in range(first, last + 1)]


def expected(uninterrupted, records, last):
    answers = [uninterrupted([records(i, number) for number in range(1, last + 1)]) for i in range(len(KEYS))]
    return [[of_key[number] for of_key in answers] for number in range(last)]


def answers(replies):
    return [reply["answers"] for reply in replies]


@pytest.mark.parametrize("every", [None, 1, 3])
def test_streams_continue_after_a_crash(direct, records, uninterrupted, every):
    got = []
    for first in range(1, 40, 4):
        service = direct(snapshot_every=every)
        for batch in rounds(records, first, first + 3):
            got.append(answers(service.push(*batch)))
            service.engine.tidy(1)
        service.crash()
    assert got == expected(uninterrupted, records, len(got))


def test_answers_are_kept_over_a_crash(direct, records):
    service = direct(snapshot_every=4, keep_answers=6)
    sent = rounds(records, 1, 10)
    replies = []
    for batch in sent:
        replies.append(service.push(*batch))
        service.engine.tidy(100)
    service.crash()
    service = direct(snapshot_every=4, keep_answers=6)
    for number in range(5, 11):
        assert service.push(*sent[number - 1]) == replies[number - 1]
    assert [reply.code for reply in service.push(*sent[3])] == ["too_old"] * 3
    assert service.push(("a", 12, [1, 2]))[0].details == {"expected": 11}


def test_a_torn_commit_is_as_if_it_had_not_begun(direct, records, uninterrupted, tmp_path):
    service = direct()
    for batch in rounds(records, 1, 6):
        service.push(*batch)
    before = (tmp_path / "streams.db-wal").stat().st_size
    service.push(*rounds(records, 7, 7)[0])
    path = tmp_path / "torn.db"
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / f"streams.db{suffix}", f"{path}{suffix}")
    service.crash()
    wal = tmp_path / "torn.db-wal"
    assert wal.stat().st_size > before
    with wal.open("r+b") as file:
        file.truncate(wal.stat().st_size - 100)
    service = direct(store=path)
    refused = service.push(("a", 8, records(0, 8)))[0]
    assert refused.details == {"expected": 7}
    got = [answers(service.push(*batch)) for batch in rounds(records, 7, 9)]
    assert got == expected(uninterrupted, records, 9)[6:]


@pytest.mark.parametrize("error", [sqlite3.OperationalError("database or disk is full"), OSError(28, "No space left")])
def test_a_full_disk_refuses_and_loses_nothing(direct, records, uninterrupted, monkeypatch, error):
    service = direct(snapshot_every=3)
    got = []
    for number, batch in enumerate(rounds(records, 1, 12), 1):
        if number in (2, 7):
            with monkeypatch.context() as patched:
                patched.setattr(service.service.store, "_commit", lambda: (_ for _ in ()).throw(error))
                refused = service.push(*batch, batch[0])
                assert {reply.code for reply in refused} == {"store_failed"}
                service.engine.tidy(100)  # snapshots fail too
        got.append(answers(service.push(*batch)))
        service.engine.tidy(100)
    assert got == expected(uninterrupted, records, 12)


@pytest.mark.parametrize("durability", ["none", "snapshot", "log"])
def test_idle_streams_leave_and_return(direct, records, uninterrupted, durability):
    service = direct(durability=durability, idle_seconds=0, snapshot_every=5)
    got = []
    for number, batch in enumerate(rounds(records, 1, 12), 1):
        got.append(answers(service.push(*batch)))
        if number % 3 == 0:
            service.engine.residents.evict_idle()
            assert len(service.engine.residents) == 0
            assert len(service.engine._sessions) == 0
            assert service.push(*batch) == service.push(*batch)  # the answers return too
    assert got == expected(uninterrupted, records, 12)


def test_streams_make_room_for_others(direct, records, monkeypatch):
    service = direct(max_streams=2)
    service.push(("a", 1, [1, 2]), ("b", 1, [1, 2]))
    (refused,) = service.push(("c", 1, [1, 2]))
    assert refused.code == "overloaded"
    monkeypatch.setattr("nystream.serve.residents.MIN_IDLE_SECONDS", 0.0)
    assert service.push(("c", 1, [1, 2]))[0]["number"] == 1
    assert service.push(("a", 2, [1, 2]))[0]["number"] == 2
    assert len(service.engine.residents) == 2


def test_snapshots_survive_without_a_log(direct, records, uninterrupted):
    service = direct(durability="snapshot", snapshot_every=4)
    for batch in rounds(records, 1, 11):
        service.push(*batch)
        service.engine.tidy(100)
    service.crash()
    service = direct(durability="snapshot", snapshot_every=4)
    (gap,) = service.push(("a", 11, [1, 2]))
    next_number = gap.details["expected"]
    assert 7 <= next_number <= 11
    got = answers(service.push(("a", next_number, records(0, next_number))))
    assert got == [expected(uninterrupted, records, next_number)[-1][0]]


def test_all_streams_are_written_at_the_end(direct, records, uninterrupted):
    service = direct(durability="snapshot", snapshot_every=1000)
    for batch in rounds(records, 1, 5):
        service.push(*batch)
    service.engine.shut_down()
    got = answers(direct(durability="snapshot").push(*rounds(records, 6, 6)[0]))
    assert got == expected(uninterrupted, records, 6)[-1:][0]


def test_the_log_is_trimmed(direct, records):
    service = direct()
    for batch in rounds(records, 1, 300):
        service.push(*batch)
        service.engine.tidy(1)
    (rows,) = service.service.store._db.execute("SELECT count(*) FROM log").fetchone()
    assert 0 < rows < 3 * 100


@pytest.mark.parametrize("is_resident", [True, False])
def test_a_stream_that_is_rarely_used_does_not_keep_the_log(direct, records, uninterrupted, monkeypatch, is_resident):
    monkeypatch.setattr("nystream.serve.stores.sqlite.MIN_SPAN", 10)
    service = direct(snapshot_every=5)
    got = answers(service.push(("c", 1, records(2, 1))))
    if not is_resident:
        service.engine.residents.drop(StreamName("", "c"))
    for batch in rounds(records, 1, 100):
        service.push(*batch[:2])
        service.engine.tidy(64)
    (rows,) = service.service.store._db.execute("SELECT count(*) FROM log").fetchone()
    assert rows < 60
    assert (StreamName("", "c") in service.engine.residents) == is_resident
    service.crash()
    service = direct()
    for number in range(2, 12):
        got += answers(service.push(("c", number, records(2, number))))
    assert got == uninterrupted([records(2, number) for number in range(1, 12)])


def test_a_store_has_one_process_and_one_model(direct, model, tmp_path, make_app):
    service = direct()
    with pytest.raises(OSError, match="in use by another process"):
        make_app()
    service.crash()
    torch.manual_seed(1)
    other = ns.StreamModel(model.config, model.info)
    with pytest.raises(ValueError, match=r"streams of another model .* give `migrate`"):
        create_app(Sessions(other), Settings(store=tmp_path / "streams.db"))
    (tmp_path / "text.db").write_text("not a database " * 100)
    with pytest.raises(ValueError, match="is not a file of streams"):
        make_app(store=tmp_path / "text.db")
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        make_app(store=tmp_path / "nowhere" / "streams.db")
    make_app()


def test_a_damaged_snapshot_stops_one_stream(direct, records):
    service = direct(snapshot_every=1)
    for batch in rounds(records, 1, 3):
        service.push(*batch)
        service.engine.tidy(1000)
    service.service.store._db.execute("UPDATE snapshots SET state = x'00' WHERE stream = 2")
    service.crash()
    service = direct()
    replies = service.push(*rounds(records, 4, 4)[0])
    assert [isinstance(reply, RequestError) for reply in replies] == [False, True, False]
    assert replies[1].code == "damaged"


def test_a_record_that_fails_unexpectedly_does_not_fail_others(direct, records, uninterrupted, monkeypatch):
    service = direct()
    for batch in rounds(records, 1, 3):
        service.push(*batch)
    reader = service.engine._sessions.reader
    read = type(reader).read

    def failing(self, record):
        if record == "poison":
            raise ZeroDivisionError
        return read(self, record)

    monkeypatch.setattr(type(reader), "read", failing)
    batch = rounds(records, 4, 4)[0]
    replies = service.push(batch[0], ("b", 4, "poison"), batch[2])
    assert replies[1]["error"]["code"] == "failed"
    assert "ZeroDivisionError" in replies[1]["error"]["message"]
    assert answers([replies[0], replies[2]]) == [expected(uninterrupted, records, 4)[3][i] for i in (0, 2)]
    service.crash()
    service = direct()  # which replays the record
    for number in (5, 6):  # the record has used up its number, and nothing else
        (reply,) = service.push(("b", number, records(1, number - 1)))
        (token,) = expected(uninterrupted, records, number - 1)[number - 2][1]
        assert reply["answers"] == [token | {"record": number}]

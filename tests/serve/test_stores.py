"""What every store does, and what a store that several processes share does besides."""

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nystream.serve.lanes import lane_of
from nystream.serve.stores.folder import FolderStore
from nystream.serve.stores.redis import RedisStore
from nystream.serve.stores.sqlite import SqliteStore
from nystream.serve.stores.store import Kept, LogRow, Saved, Segment, Snapshot

NOTHING = Kept(0, 0)


class Kind(NamedTuple):
    """A class of stores, what its argument is called in the test's folder, and whether processes share a store."""

    make: Any
    name: str
    is_shared: bool


STORES = {
    "sqlite": Kind(SqliteStore, "streams.db", is_shared=False),
    "folder": Kind(FolderStore, "streams", is_shared=True),
    "redis": Kind(RedisStore, "", is_shared=True),
}
SHARED = [name for name, kind in STORES.items() if kind.is_shared]


@pytest.fixture(params=STORES)
def kind(request, monkeypatch):
    # So small that logs end and are moved within a test.
    monkeypatch.setattr("nystream.serve.stores.lane.LOG_BYTES", 2000)
    monkeypatch.setattr("nystream.serve.stores.lane.SLACK_BYTES", 500)
    monkeypatch.setattr("nystream.serve.stores.lane.MOVED_BYTES", 300)
    return STORES[request.param]


@pytest.fixture
def place(request, kind, tmp_path):
    """Where the streams of a test are."""
    return tmp_path / kind.name if kind.name else f"{request.getfixturevalue('redis_url')}#{tmp_path.name}"


@pytest.fixture
def make(kind, place):
    made = []

    def make(model="model", kept=NOTHING, migrate=False, path=place):
        made.append(kind.make(path, model, kept, migrate))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def reopen(make):
    def reopen(store, *args, **options):
        store.close()
        return make(*args, **options)

    return reopen


def opened(store, *keys, owner=""):
    """Open streams and load them; return their ids."""
    ids = [stream.id for stream, _ in store.open([(owner, key) for key in keys])]
    for id in ids:
        store.load(id)
    return ids


def row(stream, number, text="x"):
    return LogRow(stream, number, f"record {number} {text}".encode(), f"answer {number} {text}".encode())


def rows(stream, first, last, text="x"):
    return [row(stream, number, text) for number in range(first, last + 1)]


def snapshot(stream, number, model="model", **fields):
    fields = {"tokens": 2 * number, "state": b"state %d" % number, "memory": {"number": number}} | fields
    answers = [(number - 1, b"before"), (number, b"last")]
    return Snapshot(stream, number, answers=answers, model=model, **fields)


def test_streams_are_opened_once(make):
    store = make()
    names = [("me", "a"), ("me", "b"), ("you", "a"), ("me", "a")]
    first = store.open(names)
    assert [is_new for _, is_new in first] == [True, True, True, False]
    assert [(stream.owner, stream.key, stream.last) for stream, _ in first] == [(*name, 0) for name in names]
    assert len({stream.id for stream, _ in first}) == 3
    assert store.open(names) == [(stream, False) for stream, _ in first]
    assert [store.find(*name) for name in names] == [stream for stream, _ in first]
    assert store.find("you", "b") is None
    assert store.open([]) == []
    assert store.load(first[0][0].id) == Saved(None, [])
    assert store.history(first[0][0].id) == []


def test_lists_are_in_order_of_the_keys(make, reopen):
    store = make()
    keys = ["b", "a", "ä", "Z", "日本", "a b", "😀", "é", "e\u0301", "0", "\uffee", *(f"{i}" for i in range(100, 230))]
    store.open([("me", key) for key in keys] + [("you", "c")])
    for _ in range(2):
        assert [stream.key for stream in store.streams("me", "", 1000)] == sorted(keys)
        assert [stream.key for stream in store.streams("me", "a", 3)] == sorted(keys)[sorted(keys).index("a") + 1 :][:3]
        assert store.streams("me", "\U0010ffff", 3) == store.streams("nobody", "", 3) == []
        assert [store.count(owner) for owner in ("me", "you", "nobody")] == [len(keys), 1, 0]
        store = reopen(store)


def test_rows_come_back_in_order(make, reopen):
    store = make()
    a, b = opened(store, "a", "b")
    assert store.append([row(a, 1), row(b, 1), row(a, 2)]) == set()
    assert store.append([row(b, 2), row(a, 3)]) == set()
    assert store.append([]) == set()
    for _ in range(2):
        assert store.load(a) == Saved(None, rows(a, 1, 3))
        assert store.load(b) == Saved(None, rows(b, 1, 2))
        assert [stream.last for stream in store.streams("", "", 9)] == [3, 2]
        assert store.find("", "a").last == 3
        store = reopen(store)


@pytest.mark.parametrize("fields", [{}, {"state": None, "memory": {}}, {"memory": {"large": 2**70, "é": [None, 0.1]}}])
def test_a_snapshot_replaces_rows(make, reopen, fields):
    store = make()
    a, b = opened(store, "a", "b")
    store.append(rows(a, 1, 5) + rows(b, 1, 2))
    saved = snapshot(a, 5, exact_after=7, **fields)
    assert store.save([saved]) == set()
    store.append(rows(a, 6, 7))
    for _ in range(2):
        assert store.load(a) == Saved(saved, rows(a, 6, 7))
        assert store.load(b) == Saved(None, rows(b, 1, 2))
        assert store.find("", "a").last == 7
        store = reopen(store)
    opened(store, "a", "b")
    store.save([snapshot(a, 7), snapshot(b, 2)])
    store.save([snapshot(b, 9)])  # without a log, numbers of snapshots are all there is
    assert store.load(a) == Saved(snapshot(a, 7), [])
    assert [stream.last for stream in store.streams("", "", 9)] == [7, 9]


@pytest.mark.parametrize("kept", [NOTHING, Kept(5, 0), Kept(0, 13), Kept(1000, 0)])
def test_segments_reach_back_from_the_snapshot(make, reopen, kept):
    store = make(kept=kept)
    a, b = opened(store, "a", "b")
    ends = [0, 2, 3, 7, 9, 12, 20]
    for first, last in pairwise(ends):
        store.append(rows(a, first + 1, last) + rows(b, first + 1, last))
        store.save([snapshot(a, last)])
    store.save([snapshot(a, 20)])  # there is nothing new to keep
    store.append(rows(a, 21, 22))
    whole = [
        Segment(first, 2 * first, {"number": first} if first else None, [r.record for r in rows(a, first + 1, last)])
        for first, last in pairwise(ends)
    ]
    needed = kept.needed([(segment.number, segment.tokens) for segment in whole], 20, 40)
    for _ in range(2):
        assert store.history(a) == whole[len(whole) - needed :]
        assert store.history(b) == []
        assert store.load(a) == Saved(snapshot(a, 20), rows(a, 21, 22))
        store = reopen(store, kept=kept)


def test_a_deleted_stream_begins_anew(make, reopen):
    store = make(kept=Kept(100, 0))
    a, b = opened(store, "a", "b")
    for first in (1, 4):
        store.append(rows(a, first, first + 2))
        store.save([snapshot(a, first + 2)])
    store.append([row(a, 7), row(b, 1)])
    store.delete(a)
    store.delete(a)
    for _ in range(2):
        assert store.find("", "a") is None
        assert [stream.key for stream in store.streams("", "", 9)] == ["b"]
        assert store.count("") == 1
        store = reopen(store, kept=Kept(100, 0))
    ((again, is_new),) = store.open([("", "a")])
    assert is_new
    assert (again.last, again.id in (a, b)) == (0, False)
    assert store.load(again.id) == Saved(None, [])
    assert store.history(again.id) == []
    assert store.load(b) == Saved(None, [row(b, 1)])


def test_a_store_is_of_one_model(make, reopen, tmp_path, kind):
    store = make()
    ids = opened(store, *"abcdefgh")
    store.append([row(id, 1) for id in ids])
    store.save([snapshot(id, 1) for id in ids[:-1]])
    with pytest.raises(ValueError, match=r"streams of another model .* give `migrate`"):
        reopen(store, "other")
    store = make("other", migrate=True)
    outdated = store.outdated(0, 100)
    assert [stream.id for stream in outdated] == sorted(ids[:-1])
    assert store.outdated(0, 3) == outdated[:3]
    assert store.outdated(outdated[2].id, 2) == outdated[3:5]
    for stream in outdated[1:]:
        store.load(stream.id)
    store.save([snapshot(stream.id, 1, "other") for stream in outdated[1:]])
    assert store.outdated(0, 100) == outdated[:1]
    store = reopen(store, "other")
    assert store.load(outdated[0].id).snapshot.model == "model"
    assert store.load(outdated[1].id).snapshot.model == "other"
    if kind.name:
        with pytest.raises(FileNotFoundError, match="its folder does not exist"):
            make(path=tmp_path / "nowhere" / kind.name)
    else:
        with pytest.raises(OSError, match=r"store=.* cannot be opened"):
            make(path=f"unix://{tmp_path}/nowhere")


class Operations(RuleBasedStateMachine):
    """Any operations one after the other, compared with what a dict of streams does."""

    keys = st.sampled_from("abc")

    def __init__(self, make):
        super().__init__()
        self._make, self._kept = make, Kept(4, 0)

    @initialize()
    def make(self):
        self.store, self.streams = self._make(kept=self._kept), {}

    def teardown(self):
        for key in list(self.streams):
            self.delete(key)
        self.store.close()

    @rule(key=keys)
    def open(self, key):
        ((stream, is_new),) = self.store.open([("", key)])
        assert is_new == (key not in self.streams)
        self.streams.setdefault(key, [stream.id, 0, 0])  # id, last record, that of the snapshot
        self.store.load(stream.id)

    @precondition(lambda self: self.streams)
    @rule(counts=st.dictionaries(keys, st.integers(1, 5)))
    def append(self, counts):
        batch = []
        for key in self.streams.keys() & counts.keys():
            id, last, _ = self.streams[key]
            batch += rows(id, last + 1, last + counts[key], key)
            self.streams[key][1] += counts[key]
        assert self.store.append(batch) == set()

    @precondition(lambda self: self.streams)
    @rule(chosen=st.sets(keys, min_size=1))
    def save(self, chosen):
        saved = []
        for key in self.streams.keys() & chosen:
            id, last, _ = self.streams[key]
            saved.append(snapshot(id, last, state=b"s" * 300))
            self.streams[key][2] = last
        assert self.store.save(saved) == set()

    @rule(key=keys)
    def delete(self, key):
        if key in self.streams:
            self.store.delete(self.streams.pop(key)[0])

    @rule()
    def tidy(self):
        self.store.tidy()

    @rule()
    def reopen(self):
        self.store.close()
        self.store = self._make(kept=self._kept)
        for id, *_ in self.streams.values():
            self.store.load(id)

    @invariant()
    def same(self):
        listed = self.store.streams("", "", 9)
        assert [(s.key, s.id, s.last) for s in listed] == [(k, *self.streams[k][:2]) for k in sorted(self.streams)]
        for key, (id, last, first) in self.streams.items():
            saved = self.store.load(id)
            assert saved.rows == rows(id, first + 1, last, key)
            assert (saved.snapshot.number if saved.snapshot else 0) == first
            records = [record for segment in self.store.history(id) for record in segment.records]
            kept = [r.record for r in rows(id, 1, first, key)]
            assert len(records) >= min(4, first)
            assert records == kept[len(kept) - len(records) :]


def test_any_operations(make):
    run_state_machine_as_test(lambda: Operations(make), settings=settings(stateful_step_count=30))


shared = pytest.mark.parametrize("kind", SHARED, indirect=True)


@pytest.fixture
def pair(make):
    """A store in two processes."""
    return make(), make()


@shared
def test_who_loads_a_stream_owns_it(pair):
    one, other = pair
    a, b = opened(one, "a", "b")
    one.append([row(a, 1), row(b, 1)])
    assert other.load(a) == Saved(None, [row(a, 1)])
    assert one.append([row(a, 2, "late")]) == {a}
    assert one.save([snapshot(a, 1)]) == {a}
    assert other.load(a) == Saved(None, [row(a, 1)])
    assert other.append([row(a, 2)]) == set()
    assert other.save([snapshot(a, 2)]) == set()
    assert other.append([row(a, 3)]) == set()
    assert one.load(a) == Saved(snapshot(a, 2), [row(a, 3)])  # it takes it back
    assert other.append([row(a, 4, "late")]) == {a}
    assert one.append([row(a, 4)]) == set()
    assert one.load(a) == Saved(snapshot(a, 2), rows(a, 3, 4))


@shared
def test_only_what_has_moved_is_refused(pair):
    one, other = pair
    keys = [f"{i}" for i in range(20)]
    ids = opened(one, *keys)
    assert lane_of("", keys[0]) != lane_of("", keys[1])
    other.load(ids[0])
    moved = one.append([row(id, 1) for id in ids])
    assert ids[0] in moved
    assert ids[1] not in moved
    for id in ids:
        assert one.load(id).rows == ([] if id in moved else [row(id, 1)])


@shared
def test_a_stream_in_memory_is_not_continued_after_it_was_elsewhere(pair):
    one, other = pair
    keys = [f"{i}" for i in range(1000) if lane_of("", f"{i}") == 5][:2]
    a, b = opened(one, *keys)
    other.load(a)
    other.append([row(a, 1)])
    one.load(b)  # with it comes the whole lane, if lanes are what is owned, but what is in memory of `a` is too old
    assert one.append([row(a, 1, "late"), row(b, 1)]) == {a}
    assert one.save([snapshot(a, 0)]) == {a}
    assert one.load(a) == Saved(None, [row(a, 1)])
    assert one.append([row(a, 2)]) == set()


@shared
def test_streams_of_another_process_are_seen(pair):
    one, other = pair
    (a,) = opened(one, "a")
    assert other.count("") == 1
    one.append(rows(a, 1, 3))
    assert [(s.key, s.last) for s in other.streams("", "", 9)] == [("a", 3)]
    opened(one, "b")
    one.save([snapshot(a, 3)])
    one.append([row(a, 4)])
    assert [(s.key, s.last) for s in other.streams("", "", 9)] == [("a", 4), ("b", 0)]
    assert one.append([row(a, 5)]) == set()  # to look is not to own
    one.delete(a)
    assert [stream.key for stream in other.streams("", "", 9)] == ["b"]
    assert other.open([("", "b")])[0][1] is False


@shared
def test_a_stream_that_another_process_has_deleted(pair):
    one, other = pair
    a, b = opened(one, "a", "b")
    one.append([row(a, 1)])
    other.delete(a)
    assert one.append([row(a, 2), row(b, 1)]) == {a}
    assert one.save([snapshot(a, 1)]) == {a}
    assert one.load(a) is None
    assert one.find("", "a") is None
    (again,) = opened(other, "a")
    assert other.append([row(again, 1)]) == set()
    assert one.append([row(a, 2)]) == {a}
    assert one.find("", "a").id == again != a

"""A folder that processes share: wherever one of them ends, and whatever fails, nothing is lost."""

import errno
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.serve.lanes import lane_of
from nystream.serve.stores.folder import FolderStore
from nystream.serve.stores.frames import Frame, Kind, decode, decode_all
from nystream.serve.stores.store import Kept, LogRow, Saved, Snapshot, StoreError

KEY, OTHER = [key for key in map(str, range(500)) if lane_of("", key) == 3][:2]
OPERATIONS = ("open", "listdir", "unlink", "rename", "fsync")


MADE = []


def make(path):
    MADE.append(FolderStore(path, "model", Kept(0, 0), False))
    return MADE[-1]


@pytest.fixture
def path(tmp_path, monkeypatch):
    # So small that logs end and are moved within a test.
    monkeypatch.setattr("nystream.serve.stores.lane.LOG_BYTES", 600)
    monkeypatch.setattr("nystream.serve.stores.lane.SLACK_BYTES", 0)
    monkeypatch.setattr("nystream.serve.stores.lane.MOVED_BYTES", 100)
    for module in ("folder", "lane_claims"):
        monkeypatch.setattr(f"nystream.serve.stores.{module}.PAUSE_SECONDS", 0)
    yield tmp_path / "streams"
    while MADE:
        MADE.pop().close()


def begun(path, count):
    """A store with a stream of some rows."""
    store = make(path)
    ((stream, _),) = store.open([("", KEY)])
    store.load(stream.id)
    for number in range(1, count + 1):
        assert store.append([row(stream.id, number)]) == set()
    return store, stream.id


def row(stream, number, text="x"):
    return LogRow(stream, number, b"record %d" % number, f"answer {number} {text}".encode())


def snapshot(stream, number):
    return Snapshot(stream, number, number, b"s" * 100, {}, [], "model")


def log_of(path):
    return max((path / "lane-003").glob("*.log"))


def numbers(store, stream):
    saved = store.load(stream)
    first = 0 if saved.snapshot is None else saved.snapshot.number
    assert [row.number for row in saved.rows] == list(range(first + 1, first + 1 + len(saved.rows)))
    return first + len(saved.rows)


@given(
    st.lists(st.builds(Frame, st.sampled_from(Kind), st.integers(0, 2**63), st.integers(0, 2**63), st.binary())),
    st.data(),
)
def test_frames(frames, data):
    encoded = b"".join(frame.encode() for frame in frames)
    assert [frame for _, frame in decode_all(encoded)] == frames
    if frames:
        start = len(encoded) - frames[-1].size
        cut = data.draw(st.integers(start, len(encoded) - 1))
        assert [frame for _, frame in decode_all(encoded[:cut])] == frames[:-1]
        flipped = bytearray(encoded)
        flipped[cut] ^= 1 << data.draw(st.integers(0, 7))
        assert decode(bytes(flipped), start) is None


def test_a_torn_frame_is_as_if_it_had_not_been_written(path):
    store, id = begun(path, 3)
    whole = log_of(path).read_bytes()
    (*_, (start, _)) = decode_all(whole)
    store.close()
    for cut in range(start, len(whole) + 1):
        log_of(path).write_bytes(whole[:cut] if cut % 2 else whole[:cut] + bytes(len(whole) - cut))
        store = make(path)
        last = 3 if cut == len(whole) else 2
        assert store.find("", KEY).last == last
        assert store.load(id) == Saved(None, [row(id, number) for number in range(1, last + 1)])
        assert store.append([row(id, last + 1)]) == set()
        store.close()
    assert numbers(make(path), id) == 4


def test_a_damaged_beginning_is_an_error(path):
    begun(path, 3)[0].close()
    data = bytearray(log_of(path).read_bytes())
    data[10] ^= 1
    log_of(path).write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        make(path).find("", KEY)


class Died(BaseException):
    """The end of a process."""


@contextmanager
def before_each(monkeypatch, action):
    """Call `action` with the number of each operation on the folder, before it."""
    numbers, lock = count(1), threading.Lock()

    def wrapped(operation):
        def call(*args, **options):
            with lock:
                number = next(numbers)
            action(number)
            return operation(*args, **options)

        return call

    with monkeypatch.context() as patched:
        for name in OPERATIONS:
            patched.setattr(os, name, wrapped(getattr(os, name)))
        yield


@contextmanager
def failing(monkeypatch, at, error):
    """Let an operation on the folder fail, and with Died all after it; yield a function that says whether it came."""
    came = []

    def fail(number):
        if number == at or (number > at and error is Died):
            came.append(number)
            raise Died if error is Died else OSError(error, os.strerror(error))

    with before_each(monkeypatch, fail):
        yield lambda: bool(came)


def test_a_process_that_ends_while_it_claims_a_lane(path, monkeypatch):
    owner, id = begun(path, 9)
    last, came, steps, kept, lost = 9, True, 0, 0, 0
    while came:
        steps += 1
        owner.load(id)
        with failing(monkeypatch, steps, Died) as has_come:
            with suppress(Died):
                make(path).load(id)
            came = has_come()
        if owner.append([row(id, last + 1)]) == set():  # it owns the lane still
            last, kept = last + 1, kept + 1
        else:
            lost += 1
            assert numbers(owner, id) == last
        if steps % 2:
            owner = make(path)
        assert numbers(owner, id) == last
    assert steps > 10
    assert kept > 3
    assert lost > 3
    assert len(list((path / "lane-003").iterdir())) <= 8


def test_an_owner_that_continues_while_its_lane_is_claimed(path, monkeypatch):
    owner, id = begun(path, 9)
    last, has_come, at, kept = 9, True, 0, 0

    def go_on(number):
        nonlocal last, has_come
        if number == at and not has_come:
            has_come = True
            for _ in range(12):  # more than a log has
                if not owner.append([row(id, last + 1)]):
                    last += 1
                owner.tidy()

    while has_come:
        at, has_come, before = at + 1, False, last
        owner.load(id)
        claimant = make(path)
        with before_each(monkeypatch, go_on):
            claimant.load(id)
        assert numbers(claimant, id) == last
        kept += last == before + 12
    assert kept > 3
    assert at > kept + 3


@pytest.mark.parametrize("work", ["append", "save", "tidy"])
def test_a_process_that_ends_while_it_writes(path, monkeypatch, work):
    path.mkdir()
    came, steps = True, 0
    while came:
        steps += 1
        store, id = begun(path / str(steps), 25)
        if work == "tidy":
            store.save([snapshot(id, 25)])
        with failing(monkeypatch, steps, Died) as has_come:
            with suppress(Died):
                for number in (26, 27):
                    if work == "append":
                        store.append([row(id, number)])
                    elif work == "save":
                        store.save([snapshot(id, 25)])
                    store.tidy()
            came = has_come()
        assert 25 <= numbers(make(path / str(steps)), id) <= (27 if work == "append" else 25)
    assert steps > 3


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failure_refuses_and_loses_nothing(path, monkeypatch, error):
    store, id = begun(path, 10)
    ((other, _),) = store.open([("", "in another lane")])
    lasts, failures = {id: 10, other.id: 0}, 0
    for step in range(120):
        with failing(monkeypatch, 1 + step % 19, error):
            try:
                for stream in lasts:
                    store.load(stream)
                rows = [row(stream, last + 1, str(step)) for stream, last in lasts.items()]
                moved = store.append(rows)
                lasts = {stream: last + (stream not in moved) for stream, last in lasts.items()}
                if step % 7 == 0:
                    store.save([snapshot(id, lasts[id])])
                store.tidy()
            except StoreError:
                failures += 1
        assert {stream: numbers(store, stream) for stream in lasts} == lasts
    assert failures > 20
    store.close()
    assert {stream: numbers(make(path), stream) for stream in lasts} == lasts


def test_a_file_that_cannot_grow(path):
    store, id = begun(path, 10)
    store.load(id)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for _ in range(3):
        resource.setrlimit(resource.RLIMIT_FSIZE, (log_of(path).stat().st_size + 20, limits[1]))
        try:
            with pytest.raises(StoreError):
                store.append([row(id, 11, "refused"), row(id, 12, "refused")])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert numbers(store, id) == 10
    assert store.append([row(id, 11)]) == set()
    store.close()
    assert make(path).load(id).rows[-1] == row(id, 11)


def test_a_folder_that_is_gone(path, tmp_path):
    store, id = begun(path, 3)
    path.rename(tmp_path / "away")
    assert store.append([row(id, 4)]) == {id}
    for use in (lambda: store.load(id), lambda: store.find("", KEY), lambda: store.count(""), lambda: store.delete(id)):
        with pytest.raises(StoreError):
            use()
    (tmp_path / "away").rename(path)
    assert numbers(store, id) == 3


def test_processes_that_create_a_folder_together(path):
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(make, [path] * 8))
    opened = [store.open([("", KEY)])[0] for store in stores]
    assert [is_new for _, is_new in opened] == [True] + [False] * 7
    assert len({stream for stream, _ in opened}) == 1


def test_what_is_not_a_store(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match="is a file, but must be a folder"):
        make(tmp_path / "file")
    with pytest.raises(ValueError, match="is not a folder of streams, and not empty"):
        make(tmp_path)
    for text in ('{"format": "nystream-folder-2"}', "[]", "{"):
        (tmp_path / "about.json").write_text(text)
        with pytest.raises(ValueError, match="another version"):
            make(tmp_path)


def test_rows_without_a_gap(path):
    store, id = begun(path, 3)
    with pytest.raises(ValueError, match=r"row.number=5 .* 4 is needed"):
        store.append([row(id, 5)])
    with pytest.raises(ValueError, match=r"row.number=4 .* 5 is needed"):
        store.append([row(id, 4), row(id, 4)])
    assert store.append([row(id, 4)]) == set()


def test_the_folder_stays_small(path):
    store, id = begun(path, 0)
    ((idle, _),) = store.open([("", OTHER)])
    store.load(idle.id)
    store.append([row(idle.id, 1)])
    for number in range(1, 1001):
        store.append([row(id, number)])
        if number % 10 == 0:
            store.save([snapshot(id, number)])
        store.tidy()
    files = list((path / "lane-003").iterdir())
    assert sum(file.stat().st_size for file in files) < 6000
    assert len(files) < 6
    assert store.load(idle.id) == Saved(None, [row(idle.id, 1)])

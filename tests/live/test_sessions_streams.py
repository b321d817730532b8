"""The streams of sessions: opened, closed, used by threads, interrupted, saved; and what is not a record."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nystream.data.reader import RecordError
from nystream.live import Session, Sessions
from nystream.stream.errors import UnknownStreamError


@pytest.fixture(autouse=True, scope="module")
def batches_of_one():
    """Few records go through arrays too, not only thousands."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("nystream.live.sessions.MIN_BATCH", 1)
        yield


def assert_same(ours, theirs):
    assert [(a.token, a.values.tobytes()) for a in ours] == [(a.token, a.values.tobytes()) for a in theirs]


def test_half_precision_and_the_torch_backend(make_model):
    sessions = Sessions(make_model().half(), backend="torch")
    assert sessions.backend == "torch"
    ours = sessions.take_many("abc", [[1, 2, 3], [1e5, 0, 0], [4, 5, 6]])
    assert "too large for float16" in str(ours[1])
    assert sessions.keys() == ("a", "c")
    assert "too large" in str(sessions.take_many("a", [[1e5, 0, 0]])[0])
    assert sessions.tokens("a") == 1


def test_a_bad_record_does_not_open_its_key(make_model):
    sessions = Sessions(make_model())
    with pytest.raises(RecordError):
        sessions.take("a", [1])
    ours = sessions.take_many(["a", "b", "a", "c"], [[1], [1, 2, 3], [4, 5, 6], "text"])
    assert [isinstance(answers, RecordError) for answers in ours] == [True, False, False, True]
    assert set(sessions.keys()) == {"a", "b"}
    assert (len(sessions), "c" in sessions, sessions.tokens("a")) == (2, False, 1)


def test_what_was_taken_is_a_sequence(make_model):
    taken = Sessions(make_model()).take_many("abcdef", [[1, 2, 3]] * 4 + ["bad", [4, 5, 6]])
    assert len(taken) == 6
    assert list(taken.errors) == [4]
    assert taken[-2] is taken[4] is taken.errors[4]
    assert taken[5][0] is taken[-1][0]
    assert [len(answers) for answers in taken[:4]] == [1] * 4
    assert repr(taken).startswith("[[Answer(token=1")
    for place in (6, -7):
        with pytest.raises(IndexError):
            taken[place]


def test_threads_take_turns(make_model):
    model, x = make_model(), np.random.default_rng(0).normal(size=(30, 3))
    sessions, session = Sessions(model, capacity=1), Session(model)
    expected = [session.take(row) for row in x]

    def work(name):
        keys = [(name, i) for i in range(name + 1)]
        return [sessions.take_many(keys, [row] * len(keys)) if keys[1:] else [sessions.take(keys[0], row)] for row in x]

    with ThreadPoolExecutor(4) as pool:
        for taken in pool.map(work, range(4)):
            for answers, theirs in zip(taken, expected, strict=True):
                for ours in answers:
                    assert_same(ours, theirs)
    assert len(sessions) == 10


def test_streams_are_opened_closed_and_restarted(make_model):
    model, x = make_model(), [1.0, 2.0, 3.0]
    sessions, session = Sessions(model, capacity=1), Session(model)
    first = session.take(x)
    for key in range(40):
        sessions.open(key)
    for key in range(0, 40, 2):
        sessions.take(key, x)
        sessions.close(key)
    with pytest.raises(ValueError, match="key=3 is open already"):
        sessions.open(3)
    for call in (sessions.close, sessions.restart, sessions.snapshot, sessions.tokens, sessions.whole):
        with pytest.raises(UnknownStreamError, match="key=2 is not open"):
            call(2)
    assert len(sessions) == 20
    for answers in sessions.take_many(range(40), [x] * 40):  # half of them use the memory of streams that were closed
        assert_same(answers, first)
    sessions.restart(5)
    assert_same(sessions.take(5, x), first)
    assert sessions.bytes_per_stream < sessions._pool.bytes_per_stream + 64
    assert "40 streams open" in repr(sessions)


def test_an_interrupted_push_spoils_no_other_stream(make_model, monkeypatch):
    sessions, x = Sessions(make_model()), [[1, 2, 3], [4, 5, 6]]
    sessions.take_many("abc", [*x, x[0]])
    before = sessions.snapshot("c")
    with monkeypatch.context() as patched:
        patched.setattr(sessions._pool, "push_many", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sessions.take_many("abd", [*x, x[0]])
    assert sessions.keys() == ("a", "b", "c")
    assert not sessions.whole("a")
    for call in (lambda: sessions.snapshot("a"), lambda: sessions.take("b", x[0]), lambda: sessions.take_many("ca", x)):
        with pytest.raises(RuntimeError, match="interrupted within a record"):
            call()
    assert sessions.snapshot("c") == before
    sessions.restart("a")
    sessions.restore("b", *before)
    assert [len(answers) for answers in sessions.take_many("abc", [*x, x[0]])] == [1, 1, 1]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([[1, 2, 3]], "keys has 2 keys, but there are 1 records"),
        ({"a": [1], "b": [1, 2]}, "1 fields of 'a', but 2 of 'b'"),
        ({"a": 1, "b": 2}, "a int for 'a', but a dict must have a column"),
        ("ab", "records is a str"),
        (np.float64(3), "records is a float64"),
    ],
)
def test_what_is_not_records(make_model, records, words):
    sessions = Sessions(make_model(inputs=("a", "b", "c")))
    with pytest.raises((TypeError, ValueError), match=words):
        sessions.take_many("ab", records)
    assert not len(sessions)
    assert list(sessions.take_many([], [])) == []


def test_a_reader_has_its_policies(make_model, hourly):
    with pytest.raises(ValueError, match="missing and gaps are policies"):
        Sessions(make_model(), missing="fill", reader=hourly())


def test_a_file_that_does_not_fit_changes_nothing(tmp_path, make_model):
    path, sessions = tmp_path / "streams", Sessions(make_model(task="detection"))
    sessions.take_many(["a", "b"], [[1, 2, 3], [4, 5, 6]])
    sessions.save(path)
    blob = path.read_bytes()
    before = sessions.snapshot("a")
    for model in (make_model(), make_model(seed=1, task="detection")):  # with another task, and with other weights
        other = Sessions(model)
        other.open("c")
        with pytest.raises(ValueError, match=r"differs in: task|other weights"):
            other.load(path)
        assert (other.keys(), len(other._pool)) == (("c",), 1)
    for damaged in (b"", blob[:-1], blob[:-1] + bytes([blob[-1] ^ 1]), blob.replace(b"nystream-sessions-1", b"x" * 19)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="streams: "):
            sessions.load(path)
    with pytest.raises(FileNotFoundError):
        sessions.load(tmp_path / "nothing")
    assert sessions.snapshot("a") == before
    sessions.open(("a", 1))
    with pytest.raises(TypeError, match="must be text or integers"):
        sessions.save(path)

"""Sessions give the answers of one session for each key, to the bit, however the records come."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream.data.live_table import LiveTable
from nystream.data.reader import ReaderError, RecordError
from nystream.data.sounds import SoundReader
from nystream.data.table_reader import Column, TableReader
from nystream.data.vectors import LiveVectors
from nystream.live import Session, Sessions

START = datetime(2024, 1, 1)
COLUMNS = Column("load", usual=3.0), Column("sky", ("clear", "cloudy"), 1.0), Column("wind", usual=0.5)
POLICIES = ("fail", "fill", "skip")
READERS = {
    "plain": TableReader(COLUMNS, ("load",), time="when", step=3600.0, zoned=False),
    "lags": TableReader(
        COLUMNS, ("load", "wind"), time="when", step=3600.0, zoned=False, centred=True, lags=(3, 1), ahead=2
    ),
    "untimed": TableReader(COLUMNS, ("wind",), lags=(2,)),
    "months": TableReader(COLUMNS, ("load",), time="when", step=2_629_746.0, months=1, day=31),
}


@pytest.fixture(autouse=True, scope="module")
def batches_of_one():
    """Few records go through arrays too, not only thousands."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("nystream.live.sessions.MIN_BATCH", 1)
        yield


def table_model(reader, **options):
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    config = ns.ModelConfig(input_dim=len(reader.names), output_dim=len(reader.targets), attention=attention)
    info = {"labels": reader.targets, "units": ("MW",), "horizon": 3} | options
    return ns.StreamModel(config, ns.ModelInfo("forecasting", inputs=reader.names, reader=reader.to_dict(), **info))


def assert_same(ours, theirs):
    """Both are the same error, or the same answers to the bit; only the duration of the step differs."""
    if isinstance(theirs, RecordError):
        assert (str(ours), ours.kind) == (str(theirs), theirs.kind)
        return
    assert isinstance(ours, list)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.values.dtype, one.values.tobytes()) == (other.values.dtype, other.values.tobytes())
        assert one._replace(values=None, microseconds=0) == other._replace(values=None, microseconds=0)


def taken(session, record):
    try:
        return session.take(record)
    except RecordError as error:
        return error


class Compared:
    """Sessions beside one session for each of a few keys."""

    def __init__(self, model, count=3, **policies):
        self.many = Sessions(model, **policies, capacity=1)
        self.single = {key: Session(model, Sessions(model, **policies).reader) for key in range(count)}

    def restart(self):
        for key in self.many.keys():  # noqa: SIM118
            self.many.close(key)
        for session in self.single.values():
            session.restart()

    def take(self, keys, records, as_given=None):
        ours = self.many.take_many(keys, records if as_given is None else as_given)
        assert ours[:] == list(ours)
        assert len(ours) == len(keys)
        notes, lost = {}, 0
        for place, (key, record) in enumerate(zip(keys, records, strict=True)):
            theirs = taken(self.single[key], record)
            assert_same(ours[place], theirs)
            if not isinstance(theirs, RecordError):
                lost += self.single[key].lost
                if self.single[key].note:
                    notes[place] = self.single[key].note
        assert (self.many.notes, self.many.lost) == (notes, lost)
        return ours

    def check_states(self):
        for key in self.many:
            assert self.many.snapshot(key) == self.single[key].snapshot()
            assert self.many.tokens(key) == self.single[key].tokens


COMPARED = {}


def compared(name, missing, gaps):
    """Kept between examples, because making a pool takes long."""
    reader = READERS[name]
    policies = {"missing": missing, "gaps": gaps if reader.time else None}
    case = name, missing, policies["gaps"]
    if case not in COMPARED:
        COMPARED[case] = Compared(table_model(reader), **policies)
    COMPARED[case].restart()
    return COMPARED[case]


def usually(value, *others):
    """A value, or now and then one of the others."""
    return st.integers(0, 9).flatmap(lambda dice: st.sampled_from(others) if dice == 0 else value)


numbers = st.floats(-100, 100) | st.integers(-50, 50) | st.floats(-5, 5).map(str) | st.floats(width=32).map(np.float32)
loads = usually(numbers, None, "", "oops", math.inf, math.nan, 1e300, 10**400, True, "1_0", b"2", [1])
skies = usually(st.sampled_from(["clear", "cloudy", " clear "]), None, "new", 1.0, True)
steps = usually(st.just(1), 0, 2, 1.2, 1.3, 0.7, 3, 150, -2, 1e7, None)
forms = usually(st.sampled_from(["text", "datetime", "datetime64"]), "zoned", "oops", "", "NaT", 17, datetime.max)
fields = st.tuples(st.integers(0, 2), steps, forms, loads, skies, loads, usually(st.just(None), "wind", "when", "all"))
calls = st.lists(st.lists(fields, max_size=6), max_size=8)


def written(now, form):
    moment = START + timedelta(hours=now) if abs(now) < 1e7 else datetime(9000, 1, 1)
    if form == "zoned":
        return moment.replace(tzinfo=UTC)
    return {
        "text": str(moment),
        "datetime": moment,
        "datetime64": np.datetime64(moment),
        "NaT": np.datetime64("NaT"),
    }.get(form, form)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(POLICIES), st.sampled_from(POLICIES), calls)
def test_tables_as_one_session_for_each_key(name, missing, gaps, calls):
    both, now, unit = compared(name, missing, gaps), dict.fromkeys(range(3), 0.0), 730 if name == "months" else 1
    for call in calls:
        keys, records = [], []
        for key, step, form, load, sky, wind, without in call:
            now[key] += unit * (step or 0)
            record = {"when": written(now[key], form), "load": load, "sky": sky, "wind": wind, "more": 1}
            now[key] = 0.0 if abs(now[key]) > 1e6 else now[key]
            record.pop(without, None)
            keys.append(key)
            records.append("no dict" if without == "all" else record)
        both.take(keys, records)
    both.check_states()


def hourly(count, first=0, keys=3):
    """`count` records of each key that follow each other."""
    random = np.random.default_rng(first)
    for hour in range(first, first + count):
        yield [
            {"when": str(START + timedelta(hours=hour)), "load": load, "sky": "clear", "wind": wind}
            for load, wind in random.normal(size=(keys, 2)).tolist()
        ]


@pytest.mark.parametrize("name", ["plain", "lags", "untimed"])
def test_usual_rows_do_not_go_through_the_reader(name, monkeypatch):
    both = Compared(table_model(READERS[name]))
    expected = [[both.single[key].take(record)[0] for key, record in enumerate(records)] for records in hourly(12)]
    monkeypatch.setattr(LiveTable, "read", None)
    for records, answers in zip(hourly(12), expected, strict=True):
        for ours, theirs in zip(both.many.take_many(range(3), records), answers, strict=True):
            assert_same(ours, [theirs])
    both.check_states()


def test_columns_are_rows():
    both = Compared(table_model(READERS["plain"]), missing="fill")
    for number, records in enumerate(hourly(16)):
        records[number % 3]["wind"] = None if number % 4 == 0 else 1.0
        lists = {name: [record[name] for record in records] for name in records[0]}
        frame = pl.DataFrame(lists)
        times = frame["when"].str.to_datetime()
        arrays = {name: np.array(column) for name, column in lists.items() if name != "wind"} | {"wind": lists["wind"]}
        forms = lists, frame, frame.with_columns(when=times), arrays | {"when": times.to_numpy()}
        both.take(range(3), records, forms[number // 4])
    late = next(hourly(1, 20))
    both.take([0, 1, 0], [late[0], late[0], late[0]], {name: [field] * 3 for name, field in late[0].items()})
    both.check_states()


def test_columns_with_missing_times_and_time_zones():
    reader = TableReader(COLUMNS, ("load",), time="when", step=3600.0, zoned=True)
    both, utc = Compared(table_model(reader), missing="fill"), START.replace(tzinfo=UTC)
    rest = {"load": [1.0, 2.0, 3.0], "sky": ["clear"] * 3, "wind": [0.5, 0.25, 0.125]}
    for hour in range(3):
        times = [utc + timedelta(hours=hour), utc, None if hour else utc]
        rows = zip(times, *rest.values(), strict=True)
        records = [dict(zip(("when", *rest), row, strict=True)) for row in rows]
        columns = {"when": times} | rest
        given = {name: pl.Series(values) for name, values in columns.items()} if hour == 1 else pl.DataFrame(columns)
        ours = both.take(range(3), records, given)
        assert ours[0][0].zoned
    naive = np.array([START] * 3, "datetime64[us]")
    errors = both.take(range(3), [{"when": naive[0], "load": 1.0, "sky": "clear", "wind": 0.5}] * 3)
    assert all("must have a time zone" in str(error) for error in errors)
    assert list(map(str, both.many.take_many(range(3), {"when": naive} | rest))) == list(map(str, errors))


class NaTType:
    """As pandas calls the type of times that are missing."""


class Frame:
    """A DataFrame as pandas has it."""

    class Column(list):
        to_list = list.copy

    def __init__(self, columns):
        self.columns, self._columns = list(columns), columns

    def __getitem__(self, name):
        return self.Column(self._columns[name])


def test_a_data_frame_of_another_library():
    both = Compared(table_model(READERS["plain"]), missing="fill")
    for hour in range(2):
        times = [START + timedelta(hours=hour), NaTType() if hour else START, START]
        records = [
            {"when": None if isinstance(t, NaTType) else t, "load": 2.5, "sky": "clear", "wind": 1} for t in times
        ]
        columns = {"when": times, "load": [2.5] * 3, "sky": ["clear"] * 3, "wind": [1] * 3}
        both.take(range(3), records, Frame(columns))
    both.check_states()


vectors = usually(
    st.lists(numbers, min_size=3, max_size=3) | st.lists(st.floats(-9, 9), min_size=3, max_size=3).map(np.array),
    [1, 2],
    [1, 2, None],
    [1, "oops", 3],
    [math.nan, 0, 1],
    [1, 1e39, 2],
    {"a": 1, "b": 2, "c": 3},
    {"b": 2, "c": 3},
    {"a": "x"},
    "text",
    None,
    [[1, 2, 3]],
)


@pytest.mark.parametrize("missing", POLICIES)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 2), vectors), max_size=6), max_size=6))
def test_vectors_as_one_session_for_each_key(missing, calls):
    if missing not in COMPARED:
        torch.manual_seed(0)
        attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        config = ns.ModelConfig(input_dim=3, output_dim=5, attention=attention)
        info = ns.ModelInfo("classification", inputs=("a", "b", "c"), several=missing == "fill")
        COMPARED[missing] = Compared(ns.StreamModel(config, info), missing=missing)
    both = COMPARED[missing]
    both.restart()
    for call in calls:
        both.take([key for key, _ in call], [record for _, record in call])
    both.check_states()


def test_arrays_of_vectors(make_model, monkeypatch):
    both, x = Compared(make_model(task="detection")), np.random.default_rng(0).normal(size=(7, 3, 3))
    expected = [[both.single[key].take(row) for key, row in enumerate(rows)] for rows in x]
    monkeypatch.setattr(LiveVectors, "read", None)
    for rows, answers in zip(x, expected, strict=True):
        for ours, theirs in zip(both.many.take_many(range(3), rows), answers, strict=True):
            assert_same(ours, theirs)
    both.check_states()


def test_columns_of_vectors(make_model):
    both = Compared(make_model(inputs=("a", "b", "c")), missing="fill")
    for number in range(4):
        columns = {"c": [1.5, "2", None if number else 3], "a": np.arange(3) + number, "b": np.ones(3), "more": "xyz"}
        if number == 3:
            del columns["b"]
        columns = {name: list(column) for name, column in columns.items()} if number % 2 else columns
        columns["more"] = list(columns["more"])
        records = [{name: column[place] for name, column in columns.items()} for place in range(3)]
        ours = both.take(range(3), records, columns)
        assert ours[0][0].filled == (("b",) if number == 3 else ())
    both.check_states()


def test_tokens_that_arrive_together(make_model):
    both = Compared(make_model(update_size=2))
    x = np.random.default_rng(0).normal(size=(5, 3, 2, 3)).astype(np.float32)
    for number, groups in enumerate(x):
        as_given = groups if number % 2 else groups.reshape(3, 6).tolist()
        ours = both.take(range(3), list(groups), as_given)
        assert [answer.token for answer in ours[0]] == [2 * number + 1, 2 * number + 2]
    both.check_states()


def test_sounds_and_readers_of_your_own(make_model, hourly):
    both = Compared(make_model())
    both.many = Sessions(make_model(), reader=hourly())
    both.single = {key: Session(make_model(), hourly()) for key in range(2)}
    for hour in (0, 2, 2, 3):
        both.take([0, 1, 0], [{"hour": hour, "load": 1}, {"hour": 2 * hour, "load": 2}, {"hour": hour + 1, "load": 1}])
    both.check_states()
    assert isinstance(both.take([0], [{}])[0], RecordError)
    reader = SoundReader(frames=2)
    attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
    config = ns.ModelConfig(input_dim=len(reader.names), output_dim=2, attention=attention)
    both = Compared(ns.StreamModel(config, ns.ModelInfo(reader=reader.to_dict())))
    for size in (100, 900, 1200):
        both.take([0, 1, 0], [np.linspace(-0.5, 0.5, size + extra) for extra in (0, 50, 90)])
    both.check_states()


def test_snapshots_are_those_of_a_session():
    model = table_model(READERS["lags"])
    both, other = Compared(model), Sessions(model)
    for records in hourly(7):
        both.take(range(3), records)
    for key in range(3):
        other.restore(key, *both.single[key].snapshot())
        both.single[key].restore(*both.many.snapshot(key))
    other.restore(0, *both.many.snapshot(1))  # in place of the open one
    other.restore(0, *both.many.snapshot(0))
    with pytest.raises(ValueError, match="memory"):
        other.restore(0, both.many.snapshot(1)[0], {"span": 3})
    both.many = other
    assert len(other._pool) == 3
    both.check_states()
    for records in hourly(3, 7):
        both.take(range(3), records)


def test_all_streams_in_one_file(tmp_path):
    model, path = table_model(READERS["lags"]), tmp_path / "streams"
    both = Compared(model)
    for records in hourly(5):
        both.take(range(3), records)
    both.many.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["streams"]
    other = Sessions(model)
    other.take("gone", records[0])
    other.take(1, records[0])
    other.load(path)
    assert set(other.keys()) == {0, 1, 2}
    assert len(other._pool) == 3
    for key in range(3):
        assert other.snapshot(key) == both.many.snapshot(key)
        both.single[key].restore(*both.many.snapshot(key))
    both.many = other
    for records in hourly(3, 5):
        both.take(range(3), records)
    Sessions(model).save(path)
    other.load(path)
    assert not len(other)


def test_a_record_on_which_the_reader_fails_loses_no_answer(monkeypatch):
    model = ns.StreamModel(
        ns.ModelConfig(
            input_dim=2,
            output_dim=1,
            attention=ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6),
        )
    )
    reader = type(Sessions(model).reader)
    read = reader.read

    def failing(self, record):
        if record == "poison":
            raise ZeroDivisionError
        return read(self, record)

    monkeypatch.setattr(reader, "read", failing)
    sessions, alone = Sessions(model), Sessions(model)
    keys = [0, 1, 2, 3, 4, 1]
    taken = sessions.take_many(keys, [[1, 2], "poison", [3, 4], [5, 6], [7, 8], [9, 10]])
    assert isinstance(taken[1], ReaderError)
    assert isinstance(taken[1].__cause__, ZeroDivisionError)
    (answer,), (expected,) = taken[5], alone.take(1, [9, 10])
    assert answer.to_dict() == expected.to_dict()
    with pytest.raises(ZeroDivisionError):
        sessions.take(0, "poison")
    assert sessions.whole(0)

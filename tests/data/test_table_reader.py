"""Rows read one at a time give the same tokens as the whole table, whatever is missing."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.data import RecordError, reader_from_dict
from nystream.data.table import Table
from nystream.data.table_reader import Column, TableReader
from nystream.data.table_rows import read_rows

READER = TableReader(
    columns=(Column("load", usual=5.0), Column("kind", ("a", "b", "c"), 1.0), Column("wind", usual=-1.0)),
    targets=("wind", "load"),
    time="time",
    step=3600.0,
)
CENTRED = replace(READER, centred=True, zoned=False)
LAGGED = replace(CENTRED, lags=(1, 2, 5), ahead=3, periods=(24.0, 12.0, 168.0))
SPLIT = replace(LAGGED, time="day", clock="clock")
LOCAL = replace(LAGGED, timezone="Europe/Berlin")
LOCAL_DAYS = replace(LOCAL, step=86400.0, periods=(168.0,))
POLICIES = ("fail", "fill", "skip")
NUMBERS = st.one_of(
    st.none(),
    st.just("NA"),
    st.integers(-999, 999),
    st.floats(-1e6, 1e6),
    st.sampled_from([" 2.5 ", "1e3", "+4", ".5"]),
)
READERS = st.sampled_from([READER, CENTRED, LAGGED, SPLIT, LOCAL, LOCAL_DAYS])
BEGIN = datetime(2024, 1, 1)
STEPS = st.sampled_from([1.0] * 6 + [2.0, 4.0, 0.0, -1.0, 1.05, 1.4, 0.3, 150.0, 11000.0, -200.0, -2.0])


@st.composite
def tables_of_rows(draw, reader=READER):
    rows = draw(st.integers(1, 12))
    begin = draw(st.sampled_from([BEGIN, BEGIN, datetime(2024, 3, 30, 23), datetime(2024, 10, 27, 0)]))
    hours = 24.0 if reader is LOCAL_DAYS else 1.0
    columns = {"ignored": ["x"] * rows}
    if reader.time is not None:
        at, stamps = 0.0, []
        for i in range(rows):
            at += draw(STEPS) if i else 0.0
            there = draw(st.sampled_from([True] * 9 + [False]))
            stamps.append((begin + timedelta(hours=hours * at)).isoformat(" ") if there else None)
        columns["time"] = stamps
        parts = [(None, None) if stamp is None else stamp.split() for stamp in stamps]
        columns["day"] = [day and draw(st.sampled_from([day, f"{day} 00:00:00"])) for day, _ in parts]
        columns["clock"] = [
            clock and draw(st.sampled_from([clock, clock.removeprefix("0"), None])) for _, clock in parts
        ]
    columns["load"], columns["wind"] = (draw(st.lists(NUMBERS, min_size=rows, max_size=rows)) for _ in range(2))
    kinds = st.sampled_from(["a", "b", "c", " a", "z", None])
    columns["kind"] = draw(st.lists(kinds, min_size=rows, max_size=rows))
    texts = {k: [None if v is None else str(v) for v in values] for k, values in columns.items()}
    return Table("rows.csv", pl.DataFrame(texts, schema=dict.fromkeys(texts, pl.String)), first_line=2)


def streamed(reader, rows, missing, gaps, break_at=None):
    live, tokens = reader.live(missing, gaps), []
    for i, record in enumerate(rows.records()):
        if i == break_at:
            memory = json.loads(json.dumps(live.memory()))
            live = reader_from_dict(json.loads(json.dumps(reader.to_dict()))).live(missing, gaps)
            live.remember(memory)
        tokens += live.read(record)
    return tokens


@given(
    reader=st.shared(READERS, key="reader"),
    rows=st.shared(READERS, key="reader").flatmap(tables_of_rows),
    missing=st.sampled_from(POLICIES),
    gaps=st.sampled_from(POLICIES),
    at=st.integers(0, 12),
)
@settings(max_examples=300)
def test_live_is_offline(reader, rows, missing, gaps, at):
    try:
        offline = read_rows(reader, rows, missing, gaps)
    except ValueError:
        with pytest.raises(RecordError):
            streamed(reader, rows, missing, gaps, at)
        return
    tokens = streamed(reader, rows, missing, gaps, at)
    assert len(tokens) == len(offline.x)
    for i, token in enumerate(tokens):
        np.testing.assert_array_equal(token.x, offline.x[i])
        np.testing.assert_array_equal(token.base, offline.base[i])
        assert token.time == offline.time[i]
        assert not (token.gap and offline.known[i].any())
        assert [name not in token.filled for name in READER.targets] == offline.known[i].tolist()


@given(rows=tables_of_rows(TableReader(READER.columns, READER.targets)), missing=st.sampled_from(POLICIES))
def test_without_a_time_column(rows, missing):
    reader = TableReader(READER.columns, READER.targets)
    try:
        offline = read_rows(reader, rows, missing)
    except ValueError:
        with pytest.raises(RecordError):
            streamed(reader, rows, missing, "fail")
        return
    tokens = streamed(reader, rows, missing, "fail")
    np.testing.assert_array_equal(np.array([token.x for token in tokens]).reshape(-1, 7), offline.x)
    assert all(token.time is None for token in tokens)


@given(rows=tables_of_rows(), missing=st.sampled_from(POLICIES), gaps=st.sampled_from(POLICIES))
def test_a_record_that_is_refused_changes_nothing(rows, missing, gaps):
    live = READER.live(missing, gaps)
    for record in rows.records():
        before = live.memory()
        try:
            live.read(record)
        except RecordError:
            assert live.memory() == before


def record(hour, load=1.0, wind=2.0, kind="a"):
    return {"time": f"2024-01-01T{hour:02d}:00:00", "load": load, "wind": wind, "kind": kind}


def test_a_token():
    (token,) = READER.live().read(record(6, "3.5"))
    assert READER.names[:7] == ("load", "kind=a", "kind=b", "kind=c", "wind", "change of wind", "change of load")
    assert token.x[:7].tolist() == [3.5, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0]
    assert token.x.dtype == np.float32
    np.testing.assert_allclose(token.x[7:9], [1.0, 0.0], atol=1e-6)  # a quarter of the day
    assert token.base.tolist() == [2.0, 3.5]
    assert len(token.x) == len(READER.names)


def test_changes_are_since_the_token_before():
    live = READER.live(gaps="fill", missing="skip")
    live.read(record(0, load=3.0))
    assert live.read(record(1, load=8.0, wind=None)) == []
    tokens = live.read(record(3, load=5.0))
    assert [token.x[6] for token in tokens] == [0.0, 2.0]


def test_lags_and_the_phase_of_the_forecast():
    live = LAGGED.live()
    rows = [{"time": f"2024-01-01T{hour:02d}:00", "load": hour**2, "kind": "a", "wind": -hour} for hour in range(7)]
    tokens = [token.x for row in rows for token in live.read(row)]
    names = LAGGED.names
    lags = [names.index(f"load, {lag} row{'s' * (lag > 1)} ago") for lag in LAGGED.lags]
    assert tokens[0][lags].tolist() == [0.0, 0.0, 0.0]
    assert tokens[4][lags].tolist() == [9.0 - 16.0, 4.0 - 16.0, 0.0]
    assert tokens[6][lags].tolist() == [25.0 - 36.0, 16.0 - 36.0, 1.0 - 36.0]
    assert tokens[6][names.index("wind, 5 rows ago")] == 5.0
    assert tokens[3][names.index("sine of day")] == pytest.approx(np.sin(2 * np.pi * (3 + 3) / 24))


def test_the_memory_of_version_0_1_has_one_row():
    row = {"time": "2024-01-01T00:00", "load": 1, "kind": "a", "wind": 3}
    live = READER.live()
    live.read(row)
    memory = live.memory()
    del memory["past"]
    older = READER.live()
    older.remember(memory | {"before": [1.0, 0.0, 3.0]})
    after = row | {"time": "2024-01-01T01:00", "load": 5}
    assert older.read(after)[0].x.tolist() == live.read(after)[0].x.tolist()
    with pytest.raises(ValueError, match=r"past rows \[1, 2\], but the reader needs \[5, 2\]"):
        LAGGED.live().remember(memory | {"before": [1.0, 0.0, 3.0]})


def test_filled_fields_are_named_and_take_the_last_value():
    live = READER.live(missing="fill")
    assert live.read({"time": "2024-01-01", "kind": "b", "load": 3.0}) == []
    assert live.note == "no value of 'wind' is known yet, so there is nothing to forecast from"
    (first,) = live.read({"time": "2024-01-01T01", "kind": None, "wind": 2.0})
    assert first.filled == ("load", "kind")
    assert first.base.tolist() == [2.0, 3.0]
    live.read(record(2, load=8.0))
    (third,) = live.read(record(3, load=float("nan"), kind="unheard of"))
    assert third.filled == ("load", "kind")
    assert third.x[:4].tolist() == [8.0, 1.0, 0.0, 0.0]
    live = READER.live(missing="fill")
    (first,) = live.read(record(0, kind=None))
    assert first.x[1:4].tolist() == [0.0, 1.0, 0.0]  # what is usual


def test_gaps_are_filled_and_marked():
    live = READER.live(gaps="fill")
    live.read(record(0, load=7.0))
    tokens = live.read(record(3, load=9.0))
    assert [token.gap for token in tokens] == [True, True, False]
    assert [token.x[0] for token in tokens] == [7.0, 7.0, 9.0]
    assert [str(token.time)[11:13] for token in tokens] == ["01", "02", "03"]
    assert live.read(record(3)) == []  # a row that comes again


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"load": "many"}, "'load' is 'many', which is not a number"),
        ({"load": "1_000"}, "not a number"),
        ({"load": [1]}, "not a number"),
        ({"load": float("inf")}, "not finite"),
        ({"load": None}, "'load' is empty"),
        ({"load": "", "wind": ""}, "'load' is empty, and 1 more is missing"),
        ({"kind": "z"}, "'z', a category that is not in the training data"),
        ({"time": "soon"}, "'soon', which is not a time"),
        ({"time": ""}, "'time' is empty"),
        ({"time": 7}, "a time must be text"),
        ({"time": "2024-01-01T05:00:00"}, "4 rows are missing between 2024-01-01 00:00:00 and 2024-01-01 05:00:00"),
        ({"time": "2024-01-01T00:00:00"}, "less than one step of 1 hour later"),
        ({"load": 10**400}, r"1000000000.*…, which is not a number"),
        ({"time": 10**400}, r"1000000000.*…, which is not a time"),
        ({"time": "2024-01-01T01:30:00"}, "not a whole number of steps"),
    ],
)
def test_what_is_refused(bad, words):
    live = READER.live()
    live.read(record(0))
    before = live.memory()
    with pytest.raises(RecordError, match=words.replace("(", r"\(")):
        live.read(record(1) | bad)
    assert live.memory() == before


def test_other_refusals():
    with pytest.raises(RecordError, match="'wind' is missing"):
        READER.live().read({"time": "2024-01-01", "load": 1, "kind": "a"})
    with pytest.raises(RecordError, match="a record is a list"):
        READER.live().read([1, 2])
    with pytest.raises(ValueError, match="gaps='guess' is not known"):
        READER.live(gaps="guess")
    with pytest.raises(ValueError, match="target 'kind' must be one of the columns of numbers"):
        TableReader(READER.columns, ("kind",))
    with pytest.raises(ValueError, match="unknown fields: colour"):
        reader_from_dict(READER.to_dict() | {"colour": 1})
    with pytest.raises(ValueError, match="the memory has 1 values"):
        READER.live().remember({"span": [None] * 3, "values": [1.0], "before": None, "doubted": None})


def test_a_date_and_a_time_of_day():
    live = SPLIT.live(missing="fill")
    row = {"day": "2024-01-01", "clock": "5:00", "load": 1, "kind": "a", "wind": 2}
    assert live.read(row)[0].time == np.datetime64("2024-01-01T05")
    (token,) = live.read(row | {"clock": None})
    assert (token.time, token.filled) == (np.datetime64("2024-01-01T06"), ("clock",))
    assert live.read(row | {"day": date(2024, 1, 1), "clock": 7})[0].time == np.datetime64("2024-01-01T07")
    assert live.read(row | {"day": datetime(2024, 1, 1), "clock": time(8)})[0].time == np.datetime64("2024-01-01T08")
    with pytest.raises(RecordError, match="'day' and 'clock' is '2024-01-01 noon', which is not a time"):
        live.read(row | {"clock": "noon"})
    with pytest.raises(RecordError, match="the first record has no 'day'"):
        SPLIT.live(missing="fill").read(row | {"day": ""})
    with pytest.raises(RecordError, match="column 'clock' is missing"):
        SPLIT.live().read({name: field for name, field in row.items() if name != "clock"})
    with pytest.raises(ValueError, match="'clock' is missing from the columns"):
        SPLIT.live("fill").check(["day", "load", "wind", "kind"], 4)
    with pytest.raises(ValueError, match="clock='clock' is a time of day without a date"):
        replace(SPLIT, time=None)


def local_rows(first, count, minutes=60, timezone="Europe/Berlin"):
    """Rows of local times, and their moments in UTC."""
    moments = [datetime.fromisoformat(first).replace(tzinfo=UTC) + i * timedelta(minutes=minutes) for i in range(count)]
    stamps = [moment.astimezone(ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M") for moment in moments]
    records = [{"time": stamp, "load": i, "kind": "a", "wind": 2} for i, stamp in enumerate(stamps)]
    return records, np.array([moment.replace(tzinfo=None) for moment in moments], "datetime64[us]")


@pytest.mark.parametrize("first", ["2024-03-30T20:00", "2024-10-26T20:00"])
@pytest.mark.parametrize("minutes", [15, 60])
def test_daylight_saving_time_leaves_no_gap(first, minutes):
    records, moments = local_rows(first, 40, minutes)
    reader = replace(LOCAL, step=60.0 * minutes)
    offline = read_rows(reader, Table("rows.csv", pl.DataFrame(records)), gaps="fail")
    np.testing.assert_array_equal(offline.time, moments)
    live = reader.live(gaps="fail")
    assert [token.time for record in records for token in live.read(record)] == list(moments)
    assert (live.timezone, live.ahead(moments[0], 2)) == ("Europe/Berlin", moments[2])


def test_the_calendar_is_that_of_local_time():
    records, moments = local_rows("2024-03-30T20:00", 12)
    hours = [datetime.fromisoformat(record["time"]).hour for record in records[3:]]  # three hours ahead
    offline = read_rows(LOCAL, Table("rows.csv", pl.DataFrame(records)))
    sine = offline.x[: len(hours), LOCAL.names.index("sine of day")]
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * np.array(hours) / 24), atol=1e-6)
    zoned = [record | {"time": f"{moment}Z"} for record, moment in zip(records, moments, strict=True)]
    converted = read_rows(replace(LOCAL, zoned=True), Table("rows.csv", pl.DataFrame(zoned)))
    np.testing.assert_array_equal(converted.x, offline.x)
    np.testing.assert_array_equal(converted.time, offline.time)


def test_a_day_of_local_time_is_not_always_24_hours():
    days = [f"2024-{day}" for day in ("03-29", "03-30", "03-31", "04-01", "04-02")]
    records = [{"time": day, "load": i, "kind": "a", "wind": 2} for i, day in enumerate(days)]
    reader = replace(LOCAL_DAYS, ahead=1)
    offline = read_rows(reader, Table("rows.csv", pl.DataFrame(records)))
    plain = read_rows(replace(reader, timezone=""), Table("rows.csv", pl.DataFrame(records)))
    np.testing.assert_array_equal(offline.x, plain.x)
    assert reader.live().ahead(offline.time[1], 3) == offline.time[4]


def test_a_time_that_did_not_exist():
    row = {"time": "2024-03-31 02:30", "load": 1, "kind": "a", "wind": 2}
    words = "'time' is '2024-03-31 02:30', which is not a time: clocks in Europe/Berlin were set forward"
    with pytest.raises(RecordError, match=words):
        LOCAL.live().read(row)
    before = row | {"time": "2024-03-31 01:30"}
    with pytest.raises(ValueError, match=f"rows.csv, line 3: {words}"):
        read_rows(LOCAL, Table("rows.csv", pl.DataFrame([before, row]), first_line=2))
    with pytest.raises(RecordError, match="times must not have a time zone"):
        LOCAL.live().read(row | {"time": "2024-03-31T00:30Z"})
    with pytest.raises(ValueError, match="timezone='Mars' is not the name of a time zone"):
        replace(LOCAL, timezone="Mars")
    with pytest.raises(ValueError, match="timezone='Europe/Berlin' needs a time column"):
        replace(LOCAL, time=None)


def test_a_stream_that_is_resumed_within_the_repeated_hour():
    records, moments = local_rows("2024-10-27T00:00", 8, 15)  # from 02:00
    reader = replace(LOCAL, step=900.0)
    live = reader.live()
    for record in records[:5]:
        live.read(record)
    resumed = reader_from_dict(json.loads(json.dumps(reader.to_dict()))).live()
    resumed.remember(json.loads(json.dumps(live.memory())))
    assert [token.time for record in records[5:] for token in resumed.read(record)] == list(moments[5:])


KNOWN = replace(LAGGED, known=("wind", "kind"), known_rows=3, targets=("load",))


@given(
    rows=tables_of_rows(),
    missing=st.sampled_from(["fail", "fill"]),
    gaps=st.sampled_from(POLICIES),
    at=st.integers(0, 12),
)
@settings(max_examples=300)
def test_what_is_known_in_advance(rows, missing, gaps, at):
    """A live record has the values of the row that is forecast, as the whole table reads it."""
    plain = replace(KNOWN, known=(), known_rows=0)
    try:
        offline, own = read_rows(KNOWN, rows, missing, gaps), read_rows(plain, rows, missing, gaps)
    except ValueError:
        return
    assert len(offline.x) == len(own.x)
    place, records = 0, []
    live = plain.live(missing, gaps)
    for record in rows.records():
        tokens = live.read(record)
        later = own.x[min(place + len(tokens) - 1 + 3, len(own.x) - 1)] if tokens else None
        ahead = {}
        if later is not None and not live.note:  # neither dropped nor held back
            kind = KNOWN.columns[1].categories[int(later[1:4].argmax())]
            ahead = {"wind ahead": float(later[4]) + KNOWN.columns[2].usual, "kind ahead": kind}
        elif tokens or live.note_kind == "held back":
            return  # which values a row that is held back has is not known here
        else:
            ahead = {"wind ahead": 0.0, "kind ahead": "a"}  # of a row that is dropped
        records.append({name: record[name] for name in ("time", "load")} | ahead)
        place += len(tokens)
    tokens = streamed(KNOWN, Table("live", pl.DataFrame(records)), missing, gaps, at)
    # Values were rounded to float32 on the way.
    assert len(tokens) == len(offline.x)
    for token, x in zip(tokens, offline.x, strict=True):
        np.testing.assert_allclose(token.x, x, rtol=1e-5, atol=1e-6)


def test_known_columns():
    names = ("load", "kind ahead=a", "kind ahead=b", "kind ahead=c", "wind ahead")
    assert KNOWN.names[:5] == KNOWN.live().reader.names[:5] == names
    records = [record(hour, load=hour, wind=hour**2, kind="abc"[hour % 3]) for hour in range(8)]
    offline = read_rows(KNOWN, Table("rows.csv", pl.DataFrame(records)))
    winds = offline.x[:, 4] + KNOWN.columns[2].usual
    assert winds.tolist() == [9, 16, 25, 36, 49, 49, 49, 49]
    assert offline.x[:5, 1:4].argmax(1).tolist() == [0, 1, 2, 0, 1]
    live = KNOWN.live()
    for i in range(5):
        (token,) = live.read(
            {"time": records[i]["time"], "load": i, "wind ahead": (i + 3) ** 2, "kind ahead": records[i + 3]["kind"]}
        )
        np.testing.assert_array_equal(token.x, offline.x[i])
    gappy = read_rows(KNOWN, Table("rows.csv", pl.DataFrame(records[:2] + records[4:])), gaps="fill")
    winds = gappy.x[:, 4] + KNOWN.columns[2].usual
    assert winds.tolist() == [1, 16, 16, 16, 49, 49, 49, 49]  # row 3 is a gap; rows 2 and 3 repeat what row 1 had
    assert reader_from_dict(json.loads(json.dumps(KNOWN.to_dict()))) == KNOWN


def test_known_columns_that_are_refused():
    with pytest.raises(RecordError, match="column 'kind ahead' is missing, and 1 more is missing"):
        KNOWN.live().read(record(0))
    words = "'wind ahead' are missing .*; 'kind ahead' must be the value of 'kind' at the time .*, 3 rows later"
    with pytest.raises(ValueError, match=words):
        KNOWN.live("fill").check(["time", "load", "wind", "kind"], 4)
    with pytest.raises(ValueError, match="target 'load' is forecast, so it cannot be known in advance"):
        replace(KNOWN, known=("load",))
    with pytest.raises(ValueError, match="known_rows"):
        replace(KNOWN, known_rows=0)


def test_it_goes_through_json():
    assert reader_from_dict(json.loads(json.dumps(SPLIT.to_dict()))) == SPLIT
    older = {name: value for name, value in READER.to_dict().items() if name != "clock"}
    assert reader_from_dict(older) == READER
    assert reader_from_dict(json.loads(json.dumps(READER.to_dict()))) == READER

"""Rows that arrive one at a time: their times, missing values, and the sources they come from."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest

from nystream.data import RecordError, reader_from_dict
from nystream.data.table import Table
from nystream.data.table_reader import Column, TableReader
from nystream.data.table_rows import read_rows

BEGIN = datetime(2024, 1, 1)
READER = TableReader(
    columns=(Column("load", usual=5.0), Column("kind", ("a", "b", "c"), 1.0), Column("wind", usual=-1.0)),
    targets=("wind", "load"),
    time="time",
    step=3600.0,
)


def record(hour, load=1.0, wind=2.0, kind="a"):
    return {"time": f"2024-01-01T{hour:02d}:00:00", "load": load, "wind": wind, "kind": kind}


def times(live, *hours):
    """Read rows of these hours; return the hours of the tokens, and the note on each row."""
    found, notes = [], []
    for hour in hours:
        stamp = BEGIN + timedelta(hours=hour)
        tokens = live.read(record(0) | {"time": stamp.isoformat()})
        found.append([round((token.time - np.datetime64(BEGIN)) / np.timedelta64(1, "h")) for token in tokens])
        notes.append(live.note)
    return found, notes


@pytest.mark.parametrize("gaps", ["fill", "skip"])
def test_one_wrong_time_costs_one_row(gaps):
    live = READER.live(gaps=gaps)
    found, notes = times(live, 0, 1, 8784, 3, 4, 10**6, 6)
    between = [[2]] if gaps == "fill" else [[]]
    after = [[5]] if gaps == "fill" else [[]]
    assert found == [[0], [1], [], between[0] + [3], [4], [], after[0] + [6]]
    assert "8,783 rows after 2024-01-01 01:00:00; it is accepted with the next row, if that one follows it" in notes[2]
    lost = "the row before it is dropped: no other row confirms its time"
    assert [notes[i] for i in (0, 1, 3, 4, 6)] == ["", "", lost, "", lost]


def test_a_clock_that_was_set_is_believed_at_its_second_row():
    live = READER.live(gaps="skip")
    found, notes = times(live, 0, 10**6, 10**6 + 1, 1, 2, 3)  # and set back again
    assert found == [[0], [], [10**6, 10**6 + 1], [], [1, 2], [3]]
    assert "confirms the row before it" in notes[2]
    assert "back in time" in notes[4]
    live = READER.live(gaps="fill")
    assert times(live, 0, 1, 2, -50, 0, 1, 2, 3)[0] == [[0], [1], [2], [], [-50, *range(-49, 1)], [1], [2], [3]]


def test_rows_that_were_met_are_left_out():
    live = READER.live(gaps="fill")
    found, notes = times(live, 0, 1, 2, 3, 0, 1, 2, 3, 4)
    assert found == [[0], [1], [2], [3], [], [], [], [], [4]]
    assert notes[4] == "2024-01-01 00:00:00 is before the next row is due; the last row was at 2024-01-01 03:00:00"


def test_a_long_gap_is_filled_once_it_is_believed_and_one_that_is_too_long_passed_over():
    live = READER.live(gaps="fill")
    assert times(live, 0, 200, 201)[0] == [[0], [], list(range(1, 202))]
    found, notes = times(live, 20201, 20202, 20203)
    assert found == [[], [20201, 20202], [20203]]
    assert "19,999 missing rows skipped" in notes[1]


def test_a_row_that_is_held_back_and_comes_again_is_dropped_once():
    live = READER.live(gaps="skip")
    lost = []
    for hour in (0, 500, 500, 501):
        times(live, hour)
        lost.append(live.lost)
    assert lost == [0, 0, 1, 0]


def test_a_row_that_is_held_back_is_saved():
    live, other = READER.live(gaps="skip"), READER.live(gaps="skip")
    times(live, 0, 500)
    other.remember(json.loads(json.dumps(live.memory())))
    assert times(other, 501)[0] == [[500, 501]]


@pytest.mark.parametrize("missing", ["fail", "fill", "skip"])
def test_a_row_that_is_held_back_may_lack_fields(missing):
    live = READER.live(missing, "skip")
    live.read(record(0, load=4.0))
    doubtful = record(0, load=None) | {"time": "2024-03-01"}
    if missing == "fail":
        with pytest.raises(RecordError, match="'load' is empty"):
            live.read(doubtful)
        return
    assert live.read(doubtful) == []
    tokens = live.read(record(0, load=6.0) | {"time": "2024-03-01T01"})
    assert [token.x[0] for token in tokens] == ([4.0, 6.0] if missing == "fill" else [6.0])
    assert [token.filled for token in tokens] == ([("load",), ()] if missing == "fill" else [()])


def test_truths_are_the_same_in_every_format():
    for categories in (("false", "true"), ("False", "True")):
        reader = TableReader((Column("load"), Column("on", categories)), ("load",))
        for field in (True, "true", "True", "TRUE ", np.True_):
            assert reader.live().read({"load": 1, "on": field})[0].x[1:3].tolist() == [0.0, 1.0]
    reader = TableReader((Column("load"), Column("on")), ("load",))
    assert reader.live().read({"load": 1, "on": True})[0].x[1] == 1.0


@pytest.mark.parametrize("zoned", [True, False])
def test_times_with_and_without_a_zone_do_not_mix(zoned):
    live = replace(READER, zoned=zoned).live()
    here, there = ("2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00")[:: 1 if zoned else -1]
    assert live.zoned is zoned
    assert live.read(record(0) | {"time": here})[0].time == np.datetime64("2024-01-01")
    words = "times must have a time zone" if zoned else "times must not have a time zone"
    with pytest.raises(RecordError, match=words):
        live.read(record(0) | {"time": there})
    aware = datetime(2024, 1, 1, 1, tzinfo=UTC)
    assert len(live.read(record(0) | {"time": aware if zoned else aware.replace(tzinfo=None)})) == 1
    table = Table("a.csv", pl.DataFrame([record(0) | {"time": there}]))
    with pytest.raises(ValueError, match=words):
        read_rows(replace(READER, zoned=zoned), table)


def test_zones_in_a_table_are_all_or_none():
    moments = [datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2))).isoformat(), "2024-01-01T01:00:00"]
    table = Table("a.csv", pl.DataFrame([record(0) | {"time": moment} for moment in moments]), first_line=2)
    with pytest.raises(ValueError, match=r"a\.csv, line 3: .* but either all times must have a time zone, or none"):
        table.zoned("time", "iso")


def test_large_numbers_keep_their_last_digits():
    reader = TableReader((Column("load", usual=1e9),), ("load",), centred=True)
    (token,) = reader.live().read({"load": "1000000001.25"})
    assert token.x.tolist() == [1.25, 0.0]
    assert token.base.tolist() == [1000000001.25]


def test_when_the_next_row_is_due():
    now = np.datetime64("2024-01-31", "us")
    assert READER.live().ahead(now, 3) == np.datetime64("2024-01-31T03")
    assert READER.live(gaps="skip").ahead(now, 3) is None
    months = replace(READER, months=1, day=31, step=2629746.0)
    assert [str(months.live().ahead(now, i))[:10] for i in (1, 2, 12)] == ["2024-02-29", "2024-03-31", "2025-01-31"]


def test_months_go_by_the_calendar():
    reader = replace(READER, months=1, day=1, step=2629746.0)
    live = reader.live(gaps="fill")
    live.read(record(0))
    tokens = live.read(record(0) | {"time": "2024-05-01"})
    assert [str(token.time)[:10] for token in tokens] == ["2024-02-01", "2024-03-01", "2024-04-01", "2024-05-01"]
    stamps = ["2020-01-01", "2025-01-01"]  # five years are sixty months, whatever a month is long
    table = Table("a.csv", pl.DataFrame([record(0) | {"time": stamp} for stamp in stamps]))
    assert len(read_rows(reader, table, gaps="fill").x) == 61


@pytest.mark.parametrize(
    ("columns", "missing", "words"),
    [
        (None, "fail", "records are 4 numbers without names, but the model needs 'time', 'load', 'kind', 'wind'"),
        (["2024-01-01", "5"], "fill", "none of '2024-01-01', '5' is a column of the model; it needs 'time', 'load'"),
        (["time", "load", "kind"], "fail", "'wind' is missing from the columns, 'time', 'load', 'kind'"),
        (["time", "load", "kind"], "fill", "'wind' is missing"),  # a target
        (["load", "kind", "wind"], "fill", "'time' is missing"),
        (["time", "wind"], "skip", "'load', 'kind' are missing"),
    ],
)
def test_sources_that_do_not_fit(columns, missing, words):
    with pytest.raises(ValueError, match=words):
        READER.live(missing).check(columns, 4)


def test_sources_that_fit():
    READER.live().check(["wind", "x", "kind", "load", "time"], 5)
    READER.live("fill").check(["wind", "load", "time"], 3)  # what is usual, then


def test_the_policies_are_those_of_training():
    reader = replace(READER, missing="skip", gaps="fill")
    live = reader_from_dict(json.loads(json.dumps(reader.to_dict()))).live()
    assert (live.missing, live.gaps) == ("skip", "fill")
    assert (reader.live("fail", "skip").missing, reader.live("fail", "skip").gaps) == ("fail", "skip")
    assert (READER.live().missing, READER.live().gaps) == ("fail", "fail")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("foo", "column 'load' is 'foo', which is not a number"),
        ("inf", "column 'load' is 'inf', which is not finite"),
        ("nan", "column 'load' is nan; `missing='fill'` repeats"),
        (float("nan"), "column 'load' is nan; `missing='fill'` repeats"),
        ("NA", "column 'load' is 'NA', which counts as empty; `missing='fill'` repeats"),
        ("", "column 'load' is empty; `missing='fill'` repeats"),
        (None, "column 'load' is empty; `missing='fill'` repeats"),
    ],
)
def test_a_field_that_cannot_be_used_is_said_as_it_is(field, words):
    with pytest.raises(RecordError) as caught:
        READER.live().read(record(0, load=field))
    assert str(caught.value).startswith(words)


def test_notes_of_one_kind():
    live = READER.live(missing="skip", gaps="skip")
    live.read(record(5))
    kinds = []
    for row in (record(5), record(4), record(6, load=""), record(7, kind="d"), record(8, kind="e"), record(9)):
        live.read(row)
        kinds.append(live.note_kind)
    assert kinds == [
        "early",
        "held back",
        "column 'load' is empty",
        "column 'kind' has a new category",
        "column 'kind' has a new category",
        "",
    ]


@pytest.mark.parametrize("step", [3600.0, 86400.0])
@pytest.mark.parametrize(
    ("time", "zone"),
    [("0001-01-01", "Europe/Berlin"), ("9999-12-31 23:30", "Europe/Berlin"), ("9999-12-31", "America/New_York")],
)
def test_times_without_a_local_time_are_rejected(step, time, zone):
    live = replace(READER, step=step, zoned=False, timezone=zone, ahead=24, gaps="fill").live()
    for _ in range(2):  # before the first row, and after it
        with pytest.raises(RecordError, match=f"{time}.* is not within the years 1 to 9999 in {zone}"):
            live.read(record(0) | {"time": time})
        live.read(record(0))

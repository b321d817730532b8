"""The usual rows of many streams at once are bitwise the tokens and states that the live reader gives one by one."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.data.records import RecordRows
from nystream.data.table_reader import Column, TableReader
from nystream.data.timestamps.timeline import Span, judge

COLUMNS = Column("load", usual=1e6), Column("sky", ("clear", "cloudy", "rain")), Column("wind", usual=0.1)
START = datetime(1969, 12, 31, 22, 30)  # before and after the epoch


def reader(**options):
    return TableReader(COLUMNS, ("load", "wind"), time="when", step=900.0, centred=True, **options)


def assert_same_state(ours, theirs):
    assert ours.row == theirs.row
    np.testing.assert_array_equal(ours.past, theirs.past)


@settings(max_examples=40, deadline=None)
@given(
    streams=st.integers(1, 37),
    rows=st.integers(1, 12),
    lags=st.sampled_from([(), (1,), (5, 2), (1, 2, 3)]),
    periods=st.sampled_from([(24.0, 168.0), (24.0,), (7.3,)]),
    ahead=st.sampled_from([0, 3]),
    seed=st.integers(0, 1000),
)
def test_tokens_and_states_are_those_of_the_reader(streams, rows, lags, periods, ahead, seed):
    random = np.random.default_rng(seed)
    live = reader(lags=lags, periods=periods, ahead=ahead).live()
    states, slots = live.states(), random.permutation(2 * streams)[:streams]
    states.grow(2 * streams)
    fresh = live.state
    for slot in slots:
        states.store(int(slot), fresh)
    expected = dict.fromkeys(slots.tolist(), fresh)
    starts = [START + timedelta(seconds=int(s)) for s in random.integers(0, 10**9, streams)]
    for row in range(rows):
        scale = 10.0 ** random.integers(-3, 30, (streams, 2))
        values = (random.normal(size=(streams, 2)) * scale).tolist()
        records = [
            {"when": start + timedelta(seconds=900 * row), "load": load, "sky": COLUMNS[1].categories[i], "wind": wind}
            for start, (load, wind), i in zip(starts, values, random.integers(0, 3, streams), strict=True)
        ]
        batch = states.batch(slots, RecordRows(records))
        assert batch is not None
        np.testing.assert_array_equal(batch.places, np.arange(streams))
        for place, (slot, record) in enumerate(zip(slots.tolist(), records, strict=True)):
            live.state = expected[slot]
            (token,) = live.read(record)
            expected[slot] = live.state
            assert batch.x[place, 0].tobytes() == token.x.tobytes()
            assert batch.base[place].tobytes() == token.base.tobytes()
            assert batch.time[place] == token.time
        states.advance(slots, batch)
        if row % 3 == 1:  # a state that was loaded and stored again is the same
            states.store(int(slots[0]), states.load(int(slots[0])))
    for slot, state in expected.items():
        assert_same_state(states.load(slot), state)


@pytest.mark.parametrize("gaps", ["fail", "fill", "skip"])
@given(
    elapsed=st.integers(0, 2 * 900_000_000) | st.sampled_from([675_000_000, 674_999_999, 1_125_000_000, 1_125_000_001]),
    span=st.sampled_from([Span(), Span(-5, 10), Span(10, 10), Span(-5, 10, 500)]),
)
def test_only_rows_that_the_rules_accept_as_they_are_come_in_a_batch(gaps, elapsed, span):
    live = reader(gaps=gaps).live()
    states = live.states()
    states.grow(1)
    states.store(0, live.state._replace(row=live.state.row._replace(span=span)))
    record = {"when": np.datetime64(10 + elapsed, "us"), "load": 1, "sky": "clear", "wind": 2}
    batch = states.batch(np.array([0]), RecordRows([record]))
    verdict = judge(live.reader.spacing, gaps, span, 10 + elapsed)
    plain = verdict.rows == (("row", 10 + elapsed),) and not (verdict.note or verdict.error or verdict.unconfirmed)
    if batch is not None:
        assert plain
        states.advance(np.array([0]), batch)
        assert states.load(0).row.span == verdict.span
    elif abs(elapsed / 900_000_000 - 1) <= 0.25:
        assert not plain


def test_the_ring_of_past_rows_turns():
    live = reader(lags=(3,)).live()
    states = live.states()
    states.grow(1)
    states.store(0, live.state)
    for row in range(8):
        record = {"when": np.datetime64(900_000_000 * row, "us"), "load": row, "sky": "rain", "wind": -row}
        states.advance(np.array([0]), states.batch(np.array([0]), RecordRows([record])))
    assert int(states.rows["oldest"][0]) == 8 % 3
    np.testing.assert_array_equal(states.load(0).past, [[5, -5], [6, -6], [7, -7]])
    states.grow(9)
    np.testing.assert_array_equal(states.load(0).past, [[5, -5], [6, -6], [7, -7]])

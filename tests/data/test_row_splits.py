"""Which rows of a table are for training, validation and testing."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.data.forecast import forecast
from nystream.data.row_splits import given_shares
from nystream.data.table import read_table

PARTS = ("train", "valid", "test")


@pytest.fixture
def make(write_csv, hours, waves):
    """A table of rows `first` to `last` of one series."""

    def make(name="data.csv", first=0, last=400, scale=1.0, **columns):
        load = [scale * x for x in waves(last)][first:]
        return read_table(write_csv({"t": hours(last)[first:], "load": load, **columns}, name))

    return make


def forecast_times(problem, part):
    """The first and the last time that is forecast in a part."""
    start, stop = problem.scored(part, 0)[[0, -1]] + (0, 1)
    times = problem.rows.time[np.array([start, stop - 1]) + problem.horizon]
    return [str(time.astype("datetime64[h]")) for time in times]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 98), st.integers(1, 98))
def test_shares(train, valid):
    if train + valid < 100:
        shares = tuple(x / 100 for x in (train, valid, 100 - train - valid))
        assert given_shares([str(share) for share in shares], {}) == shares


def test_a_split_by_shares(make):
    problem = forecast(make(), ["load"], split=("0.5", "0.25", "0.25"))
    assert [problem.edges(part) for part in PARTS] == [(0, 199), (199, 299), (299, 399)]
    assert problem.notes[-1] == "199 rows for training, 100 rows for validation, 100 rows for testing"
    assert forecast(make(), ["load"]).edges("test") == (359, 399)


@pytest.mark.parametrize("horizon", [1, 5])
def test_a_split_by_times(make, horizon):
    problem = forecast(make(), ["load"], horizon, split=("2024-01-08", "2024-01-12 06:00"))
    # What is forecast decides: no target of the training data is of a later time.
    assert forecast_times(problem, "train")[1] == "2024-01-07T23"
    assert forecast_times(problem, "valid") == ["2024-01-08T00", "2024-01-12T05"]
    assert forecast_times(problem, "test") == ["2024-01-12T06", "2024-01-17T15"]
    assert problem.notes[-1].endswith("; validation begins at 2024-01-08, testing at 2024-01-12 06:00")


def test_times_in_the_format_of_the_table(write_csv, hours, waves):
    path = write_csv({"t": hours(400, form="%d.%m.%Y %H:%M"), "load": waves(400)})
    problem = forecast(read_table(path), ["load"], split=("08.01.2024 00:00", "12.01.2024 06:00"))
    assert forecast_times(problem, "valid") == ["2024-01-08T00", "2024-01-12T05"]


def test_usual_values_are_those_of_the_training_rows(make):
    level = [0.0] * 190 + [100.0] * 210
    level[::7] = [50.0] * len(level[::7])  # constants are not used
    early, late = (
        forecast(make(level=level), ["load"], columns=["level"], split=split)
        for split in (("2024-01-08", "2024-01-12"), ("0.9", "0.05", "0.05"))
    )
    assert [problem.reader.columns[1].usual for problem in (early, late)] == [0.0, 50.0]


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (("0.5",), "has 1 value, but it must be two times"),
        (("0.5", "0.6", "0.2"), "their sum 1"),
        (("1.0", "0.0", "0.0"), "greater than 0"),
        (("nan", "0.5", "0.5"), "greater than 0"),
        (("a", "b", "c"), "not a number"),
        (("0.5", "0.5"), "'0.5' is not a time"),
        (("2024-01-12", "2024-01-08"), "must begin after"),
        (
            ("2024-01-12", "2024-05-08"),
            "leaves a part without rows: data.csv has 400 rows, from 2024-01-01T00:00:00 to",
        ),
        (("2024-01-08T00:00Z", "2024-01-12"), "has a time zone"),
    ],
)
def test_bad_splits(make, split, words):
    with pytest.raises(ValueError, match=words):
        forecast(make(), ["load"], split=split)


def test_times_need_a_time_column(make):
    with pytest.raises(ValueError, match=r"data\.csv has no time column; give three shares"):
        forecast(make(), ["load"], time="none", split=("2024-01-08", "2024-01-12"))


@pytest.mark.parametrize("linear", [False, True])
def test_other_tables(make, linear):
    held_out = {"valid": make("va.csv", 400, 1000), "test": make("te.csv", 1000, 1700)}
    problem = forecast(make(), ["load"], 3, held_out=held_out, linear=linear)
    assert [problem.edges(part) for part in PARTS] == [(0, 397), (400, 997), (1000, 1697)]
    note = "397 rows for training, 597 rows for validation (va.csv), 697 rows for testing (te.csv)"
    assert note in problem.notes
    # A table starts afresh: nothing before its first row is read, and its first window is not scored.
    assert problem.part("test", 9).length.tolist() == [697]
    assert problem.scored("test", 9).tolist() == list(range(1009, 1697))
    alone = forecast(held_out["test"], horizon=3, reader=problem.reader)
    np.testing.assert_array_equal(problem.part("test", 9).x, alone.part("all", 9).x)
    np.testing.assert_array_equal(problem.part("test", 9).y, alone.part("all", 9).y)
    found, expected = problem.baselines("test", 9), alone.baselines("all", 9)
    assert {name: found[name] for name in expected} == expected
    assert np.isnan(problem.y[397:400]).all()
    assert problem.part("all", 0).length.tolist() == [397, 597, 697]
    if linear:
        start = problem.start
        for first, stop in ((0, 400), (400, 1000), (1000, 1700)):
            scaled = start.scaler(torch.from_numpy(problem.rows.x[first:stop]).double())
            np.testing.assert_allclose(start.output[first:stop], start.path.predict(scaled).numpy())
            np.testing.assert_allclose(start.ridge_output[first:stop], start.ridge.predict(scaled).numpy())


@pytest.mark.parametrize("part", ["valid", "test"])
def test_one_other_table(make, part):
    problem = forecast(make(), ["load"], held_out={part: make("other.csv", 400, 800)}, linear=True)
    other = "test" if part == "valid" else "valid"
    assert problem.edges("train") == (0, 359)
    assert problem.edges(other) == (359, 399)
    assert problem.edges(part) == (400, 799)
    assert problem.scored(other, 20).tolist() == list(range(359, 399))  # rows of the source before it fill its window


def test_ridge_is_the_same_with_validation_data_of_their_own(make):
    """The last rows as another table: only what is read before their start differs, so the same fit is chosen."""
    source = forecast(make(last=1600), ["load"], split=("0.5", "0.4", "0.1"), linear=True)
    cut = source.edges("valid")
    held_out = {"valid": make("va.csv", cut[0], cut[1] + 1), "test": make("te.csv", cut[1], 1600)}
    apart = forecast(make("first.csv", 0, cut[0] + 1), ["load"], held_out=held_out, linear=True)
    assert apart.start.name == source.start.name
    assert apart.start.ridge.lags == source.start.ridge.lags
    np.testing.assert_allclose(apart.start.ridge.weight, source.start.ridge.weight, atol=0.05)


def test_rows_that_are_also_in_the_source(make):
    problem = forecast(make(), ["load"], held_out={"test": make("te.csv", 300, 500)})
    assert "100 rows of te.csv are also in the source, so scores on them may flatter" in problem.notes


def test_the_fingerprint_has_all_tables(make):
    def of(scale):
        return forecast(make(), ["load"], held_out={"test": make("te.csv", 400, 700, scale)}).fingerprint

    assert of(1.0) == of(1.0) != of(2.0)


def test_bad_tables(make):
    with pytest.raises(ValueError, match=r"does not go with --test"):
        forecast(make(), ["load"], split=("0.8", "0.1", "0.1"), held_out={"test": make("te.csv", 400, 700)})
    other = make("te.csv", 400, 700)
    with pytest.raises(ValueError, match=r"test=te\.csv cannot be used: te\.csv has no column 'two'"):
        forecast(make(two=list(range(400))), ["load"], columns=["two"], held_out={"test": other})
    with pytest.raises(ValueError, match=r"test=te\.csv has 2 rows, too few for targets 3 rows ahead"):
        forecast(make(), ["load"], 3, held_out={"test": make("te.csv", 400, 402)})
    problem = forecast(make(), ["load"], held_out={"test": make("te.csv", 400, 420)})
    with pytest.raises(ValueError, match=r"test has 19 rows to forecast from.*the first 30 only fill the window"):
        problem.part("test", 30)

"""Forecasts of columns of a table."""

import math

import numpy as np
import pytest
import torch

from nystream.data.forecast import forecast
from nystream.data.forecast_problem import levels
from nystream.data.table import read_table
from nystream.data.table_reader import TableReader


@pytest.fixture
def problem(write_csv, hours, waves):
    load = waves(300)
    table = read_table(write_csv({"t": hours(300), "load": load, "two": [2 * x for x in load]}))
    return forecast(table, ["two", "load"], horizon=3)


def test_targets_are_changes(problem):
    base = problem.rows.base
    np.testing.assert_allclose(problem.y, base[3:] - base[:-3], atol=1e-5)
    assert problem.info.labels == ("two", "load")
    assert (problem.info.horizon, problem.info.seconds) == (3, 3600.0)
    assert len(problem.info.inputs) == problem.part("train", 0).input_dim
    assert TableReader.from_dict(problem.info.reader) == problem.reader


def test_the_split_is_in_order_and_every_row_of_it_is_scored(problem):
    train, valid, test = (problem.part(name, warm=9) for name in ("train", "valid", "test"))
    assert [len(part.x) for part in (train, valid, test)] == [237, 30 + 9, 30 + 9]
    np.testing.assert_array_equal(test.x[9:], problem.rows.x[267:297])
    np.testing.assert_array_equal(valid.x[:9], problem.rows.x[228:237])


def test_newest_first(problem, write_csv, hours, waves):
    load = waves(300)
    columns = {"t": hours(300)[::-1], "load": load[::-1], "two": [2 * x for x in load[::-1]]}
    turned = forecast(read_table(write_csv(columns)), ["two", "load"], horizon=3)
    assert "newest first: sorted by time" in turned.notes
    assert turned.reader == problem.reader
    np.testing.assert_array_equal(turned.rows.x, problem.rows.x)
    again = forecast(read_table(write_csv(columns)), horizon=3, reader=problem.reader)
    assert again.notes == ("newest first: sorted by time",)
    np.testing.assert_array_equal(again.y, problem.y)
    columns["load"][20] = "much"
    with pytest.raises(ValueError, match=r"data.csv, line 22: column 'load' is 'much', which is not a finite number"):
        forecast(read_table(write_csv(columns)), horizon=3, reader=problem.reader)


def test_scores_are_in_the_users_units(problem):
    stop = problem.scored("test", 9)[-1] + 1
    y = torch.from_numpy(problem.y[stop - 30 : stop])
    scores = problem.scores("test", 9, y + 2.0, y)
    assert scores["mean absolute error of two"] == pytest.approx(2.0, abs=1e-5)
    assert scores["root mean squared error of load"] == pytest.approx(2.0, abs=1e-5)
    quantiles, guess, truth = levels(problem, "test", 9, y)
    np.testing.assert_allclose(guess, truth, atol=1e-5)  # y is rounded to float32
    np.testing.assert_array_equal(quantiles[..., 0], guess)
    np.testing.assert_array_equal(truth[..., 0], problem.rows.base[270:300])


def test_the_mean_over_targets_has_no_units(problem):
    y = problem.y[267:297].astype(np.float64)
    output = y + np.array([1.0, 5.0])
    scores = problem.scores("test", 9, torch.from_numpy(output), torch.from_numpy(y))
    naive = np.abs(y).mean(0)
    found = scores["mean absolute error relative to persistence, mean over targets"]
    assert found == pytest.approx(np.mean([1 / naive[0], 5 / naive[1]]))
    naive = np.sqrt(np.square(y).mean(0))
    found = scores["root mean squared error relative to persistence, mean over targets"]
    assert found == pytest.approx(np.mean([1 / naive[0], 5 / naive[1]]))
    persistence = problem.baselines("test", 9)["persistence"]
    assert [value for name, value in persistence.items() if "relative" in name] == [1.0, 1.0]


def test_a_target_that_does_not_change_has_no_relative_error(write_csv, hours, waves):
    table = read_table(write_csv({"t": hours(300), "load": waves(300), "flat": [i // 60 for i in range(300)]}))
    two = forecast(table, ["load", "flat"])
    found = two.baselines("test", 9)["persistence"]
    assert found["mean absolute error of flat"] == 0.0
    assert math.isnan(found["mean absolute error relative to persistence, mean over targets"])


def test_baselines(problem):
    found = problem.baselines("test", 9)
    assert list(found) == ["persistence", "a day ago", "a week ago"]
    y = problem.y[267:297, 1]
    assert found["persistence"]["mean absolute error of load"] == pytest.approx(np.abs(y).mean(), rel=1e-5)
    assert found["a day ago"]["mean absolute error of load"] < 0.3  # a daily wave and little noise
    assert "a week ago" not in problem.baselines("all", 9)


def test_targets_that_are_not_known_are_not_scored(write_csv, hours):
    values = [float(i**1.1) for i in range(40)]
    values[20] = None
    stamps = [stamp for i, stamp in enumerate(hours(41)) if i != 30]
    table = read_table(write_csv({"t": stamps, "a": values}))
    problem = forecast(table, ["a"], missing="fill", gaps="fill")
    assert len(problem.y) == 40
    assert np.flatnonzero(np.isnan(problem.y[:, 0])).tolist() == [19, 29]
    # A change counts from the last known value.
    assert problem.y[20, 0] == pytest.approx(values[21] - values[19], rel=1e-4)
    assert all(math.isfinite(score) for score in problem.baselines("train", 4)["persistence"].values())


@pytest.mark.parametrize(("place", "words"), [(80, "next 10% of the rows, the validation data"), (90, "last 10%")])
def test_a_part_without_targets_is_refused(write_csv, place, words):
    values = [float(i**1.1) for i in range(101)]
    values[place + 1 : place + 11] = [None] * 10
    table = read_table(write_csv({"a": values}))
    with pytest.raises(ValueError, match=f"'a' is empty in all of the {words}.*; `missing='skip'` drops rows"):
        forecast(table, ["a"], missing="fill")
    assert len(forecast(table, ["a"], missing="skip").y)


def test_a_table_without_targets_is_not_scored(problem, write_csv, hours):
    table = read_table(write_csv({"t": hours(50), "load": [1.0] + [None] * 49, "two": range(50)}))
    with pytest.raises(ValueError, match="'load' is empty in all of the rows"):
        forecast(table, horizon=3, missing="fill", reader=problem.reader)


def test_too_few_rows(write_csv):
    table = read_table(write_csv({"a": range(5)}))
    with pytest.raises(ValueError, match="has 5 rows, too few for targets 5 rows ahead"):
        forecast(table, ["a"], horizon=5)
    with pytest.raises(ValueError, match="horizon=0 must be at least 1"):
        forecast(table, ["a"], horizon=0)


def test_what_is_known_in_advance(write_csv, hours, waves):
    rng = np.random.default_rng(0)
    wind = rng.normal(size=600).round(3).tolist()
    load = (np.array(waves(600)) + 5 * np.array(wind)).round(3).tolist()  # the wind of the same hour
    columns = {"t": hours(600), "load": load, "wind": wind}
    table = read_table(write_csv(columns))
    problem = forecast(table, ["load"], 3, known=["wind"], linear=True)
    assert "'wind' is known in advance: live records have it as 'wind ahead'" in problem.notes
    assert problem.info.inputs[:2] == ("load", "wind ahead")
    without = forecast(table, ["load"], 3, linear=True)

    def error(of):
        start, stop = of.edges("test")
        return np.abs(of.start.output[start:stop] - of.y[start:stop]).mean()

    assert error(problem) < error(without) / 5
    ahead = {"t": hours(597), "load": load[:-3], "wind ahead": wind[3:]}  # as live records have it
    again = forecast(read_table(write_csv(ahead)), horizon=3, reader=problem.reader)
    np.testing.assert_array_equal(again.rows.x, problem.rows.x[:597])
    for known, words in (
        (["rain"], "data.csv has no known column 'rain'; it has 't', 'load', 'wind'"),
        (["load"], "target 'load' is forecast, so it cannot be known in advance"),
        (["t"], "known column 't' is the time column"),
        (["wind", "wind"], "known column 'wind' is named more than once"),
    ):
        with pytest.raises(ValueError, match=words):
            forecast(table, ["load"], 3, known=known)


def test_a_known_column_that_does_not_help_is_dropped(write_csv, hours, waves):
    noise = np.random.default_rng(1).normal(size=2000).round(3).tolist()
    columns = {"t": hours(2000), "load": waves(2000), "noise": noise}
    problem = forecast(read_table(write_csv(columns)), ["load"], 3, known=["noise"], linear=True)
    assert "noise ahead" not in problem.info.inputs
    assert problem.reader.known == ()


def test_footers_are_named_with_the_option_that_skips_them(tmp_path, hours, waves):
    path, rows = tmp_path / "data.csv", [f"{time},{x}" for time, x in zip(hours(60), waves(60), strict=True)]

    def refused(words, *footer, **options):
        path.write_text("\n".join(["t,load", *rows, *footer]))
        with pytest.raises(ValueError, match=words):
            forecast(read_table(path), ["load"], **options)

    end = "; the last line looks like a footer: `skip_end=1` skips it$"
    refused(f"line 62: 't' is 'Total', which is not a time: .*{end}", "Total,3.5")
    refused(f"has missing fields, line 62: 't' is empty; .*{end}", ",3.5")
    refused(f"'load' cannot be used: it has 'us' in line 62, which is not a number{end}", "by,us", time="none")
    path.write_text("\n".join(["t,load", *rows, "", "Total,3.5", ""]))
    problem = forecast(read_table(path, skip_end=1), ["load"])
    assert len(problem.rows.x) == 60
    path.write_text("\n".join(["t,load", *rows, f"{hours(61)[-1]},1", f"{hours(62)[-1]},x"]))
    with pytest.raises(ValueError, match=f"line 63: column 'load' is 'x', which is not a finite number{end}"):
        forecast(read_table(path), reader=problem.reader)

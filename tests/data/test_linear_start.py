"""Forecasts that start from ridge regression."""

import dataclasses

import numpy as np
import polars as pl
import pytest
import torch

import nystream as ns
from nystream.data import linear_start
from nystream.data.forecast import forecast
from nystream.data.table import Table


def table(rows=900, **columns):
    rng = np.random.default_rng(0)
    hour = np.arange(rows)
    load = 100 + 20 * np.sin(2 * np.pi * hour / 24) + 5 * np.sin(2 * np.pi * hour / 168) + rng.normal(size=rows)
    stamps = [str(stamp) for stamp in np.datetime64("2024-01-01T00", "s") + hour * np.timedelta64(3600, "s")]
    return Table("rows.csv", pl.DataFrame({"time": stamps, "load": load, **columns}), first_line=2)


def config(problem, variant="co-full-single"):
    attention = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=8, decay=True)
    return ns.ModelConfig(
        input_dim=problem.input_dim,
        output_dim=problem.output_dim,
        attention=attention,
        layers=2,
        stack="deep",
        linear=problem.start.config,
    )


def test_before_training_the_model_is_ridge_regression():
    problem = forecast(table(), ["load"], 3, linear=True)
    start = problem.start
    trained = ns.StreamModel(linear_start.without_path(config(problem), 1))
    linear_start.prepare(trained, start)
    model = linear_start.joined(trained, config(problem), start)
    data = problem.part("all", 0)
    with torch.no_grad():
        y, _ = model.steps(data.x[None], model.init_state(1))
    # float32 through weights of 336 rows; the outputs are around 10
    np.testing.assert_allclose(y[0].double(), start.output[: len(data.x)], atol=1e-3)


def test_the_joined_model_adds_what_was_trained_beside_the_path():
    problem = forecast(table(), ["load"], 1, linear=True)
    start = problem.start
    trained = ns.StreamModel(linear_start.without_path(config(problem), 1)).eval()
    linear_start.prepare(trained, start)
    torch.nn.init.normal_(trained.head.weight, generator=torch.Generator().manual_seed(0))
    model = linear_start.joined(trained, config(problem), start)
    plain = problem.part("all", 0)
    beside = problem.missed(plain, "all", 0)
    with torch.no_grad():
        alone, _ = trained.steps(beside.x[None], trained.init_state(1))
        both, _ = model.steps(plain.x[None], model.init_state(1))
    assert float(alone.std()) > 0.1
    np.testing.assert_allclose(both[0].double(), start.output[: len(plain.x)] + alone[0].double().numpy(), atol=1e-2)
    # and what it learned is what the path missed
    known = ~plain.y.isnan()
    error = (both[0] - plain.y)[known], (alone[0] - beside.y)[known]
    torch.testing.assert_close(*error, atol=1e-2, rtol=0)
    half = linear_start.linear_only(model)
    with torch.no_grad():
        ridge, _ = half.steps(plain.x[None], half.init_state(1))
    np.testing.assert_allclose(ridge[0].double(), start.output[: len(plain.x)], atol=1e-3)


def test_columns_that_do_not_help_are_dropped():
    rng = np.random.default_rng(1)
    noise = {f"noise {i}": rng.normal(size=900) for i in range(20)}
    problem = forecast(table(**noise), ["load"], 1, linear=True)
    assert problem.reader.column_names == ("load",)
    assert any("dropped: ridge regression is no better with them" in note for note in problem.notes)
    assert problem.rows.x.shape[1] == len(problem.reader.names) == problem.input_dim
    alone = forecast(table(), ["load"], 1, linear=True)
    np.testing.assert_array_equal(problem.rows.x, alone.rows.x)
    named = forecast(table(**noise), ["load"], 1, columns=list(noise), linear=True)
    assert len(named.reader.columns) == 21


def test_columns_that_help_are_kept():
    shock = np.random.default_rng(2).normal(size=901) * 20
    rows = table(hint=shock[:900], kind=["a", "b"] * 450)
    frame = rows.frame.with_columns(load=pl.col("load") + pl.Series(shock[:900]).shift(1, fill_value=0.0))
    problem = forecast(dataclasses.replace(rows, frame=frame), ["load"], 1, linear=True)
    assert problem.reader.column_names == ("load", "hint", "kind")
    assert problem.start.ridge.residual_std < 10


def changed(rows, load):
    return dataclasses.replace(rows, frame=rows.frame.with_columns(load=pl.Series(load)))


def test_the_last_value_where_ridge_regression_is_worse():
    rows = table()
    load = rows.frame["load"].to_numpy() + 1000.0 * (np.arange(900) > 740)  # a step in the validation data
    problem = forecast(changed(rows, load), ["load"], 1, linear=True)
    start = problem.start
    assert start.name == "the last value"
    assert problem.notes[-1].startswith("starting from the last value, which is better than ridge regression")
    assert not start.output.any()
    assert start.ridge_output.any()
    assert start.config.tokens == 1


@pytest.mark.parametrize("horizon", [1, 5])
def test_the_value_of_a_day_ago_where_that_is_better(horizon):
    random = np.random.default_rng(4)
    load = np.tile(random.normal(size=24) * 50, 38)[:900] + random.normal(size=900) * 1e-3
    load[:700] += random.normal(size=700) * 40  # what ridge regression learns from is mostly noise
    problem = forecast(changed(table(), load), ["load"], horizon, linear=True)
    assert problem.start.name == "the value of a day ago"
    rows = np.arange(24, 900 - horizon)
    expected = problem.rows.base[rows + horizon - 24, 0] - problem.rows.base[rows, 0]
    np.testing.assert_allclose(problem.start.output[rows, 0], expected, atol=1e-4)


def test_few_rows_of_validation_data_choose_nothing():
    problem = forecast(table(60), ["load"], 1, linear=True)
    assert problem.start.name == "the last value"
    assert "forecasting the last value: 6 rows of validation data are too few" in problem.notes[-1]
    y = np.arange(9.0)[:, None]
    assert linear_start.best_share(0 * y, y, y) == (0.0, 1.0)
    with pytest.raises(ValueError, match=r"rows.csv has 5 rows, too few to train, validate and test a forecast 1 row"):
        forecast(table(5), ["load"], 1, linear=True)


def test_a_gain_of_rounding_is_none():
    y = np.random.default_rng(0).normal(size=(50, 1))
    assert linear_start.best_share(y + 1e-9, y, y) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("gain", "share"), [(0.0, 0.0), (-1.0, 0.0), (0.001, 0.0), (0.5, 1.0), (2.0, 0.5), (4.0, 0.25)]
)
def test_the_best_share(gain, share):
    rng = np.random.default_rng(3)
    y = rng.normal(size=(400, 1))
    ridge = np.zeros_like(y)
    found, error = linear_start.best_share(ridge, gain * y, y)
    assert found == share
    assert error == pytest.approx(1 - share * gain)
    y[0] = np.nan
    assert linear_start.best_share(ridge, gain * np.nan_to_num(y), y)[0] == share


def test_neither_error_gets_worse():
    """A gain in the mean absolute error that costs more in the root mean squared error is no gain."""
    y = np.concatenate([np.full(99, 0.1), [10.0]])[:, None]
    ridge = np.zeros_like(y)
    both = np.concatenate([np.full(99, 0.1), [-10.0]])[:, None]
    assert linear_start.best_share(ridge, both, y) == (0.0, 1.0)


def test_a_share_that_makes_a_period_worse_is_not_taken():
    rng = np.random.default_rng(0)
    path, periods = rng.normal(size=(90, 1)), np.arange(90) // 30
    better, worse = np.zeros((90, 1)), np.where(periods[:, None] == 2, 1.5 * path, 0.1 * path)
    y = np.zeros((90, 1))
    assert linear_start.best_share(path, better, y, periods=periods)[0] == 1.0
    assert linear_start.best_share(path, worse, y)[0] > 0  # better as a whole
    assert linear_start.best_share(path, worse, y, periods=periods) == (0.0, 1.0)

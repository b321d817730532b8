"""Forecasts of quantiles and of several horizons that start from ridge regression."""

import dataclasses

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.data import linear_start, quantile_width
from nystream.data.forecast import forecast
from nystream.data.forecast_values import Layout, changes, middle
from nystream.data.series_scores import MIN_ROWS
from nystream.data.table import Table

LEVELS = (0.1, 0.5, 0.9)


def table(rows=700, **columns):
    rng, hour = np.random.default_rng(0), np.arange(rows)
    load = 100 + 20 * np.sin(2 * np.pi * hour / 24) + rng.gamma(2.0, size=rows)
    stamps = [str(stamp) for stamp in np.datetime64("2024-01-01T00", "s") + hour * np.timedelta64(3600, "s")]
    return Table("rows.csv", pl.DataFrame({"time": stamps, "load": load, **columns}), first_line=2)


def config(problem):
    attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=8, decay=True)
    return ns.ModelConfig(
        input_dim=problem.input_dim,
        output_dim=problem.output_dim,
        attention=attention,
        stack="deep",
        linear=problem.start.config,
    )


def untrained(problem):
    trained = ns.StreamModel(linear_start.without_path(config(problem), problem.output_dim)).eval()
    linear_start.prepare(trained, problem.start)
    return trained


def test_before_training_a_model_is_ridge_regression_with_the_quantiles_of_its_residuals():
    two = {"two": np.random.default_rng(1).normal(size=700).cumsum()}
    options = {"linear": True, "columns": ["two"]}
    problem = forecast(table(**two), ["load", "two"], "1,3", quantiles=LEVELS, **options)
    plain = forecast(table(**two), ["load", "two"], (1, 3), **options)
    assert (problem.output_dim, plain.output_dim) == (12, 4)
    start, ridge = problem.start, plain.start
    np.testing.assert_array_equal(problem.y[:, ::3], plain.y)
    stop, (_, valid) = problem.edges("train")[1], problem.edges("valid")
    first = min(problem.reader.history, stop // 4)
    fitted, new = (plain.y[rows] - ridge.output[rows] for rows in (slice(first, stop), slice(stop, valid)))
    factors = np.sqrt((new**2).mean(0) / (fitted**2).mean(0))
    assert factors.max() > 1  # the fit is closer than it should be
    residuals = np.concatenate([fitted * np.maximum(1, factors), new])
    expected = ridge.output[:, :, None] + np.quantile(residuals, LEVELS, axis=0).T
    np.testing.assert_allclose(start.output.reshape(expected.shape), expected, atol=1e-9)
    model = linear_start.joined(untrained(problem), config(problem), start)
    data = problem.part("all", 0)
    with torch.no_grad():
        y, _ = model.steps(data.x[None], model.init_state(1))
    # float32 through weights of hundreds of rows; the outputs are around 20
    np.testing.assert_allclose(y[0].double(), start.output[: len(data.x)], atol=2e-3)


def test_one_ridge_regression_for_all_horizons_is_that_of_each():
    horizons = (1, 5, 24)
    together = forecast(table(), ["load"], horizons, linear=True)
    x, start = together.rows.x, together.start
    for place, horizon in enumerate(horizons):
        alone = forecast(table(), ["load"], horizon)
        np.testing.assert_array_equal(together.y[:, place], alone.y[: len(together.y), 0])
        fitted = linear_start.fit_start(
            [x], [together.y[:, [place]]], [together.edges("train")[1]], [together.edges("valid")], 1, 1, 0, {}
        )
        assert fitted.output.shape == (700, 1)
    assert start.output.shape == (700, 3)


def test_changes_of_every_horizon_are_in_units_of_the_row_they_are_forecast_from():
    problem = forecast(table(), ["load"], "1..3", quantiles=(0.5,))
    scale = np.random.default_rng(3).uniform(1, 2, size=(700, 1))
    scaled = dataclasses.replace(problem, rows=problem.rows._replace(scale=scale))
    # The first rows of a series are not learned from.
    np.testing.assert_allclose(scaled.y[MIN_ROWS:], (problem.y / scale[:697])[MIN_ROWS:], rtol=1e-6)
    scores = [
        each.scores("test", 5, torch.from_numpy(each.y[each.scored("test", 5)]), torch.zeros(1, 3))
        for each in (problem, scaled)
    ]
    for each in scores:
        assert each["mean absolute error"] < 1e-5  # y is rounded to float32


@given(st.integers(0, 1000), st.sampled_from([(), (0.5,), (0.2, 0.7)]), st.integers(1, 3))
def test_shares_are_those_of_each_horizon(seed, levels, horizons):
    rng = np.random.default_rng(seed)
    layout = Layout(2, tuple(range(1, horizons + 1)), levels)
    width = int(np.prod(layout.shape))
    y = np.repeat(rng.normal(size=(60, width // layout.shape[2])), layout.shape[2], 1)
    path, both = rng.normal(size=(60, width)), y + 0.1 * rng.normal(size=(60, width))
    both[:, : layout.shape[2]] = rng.normal(size=(60, layout.shape[2])) * 9  # worse for the first horizon of a target
    shares, errors = linear_start.best_shares(path, both, y, layout)
    assert all(share >= 0.5 for share in shares[1:])  # two thirds of a gain of nine tenths
    assert shares[0] < 1
    assert all(error <= 1 for error in errors)


def test_one_horizon_has_the_share_of_all():
    rng = np.random.default_rng(0)
    path, y = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    both = path + 0.4 * (y - path)
    share, error = linear_start.best_share(path, both, y)
    assert linear_start.best_shares(path, both, y, Layout(2)) == ([share], [error])


def test_quantiles_that_are_too_narrow_are_widened():
    rng = np.random.default_rng(0)
    layout = Layout(1, (1, 2), LEVELS)
    true = rng.normal(size=(4000, 2))
    y = np.repeat(true, 3, 1)
    both = np.tile([-0.8, 0.0, 0.8, -1.2816, 0.0, 1.2816], (4000, 1))
    path = np.tile([-4.0, 0.0, 4.0] * 2, (4000, 1))
    first, second = quantile_width.best_widths(path, both, y, layout)
    assert first == pytest.approx(1.6, abs=0.11)  # 1.2816 / 0.8
    assert second <= 1.05
    assert quantile_width.best_widths(both, both, y, layout) == [1.0, 1.0]  # never worse than the path
    assert quantile_width.best_widths(path[:, :2], both[:, :2], y[:, :2], Layout(1, (1, 2), (0.5,))) == [1.0, 1.0]


@given(st.integers(0, 100), st.sampled_from([(0.1, 0.9), LEVELS, (0.1, 0.2, 0.6, 0.9)]))
def test_a_widened_model_gives_wider_quantiles(seed, levels):
    layout = Layout(2, (1, 3), levels)
    problem = forecast(table(200, two=np.arange(200) % 7), ["load", "two"], (1, 3), quantiles=levels, linear=True)
    trained = untrained(problem)
    torch.nn.init.normal_(trained.head.weight, generator=torch.Generator().manual_seed(seed))
    model = linear_start.joined(trained, config(problem), problem.start)
    data, widths = problem.part("all", 0), [1.0, 1.5]

    def outputs(model):
        with torch.no_grad():
            return model.steps(data.x[None], model.init_state(1))[0][0].double().numpy()

    before, path = outputs(model), outputs(linear_start.linear_only(model))
    quantile_width.widen(model, widths, layout)
    shaped = before.reshape(-1, *layout.shape)
    centre = middle(shaped, levels)[..., None]
    expected = centre + np.array(widths)[:, None] * (shaped - centre)
    # float32 sums of hundreds of weights; the outputs are around 20
    np.testing.assert_allclose(outputs(model).reshape(expected.shape), expected, atol=5e-3)
    np.testing.assert_array_equal(outputs(linear_start.linear_only(model)), path)
    assert changes(before, layout).shape == (len(before), 2, 2, len(levels))


def test_a_minimum_must_be_in_the_units_of_the_target():
    with pytest.raises(ValueError, match=r"minimum=500 is above all values of 'load' in the training data of rows.csv"):
        forecast(table(), ["load"], minimum=500)
    problem = forecast(table(), ["load"], minimum=110.0)
    rows = problem.scored("test", 8)
    low = torch.full((len(rows), 1), -1000.0)
    scores = problem.scores("test", 8, low, torch.from_numpy(problem.y[rows]))
    assert scores["mean absolute error"] == pytest.approx(np.abs(110 - problem.rows.base[rows + 1]).mean())


def test_what_cannot_be_forecast_at_once():
    with pytest.raises(ValueError, match=r"known=two has the values of one time that is forecast, but there are 3"):
        forecast(table(two=np.arange(700) % 7), ["load"], "1..3", known=["two"])
    with pytest.raises(ValueError, match=r"has 700 rows, too few for targets 900 rows ahead"):
        forecast(table(), ["load"], "1..900")


def test_naive_forecasts_of_every_horizon_that_has_them():
    problem = forecast(table(), ["load"], "1,24,30")
    scores = problem.baselines("test", 8)
    assert set(scores["a day ago"]) == set(scores["a week ago"]) == set(scores["persistence"])
    last = "mean absolute error (24 rows ahead)"
    assert scores["a day ago"][last] == scores["persistence"][last]
    rows = problem.scored("test", 8)
    base = problem.rows.base[:, 0]
    expected = np.abs(base[rows + 30 - 168] - base[rows + 30]).mean()
    assert scores["a week ago"]["mean absolute error (30 rows ahead)"] == pytest.approx(expected, rel=1e-5)

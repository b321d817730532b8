"""Baselines by their definitions, and on real demand."""

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.lab.tasks.electricity import Series, eia930, forecast, sample
from nystream.lab.tasks.electricity.baselines import baselines, persistence, ridge, seasonal
from nystream.train import Forecasting, evaluate


def series(rows=600, minutes=60):
    random = np.random.default_rng(0)
    hours = np.arange(rows) * minutes / 60
    day = 50 + 20 * np.sin(2 * np.pi * hours / 24)
    values = (day[:, None] * [1, 2, 0.5] + random.normal(size=(rows, 3))).astype(np.float32)
    time = np.datetime64("2021-03-01T00:00", "m") + np.arange(rows) * np.timedelta64(minutes, "m")
    return Series(values, time, ("a", "b", "c"), np.ones((rows, 3), bool))


@pytest.mark.parametrize("minutes", [60, 15])
@pytest.mark.parametrize("skip", [0, 7])
def test_persistence_by_hand(minutes, skip):
    held = series(1200, minutes)
    problem = forecast(held)
    total, ahead = held.values.sum(1, dtype=np.float64), 60 // minutes
    known = total[ahead : ahead + problem.edges[0]]
    rows = np.arange(problem.edges[1] + skip, len(total) - ahead)

    def mse(lag):
        return np.mean(((total[rows + ahead] - total[rows + ahead - lag]) / known.std()) ** 2)

    assert persistence(problem, skip).scores["mse"] == pytest.approx(mse(ahead), rel=1e-4)
    assert seasonal(problem, 24, skip).scores["mse"] == pytest.approx(mse(24 * ahead), rel=1e-4)
    assert seasonal(problem, 24).name == "a day ago"


def test_scores_are_those_of_a_model():
    """`evaluate` gives a model that outputs a constant the score of that constant."""
    problem = forecast(series())
    config = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=4)
    model = ns.StreamModel(ns.ModelConfig(attention=config, input_dim=7, output_dim=1))
    model.output_scaler.fit(problem.train.y)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
    constant = ridge(problem, 1, alphas=[1e12], skip=3)  # nothing but the mean of the training targets
    found = evaluate(model, problem.test, Forecasting(), skip=3)
    for name, value in found.items():
        assert constant.scores[name] == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("tokens", ["paper", "lags"])
def test_scores_are_of_totals_whatever_the_target_and_tokens(tokens):
    held = series()
    problems = [forecast(held, target=target, tokens=tokens) for target in ("total", "change")]
    plain = forecast(held)
    for measure in (persistence, seasonal):
        wanted = measure(plain, skip=5).scores
        assert all(measure(problem, skip=5).scores == pytest.approx(wanted) for problem in problems)
    # Both have the last values among their columns, so least squares finds the same forecast from either.
    total, change = (ridge(problem, 2, alphas=[1e-6]) for problem in problems)
    assert total.scores == pytest.approx(change.scores, rel=1e-2)


def test_ridge_has_every_column_of_richer_tokens():
    held = series()
    held.values[168:] += 50 * (held.values[:-168] - 50)  # what followed a week ago says what comes
    newest, lagged = (ridge(forecast(held, tokens=tokens), 1) for tokens in ("paper", "lags"))
    assert lagged.scores["mse"] < 0.5 * newest.scores["mse"]


@pytest.mark.parametrize("lags", [1, 5])
def test_ridge_is_that_of_scikit_learn(monkeypatch, lags):
    linear_model = pytest.importorskip("sklearn.linear_model")
    monkeypatch.setattr("nystream.lab.tasks.electricity.baselines.CHUNK", 37)
    problem = forecast(series())
    first, second = problem.edges
    x, y = problem.x.double().numpy(), problem.y[:, 0].double().numpy()
    x, y = (x - x[:first].mean(0)) / x[:first].std(0), (y - y[:first].mean()) / y[:first].std()
    rows = np.arange(lags - 1, len(x))
    columns = np.column_stack([*(x[rows - lag, :3] for lag in range(lags)), x[rows, 3:]])
    alphas = (0.1, 10.0, 1000.0)
    errors = {}
    for alpha in alphas:
        model = linear_model.Ridge(alpha).fit(columns[rows < first], y[rows][rows < first])
        squared = (model.predict(columns) - y[rows]) ** 2
        errors[alpha] = [squared[(rows >= a) & (rows < b)].mean() for a, b in [(first, second), (second, len(x))]]
    best = min(alphas, key=lambda alpha: errors[alpha][0])
    found = ridge(problem, lags, alphas)
    assert found.chosen["alpha"] == best
    assert found.chosen["valid_mse"] == pytest.approx(errors[best][0], rel=1e-4)
    assert found.scores["mse"] == pytest.approx(errors[best][1], rel=1e-4)


def test_nothing_is_chosen_by_test_data():
    held, changed = series(), series()
    problem = forecast(held)
    changed.values[problem.edges[1] + problem.ahead :] *= 3
    a, b = ridge(problem, 2), ridge(forecast(changed), 2)
    assert a.chosen == b.chosen
    assert a.scores != b.scores


def test_the_sample_is_best_forecast_by_ridge(capsys):
    found = {one.name: one.scores["mse"] for one in baselines(forecast(sample()), skip=63, lags=6)}
    assert list(found) == ["persistence", "a day ago", "a week ago", "ridge"]
    assert found["ridge"] < 0.1 * found["persistence"]
    assert found["persistence"] < found["a day ago"] < found["a week ago"] < 1
    assert capsys.readouterr() == ("", "")


def test_ridge_beats_persistence_on_all_areas(data_dir):
    problem = forecast(eia930.load(data_dir))
    newest, lagged = ridge(problem, 1, skip=63), ridge(problem, 3, skip=63)
    last = persistence(problem, skip=63)
    assert last.scores["mse"] == pytest.approx(0.0457, abs=5e-4)
    assert lagged.scores["mse"] < 0.2 * newest.scores["mse"] < 0.2 * last.scores["mse"]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda p: ridge(p, 0), "lags=0"),
        (lambda p: ridge(p, True), "lags=True"),
        (lambda p: ridge(p, 10_000), "lags=10000"),
        (lambda p: ridge(p, alphas=[0.0]), "alphas="),
        (lambda p: persistence(p, skip=60), "skip=60 must be an integer from 0 to 59"),
        (lambda p: persistence(p, skip=-1), "skip=-1"),
        (lambda p: seasonal(p, 0.5), "period=0.5 hours must be a whole number"),
        (lambda p: seasonal(p, 24 * 30), "have no earlier value"),
    ],
)
def test_refuses(call, what):
    with pytest.raises(ValueError, match=what):
        call(forecast(series()))


def test_refuses_what_is_not_known_yet():
    with pytest.raises(ValueError, match="not yet known"):
        seasonal(forecast(series(), horizon=48), 24)

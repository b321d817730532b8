"""Targets that lie ahead, and a split without information from the future."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.data.calendar import time_features
from nystream.lab.tasks.electricity import Series, forecast
from nystream.train import Forecasting, evaluate


def series(rows=200, names=3, minutes=60, start="2021-03-01T00:00"):
    values = np.random.default_rng(0).integers(1, 1000, (rows, names)).astype(np.float32)
    time = np.datetime64(start, "m") + np.arange(rows) * np.timedelta64(minutes, "m")
    return Series(values, time, tuple(f"area{j}" for j in range(names)), np.ones((rows, names), bool))


@given(st.integers(12, 300), st.integers(1, 4), st.sampled_from([(60, 1), (15, 1), (60, 3), (30, 0.5)]))
def test_targets_lie_ahead_and_parts_follow_each_other(rows, names, spacing):
    minutes, horizon = spacing
    held = series(rows, names, minutes)
    ahead = round(horizon * 60 / minutes)
    problem = forecast(held, horizon, (0.5, 0.25, 0.25))
    x, y = (torch.cat([getattr(part, name) for part in problem.parts]) for name in "xy")
    assert problem.ahead == ahead
    assert len(x) == rows - ahead
    np.testing.assert_array_equal(x[:, :names], held.values[: rows - ahead])
    np.testing.assert_array_equal(y[:, 0], held.values[ahead:].sum(1))
    assert [len(part.x) for part in problem.parts] == np.diff([0, *problem.edges, rows - ahead]).tolist()
    assert all(len(part) == 1 and part.input_dim == names + 4 for part in problem.parts)


def test_scalers_see_the_training_part_alone():
    held = series(400)
    changed = series(400)
    problem = forecast(held)
    cut = problem.edges[0]
    changed.values[cut + problem.ahead :] *= 50  # all that is later than the last training target

    def fitted(problem):
        config = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=4)
        model = ns.StreamModel(ns.ModelConfig(attention=config, input_dim=7, output_dim=1))
        model.input_scaler.fit(problem.train.x)
        model.output_scaler.fit(problem.train.y)
        return [model.input_scaler.mean, model.input_scaler.scale, model.output_scaler.mean, model.output_scaler.scale]

    for a, b in zip(fitted(problem), fitted(forecast(changed)), strict=True):
        assert torch.equal(a, b)
    mean = torch.tensor(held.values[:cut]).double().mean(0)
    torch.testing.assert_close(fitted(problem)[0][:3].double(), mean, rtol=1e-6, atol=0)
    assert not torch.equal(problem.valid.x, forecast(changed).valid.x)


@given(st.sampled_from(["paper", "lags"]), st.sampled_from([(60, 1), (60, 24), (120, 2), (30, 0.5)]))
def test_the_last_total_and_the_change_are_the_total(tokens, spacing):
    minutes, horizon = spacing
    held = series(2000, 2, minutes)
    totals, changes = (
        forecast(held, horizon, (0.5, 0.25, 0.25), target=target, tokens=tokens) for target in ("total", "change")
    )
    assert torch.equal(totals.x, changes.x)
    assert totals.edges == changes.edges
    np.testing.assert_array_equal(changes.last + changes.y.double().numpy(), totals.y)
    np.testing.assert_allclose(changes.last[:, 0], changes.x[:, :2].sum(1))


@pytest.mark.parametrize(("minutes", "horizon"), [(60, 1), (30, 1), (60, 24)])
def test_lags_are_what_they_say(minutes, horizon):
    held = series(1000, 2, minutes)
    problem = forecast(held, horizon, tokens="lags")
    hour = 60 // minutes
    ahead, values = horizon * hour, held.values
    assert problem.first == 168 * hour + ahead
    assert problem.x.shape == (1000 - ahead - problem.first, 6 * 2 + 4)
    for row in (0, 17, len(problem.x) - 1):
        t = problem.first + row
        wanted = [values[t], values[t] - values[t - ahead]]
        for lag in (24 * hour, 168 * hour):
            then = values[t - lag]
            wanted += [then - values[t - lag - ahead], values[t - lag + ahead] - then]
        np.testing.assert_array_equal(problem.x[row, :-4], np.concatenate(wanted))
        np.testing.assert_allclose(problem.x[row, -4:], time_features(held.time[t : t + 1])[0], atol=1e-6)
        assert problem.y[row, 0] == values[t + ahead].sum()


@pytest.mark.parametrize("tokens", ["paper", "lags"])
@pytest.mark.parametrize("horizon", [1, 24])
def test_tokens_know_nothing_of_the_future(tokens, horizon):
    held, changed = series(600), series(600)
    cut = 400
    changed.values[cut + 1 :] = -7
    a, b = (forecast(one, horizon, tokens=tokens, target="change") for one in (held, changed))
    seen = cut + 1 - a.first  # the tokens up to row `cut`
    assert torch.equal(a.x[:seen], b.x[:seen])
    assert torch.equal(a.y[: seen - horizon], b.y[: seen - horizon])
    assert (a.x[seen] != b.x[seen]).any()
    assert a.y[seen - 1] != b.y[seen - 1]


def test_validation_and_test_rows_are_the_same_for_all_tokens():
    held = series(800)
    paper, lags = (forecast(held, tokens=tokens) for tokens in ("paper", "lags"))
    for part in ("valid", "test"):
        assert torch.equal(getattr(paper, part).x[:, :3], getattr(lags, part).x[:, :3])
        assert torch.equal(getattr(paper, part).y, getattr(lags, part).y)
    assert torch.equal(paper.train.y[lags.first :], lags.train.y)
    assert paper.deviation == lags.deviation


@pytest.mark.parametrize("target", ["total", "change"])
@pytest.mark.parametrize("tokens", ["paper", "lags"])
def test_scores_in_totals_are_those_of_the_totals_themselves(target, tokens):
    problem = forecast(series(800), target=target, tokens=tokens)
    config = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=4)
    torch.manual_seed(0)
    width = problem.train.input_dim
    model = ns.StreamModel(ns.ModelConfig(attention=config, input_dim=width, output_dim=1)).eval()
    model.input_scaler.fit(problem.train.x)
    model.output_scaler.fit(problem.train.y)
    found = problem.in_totals(evaluate(model, problem.test, Forecasting(), skip=3))
    x = problem.test.x[None]
    with torch.no_grad():
        output = model.steps(x, model.init_state(1))[0][0].double().numpy()
    start = problem.edges[1]
    total = output + (problem.last[start:] if target == "change" else 0)
    truth = problem.series.total()[problem.first + start + problem.ahead :, None]
    error = ((total - truth) / problem.deviation)[3:]
    assert found == pytest.approx({"mse": np.mean(error**2), "mae": np.mean(abs(error))}, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"horizon": 0.25}, "horizon=0.25 hours must be a whole number of steps of 60 minutes"),
        ({"horizon": 0}, "horizon=0 hours"),
        ({"horizon": 199}, "series has 200 rows, too few"),
        ({"split": (0.8, 0.3, 0.1)}, "split="),
        ({"split": (1.0, 0.0, 0.0)}, "split="),
        ({"periods": ()}, "periods="),
        ({"target": "difference"}, "target='difference'"),
        ({"tokens": "all"}, "tokens='all'"),
        ({"tokens": "lags"}, "series has 200 rows, too few .* and tokens of 169 rows before"),
        ({"tokens": "lags", "horizon": 25}, "24 hours ago, so horizon must be at most 24"),
    ],
)
def test_refuses(options, what):
    with pytest.raises(ValueError, match=what):
        forecast(series(), **options)


def test_refuses_lags_from_before_a_short_series():
    with pytest.raises(ValueError, match=r"series has 100 rows, too few .* and tokens of 169 rows before"):
        forecast(series(100), tokens="lags")


def test_a_series_refuses_what_does_not_fit():
    good = series(6, 2)
    fields = {"values": good.values, "time": good.time, "names": good.names, "known": good.known}
    jump = good.time.copy()
    jump[4:] += np.timedelta64(1, "h")
    nan = good.values.copy()
    nan[1, 1] = np.nan
    for change, what in [
        ({"time": jump}, "after row 3"),
        ({"time": good.time[::-1]}, "even steps"),
        ({"time": good.time[:5]}, "values is"),
        ({"names": ("a", "a")}, "more than once"),
        ({"values": nan}, "not finite"),
        ({"known": good.known[:, :1]}, "known is"),
    ]:
        with pytest.raises(ValueError, match=what):
            Series(**(fields | change))
    with pytest.raises(ValueError, match=r"names has \['nowhere'\]"):
        good.select(["nowhere"])
    with pytest.raises(ValueError, match="no step"):
        _ = good.select(rows=slice(0, 1)).step

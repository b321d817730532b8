"""Time embeddings, targets ahead, and a split in which nothing of the future is seen."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.tasks.electricity import Series, forecast, time_features


def series(rows=200, names=3, minutes=60, start="2021-03-01T00:00"):
    values = np.random.default_rng(0).integers(1, 1000, (rows, names)).astype(np.float32)
    time = np.datetime64(start, "m") + np.arange(rows) * np.timedelta64(minutes, "m")
    return Series(values, time, tuple(f"area{j}" for j in range(names)), np.ones((rows, names), bool))


@pytest.mark.parametrize("minutes", [5, 15, 60, 360])
def test_time_features_repeat_with_the_day_and_the_week(minutes):
    held = time_features(series(2 * 7 * 24 * 60 // minutes, 1, minutes).time)
    day, week = 24 * 60 // minutes, 7 * 24 * 60 // minutes
    np.testing.assert_allclose(held[day:, :2], held[:-day, :2], atol=1e-12)
    np.testing.assert_allclose(held[week:, 2:], held[:-week, 2:], atol=1e-12)
    np.testing.assert_allclose(held[:, ::2] ** 2 + held[:, 1::2] ** 2, 1)
    assert len(np.unique(held[:week].round(9), axis=0)) == week  # every time of the week has its own


def test_time_features_are_of_the_time_and_not_of_the_unit():
    stamps = np.array(["2021-03-01T00:00", "2021-03-01T06:00", "2021-03-08T06:00"], "datetime64[m]")
    held = time_features(stamps)
    np.testing.assert_allclose(held[0, :2], [0, 1], atol=1e-12)  # midnight
    np.testing.assert_allclose(held[1, :2], [1, 0], atol=1e-12)  # a quarter of a day later
    np.testing.assert_allclose(held[1], held[2], atol=1e-12)  # a week later
    for unit in ("s", "ms", "ns"):
        np.testing.assert_array_equal(time_features(stamps.astype(f"datetime64[{unit}]")), held)


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


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"horizon": 0.25}, "horizon=0.25 hours must be a whole number of steps of 60 minutes"),
        ({"horizon": 0}, "horizon=0 hours"),
        ({"horizon": 199}, "series has 200 rows, too few"),
        ({"split": (0.8, 0.3, 0.1)}, "split="),
        ({"split": (1.0, 0.0, 0.0)}, "split="),
        ({"periods": ()}, "periods="),
    ],
)
def test_refuses(options, what):
    with pytest.raises(ValueError, match=what):
        forecast(series(), **options)


def test_refuses_times_that_are_none():
    with pytest.raises(ValueError, match="must be datetime64"):
        time_features(np.arange(3))
    with pytest.raises(ValueError, match="NaT"):
        time_features(np.array(["2021-01-01", "NaT"], "datetime64[s]"))


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

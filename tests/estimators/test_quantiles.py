"""Forecasters of quantiles and of several horizons."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import nystream as ns

SMALL = {"epochs": 2, "embed_dim": 8, "num_heads": 2, "window": 8}
LEVELS = (0.1, 0.5, 0.9)


def rain(rows=400):
    rng = np.random.default_rng(0)
    wave = 5 * np.sin(np.arange(rows) / 24 * 2 * np.pi)
    return pl.DataFrame(
        {
            "time": [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(rows)],
            "rain": np.maximum(0.0, wave + rng.normal(size=rows) * 3),
            "wind": 10 + rng.normal(size=rows).cumsum(),
        }
    )


@pytest.fixture(scope="module")
def forecaster():
    options = {"target": ("rain", "wind"), "horizon": "1..4", "quantiles": LEVELS, "minimum": 0.0}
    return ns.Forecaster(**options, **SMALL).fit(rain()[:300])


def test_shapes_order_and_minimum(forecaster):
    found = forecaster.predict(rain()[300:])
    assert found.shape == (100, 2, 4, 3)
    assert (np.diff(found, axis=-1) >= 0).all()
    assert found.min() == 0.0
    assert forecaster.score(rain()[300:]) <= 1
    scores = forecaster.scores_["test"]
    assert next(iter(scores["model"])) == "pinball loss of rain"
    assert "share from quantile 0.1 to 0.9 (4 rows ahead) of wind" in scores["ridge"]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"horizon": range(1, 4)}, (100, 3)),
        ({"horizon": (1, 12), "quantiles": (0.5, 0.9)}, (100, 2, 2)),
        ({"horizon": 2, "quantiles": "0.1,0.9"}, (100, 2)),
        ({"horizon": "1,3", "linear": "no"}, (100, 2)),
        ({"quantiles": (0.25,), "linear": "no", "minimum": 0}, (100, 1)),
        ({"minimum": 0.5}, (100,)),
    ],
)
def test_one_target(options, shape):
    model = ns.Forecaster(target="rain", **{**SMALL, "epochs": 1}, **options).fit(rain()[:300])
    found = model.predict(rain()[300:])
    assert found.shape == shape
    if "minimum" in options:
        assert found.min() >= options["minimum"]
    assert clone(model).get_params() == model.get_params()


def test_live_records_get_the_answers_of_predict(forecaster):
    new, live = rain()[300:330], forecaster.sessions()
    answers = [answer for row in new.iter_rows(named=True) for answer in live.take("here", row)]
    found, expected = np.stack([answer.values for answer in answers]), forecaster.predict(new)
    assert found.shape == (30, 2, 4, 3)
    # the sums of a step are in another order than those of a whole stream, as for one number
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert (np.diff(found, axis=-1) >= 0).all()
    assert found.min() >= 0
    many = forecaster.sessions()
    for row, answer in zip(new.iter_rows(named=True), answers, strict=True):
        _, (same,) = many.take_many(["a", "b"], [row, row])
        assert same.to_dict() == answer.to_dict()


def test_save_and_load(forecaster, tmp_path):
    forecaster.save(tmp_path / "saved")
    loaded = ns.Forecaster.load(tmp_path / "saved")
    assert (loaded.horizon, loaded.quantiles, loaded.minimum) == ("1..4", "0.1,0.5,0.9", 0.0)
    np.testing.assert_array_equal(loaded.predict(rain()[300:]), forecaster.predict(rain()[300:]))
    assert loaded.score(rain()[300:]) == forecaster.score(rain()[300:])


def test_arrays():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    y = np.maximum(x[:, 0] + 0.3 * rng.normal(size=300), 0.0)
    model = ns.Forecaster(quantiles=LEVELS, minimum=0, **SMALL).fit(x[:200], y[:200])
    found = model.predict(x[200:])
    assert found.shape == (100, 3)
    assert (np.diff(found, axis=-1) >= 0).all()
    assert found.min() == 0
    assert model.score(x[200:], y[200:]) > 0.5
    live = model.sessions()
    answers = [answer.values for row in x[200:220] for answer in live.take("here", row.tolist())]
    np.testing.assert_allclose(np.concatenate(answers), found[:20], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"horizon=\(1, 2\) is for tables"):
        ns.Forecaster(horizon=(1, 2), **SMALL).fit(x, y)

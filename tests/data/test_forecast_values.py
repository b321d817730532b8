"""From outputs to forecasts: horizons, quantiles and a minimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.forecast_scores import errors, pinball_loss
from nystream.data.forecast_values import Layout, changes, forecasts, middle, without_axes

layouts = st.builds(
    Layout,
    st.integers(1, 3),
    st.sampled_from([(), (1, 24), tuple(range(1, 6))]),
    st.sampled_from([(), (0.5,), (0.1, 0.9), (0.1, 0.5, 0.9)]),
    st.sampled_from([None, 0.0, -3.5, 7.25]),
)


@given(layouts, st.integers(0, 5), st.booleans(), st.integers(0, 1000))
def test_against_a_plain_computation(layout, rows, scaled, seed):
    rng = np.random.default_rng(seed)
    (targets, horizons, count), width = layout.shape, int(np.prod(layout.shape))
    output = rng.normal(size=(rows, width)).astype(np.float32) * 5
    base = rng.normal(size=(rows, targets)) * 5
    scale = rng.uniform(0.5, 2, size=(rows, targets)) if scaled else None
    found = forecasts(output, layout, base, scale)
    assert found.shape == (rows, *layout.shape)
    for row in range(rows):
        for target in range(targets):
            for horizon in range(horizons):
                first = (target * horizons + horizon) * count
                unit = 1.0 if scale is None else scale[row, target]
                each = sorted(base[row, target] + unit * float(x) for x in output[row, first : first + count])
                least = -np.inf if layout.minimum is None else layout.minimum
                assert found[row, target, horizon].tolist() == [max(value, least) for value in each]
    assert (np.diff(found, axis=-1) >= 0).all()
    if layout.minimum is not None:
        assert (found >= layout.minimum).all()
    axes = 2 + bool(layout.horizons) + bool(layout.quantiles)
    assert without_axes(found, layout).ndim == axes
    if layout.plain and not scaled:
        np.testing.assert_array_equal(without_axes(found, layout), base + output.astype(np.float64))


@given(st.integers(1, 40), st.integers(0, 1000))
def test_sorting_never_makes_the_pinball_loss_larger(rows, seed):
    rng = np.random.default_rng(seed)
    layout = Layout(2, (1, 2), (0.05, 0.25, 0.5, 0.95))
    output, y = rng.normal(size=(rows, 16)), rng.normal(size=(rows, 2, 2))
    before = pinball_loss(output.reshape(rows, *layout.shape), y, layout.quantiles)
    assert (pinball_loss(changes(output, layout), y, layout.quantiles) <= before + 1e-12).all()


def test_the_middle():
    values = np.array([[1.0, 2.0, 4.0, 8.0]])
    assert middle(values, (0.1, 0.2, 0.5, 0.9)) == 4.0
    assert middle(values, (0.1, 0.2, 0.8, 0.9)) == 3.0
    assert middle(values[:, :3], (0.1, 0.6, 0.9)) == 2.0
    assert middle(values[:, :1], ()) == 1.0


def test_scores_of_quantiles():
    y = np.array([0.0, 1.0, 2.0, 3.0, np.nan]).reshape(5, 1, 1)
    output = np.tile([0.0, 1.0, 2.0], (5, 1)).reshape(5, 1, 1, 3)
    scores = errors(output, y, np.zeros_like(y), ["load"], quantiles=(0.25, 0.5, 0.75))
    losses = [0.25 * (0 + 1 + 2 + 3), 0.5 * (1 + 0 + 1 + 2), 0.25 * 2 + 0.25 * 1 + 0 + 0.75 * 1]
    assert scores["pinball loss"] == pytest.approx(sum(losses) / 12)
    assert next(iter(scores)) == "pinball loss"
    assert scores["mean absolute error"] == 1.0
    shares = [scores[f"share up to quantile {level}"] for level in (0.25, 0.5, 0.75)]
    assert shares == [0.25, 0.5, 0.75]
    assert scores["share from quantile 0.25 to 0.75"] == 0.75


def test_scores_of_horizons():
    y = np.zeros((4, 2, 3))
    output = np.broadcast_to([[1.0, 2.0, 6.0], [10.0, 20.0, 60.0]], (4, 2, 3))[..., None]
    scores = errors(output, y, np.zeros_like(y), ["a", "b"], (1, 2, 24))
    assert (scores["mean absolute error of a"], scores["root mean squared error of b"]) == (3.0, 30.0)
    assert scores["mean absolute error (24 rows ahead) of b"] == 60.0
    assert scores["mean absolute error (1 row ahead) of a"] == 1.0


def test_levels_on_one_side_have_no_error_of_a_middle():
    y, output = np.zeros((9, 1, 1)), np.ones((9, 1, 1, 1))
    scores = errors(output, y, np.zeros_like(y), ["load"], quantiles=(0.9,))
    assert list(scores) == ["pinball loss", "share up to quantile 0.9"]
    assert "mean absolute error" in errors(np.ones((9, 1, 1, 2)), y, np.zeros_like(y), ["load"], quantiles=(0.1, 0.9))

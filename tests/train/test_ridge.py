"""Ridge regression on lags equals scikit-learn's and a plain design matrix, and survives degenerate data."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.train import fit_ridge
from nystream.train.lagged import lagged_features

linear_model = pytest.importorskip("sklearn.linear_model")

NAN = float("nan")


def design(x, p, c):
    """The features of every row, number by number."""
    rows = []
    for t in range(len(x)):
        row = list(x[t])
        for lag in range(1, p):
            row += list(x[t - lag, :c]) if t >= lag else [0.0] * c
        rows.append(row)
    return np.array(rows)


def naive(z, y, penalty, free):
    """Weights and bias of one output: least squares with rows that stand for the penalty."""
    known = ~np.isnan(y)
    z, y, n = z[known], y[known], known.sum()
    columns = np.column_stack([z, np.ones(n)])
    penalised = [j for j in range(z.shape[1]) if j not in free]
    rows = np.zeros((len(penalised), columns.shape[1]))
    rows[np.arange(len(penalised)), penalised] = np.sqrt(n * penalty)
    w = np.linalg.lstsq(np.vstack([columns, rows]), np.concatenate([y, np.zeros(len(rows))]), rcond=None)[0]
    return w[:-1], w[-1]


def streams(seed, lengths, width, outputs, missing=0.0):
    random = np.random.default_rng(seed)
    x = [random.normal(size=(n, width)) for n in lengths]
    y = [v @ random.normal(size=(width, outputs)) + random.normal(size=(len(v), outputs)) for v in x]
    for v in y:
        v[random.random(v.shape) < missing] = NAN
    return x, y


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999),
    lengths=st.lists(st.integers(6, 40), min_size=1, max_size=3),
    width=st.integers(1, 4),
    outputs=st.integers(1, 3),
    p=st.integers(1, 6),
    missing=st.sampled_from([0.0, 0.1, 0.7]),
    skip=st.integers(0, 3),
    data=st.data(),
)
def test_equals_a_plain_design_matrix(seed, lengths, width, outputs, p, missing, skip, data):
    c = data.draw(st.integers(1, width))
    free = data.draw(st.lists(st.integers(0, width - 1), unique=True, max_size=2))
    x, y = streams(seed, lengths, width, outputs, missing)
    y[0][4:6] = 1.0  # every output is known somewhere
    fitted = fit_ridge(
        x, y, x, y, inputs=c, lags=[p], penalties=[1e-3, 0.1], unpenalised=free, skip=skip, valid_skip=skip
    )
    z = np.concatenate([design(v, fitted.lags, c)[skip:] for v in x])
    target = np.concatenate([v[skip:] for v in y])
    for o in range(outputs):
        errors = {}
        for penalty in (1e-3, 0.1):
            w, b = naive(z, target[:, o], penalty, free)
            errors[penalty] = np.nanmean((z @ w + b - target[:, o]) ** 2)
            table = next(e for e in fitted.candidates if e.penalty == penalty)
            # Least squares of few rows without a penalty can be exact; then both errors are rounding.
            assert table.mse[o] == pytest.approx(errors[penalty], rel=1e-6, abs=1e-12)
        w, b = naive(z, target[:, o], float(fitted.penalties[o]), free)
        known = ~np.isnan(target[:, o])  # where unpenalised columns are collinear, only fitted values are unique
        outputs_here = z @ fitted.weight[o].numpy() + float(fitted.bias[o])
        assert outputs_here[known] == pytest.approx((z @ w + b)[known], abs=1e-6)
        assert float(fitted.mse[o]) == pytest.approx(min(errors.values()), rel=1e-6, abs=1e-12)
        assert float(fitted.residual_std[o]) ** 2 == pytest.approx(min(errors.values()), rel=1e-6, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(length=st.integers(0, 20), width=st.integers(1, 4), p=st.integers(1, 25), data=st.data())
def test_features(length, width, p, data):
    c = data.draw(st.integers(1, width))
    x = np.random.default_rng(0).normal(size=(length, width))
    plain = design(x, p, c).reshape(length, width + (p - 1) * c)
    assert np.array_equal(lagged_features(torch.from_numpy(x), p, c).numpy(), plain)
    fewer = lagged_features(torch.from_numpy(x), (p + 1) // 2, c).numpy()
    assert np.array_equal(fewer, plain[:, : fewer.shape[1]])


@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 1.0])
def test_equals_scikit_learn(penalty):
    x, y = streams(1, [300, 200], 5, 2)
    fitted = fit_ridge(x, y, x, y, inputs=3, lags=[4], penalties=[penalty], unpenalised=[])
    z, target = np.concatenate([design(v, 4, 3) for v in x]), np.concatenate(y)
    model = linear_model.Ridge(alpha=penalty * len(z)).fit(z, target)
    assert fitted.weight.numpy() == pytest.approx(model.coef_, abs=1e-10)
    assert fitted.bias.numpy() == pytest.approx(model.intercept_, abs=1e-10)
    assert np.concatenate([fitted.predict(v).numpy() for v in x]) == pytest.approx(model.predict(z), abs=1e-10)


def test_unpenalised_columns_equal_scikit_learn_on_what_they_leave():
    x, y = streams(2, [400], 4, 1)
    fitted = fit_ridge(x, y, x, y, inputs=2, lags=[3], penalties=[0.5], unpenalised=[0, 2])
    z = design(x[0], 3, 2)
    u = np.column_stack([z[:, [0, 2]], np.ones(400)])
    rest = np.delete(z, [0, 2], 1)
    left = [v - u @ np.linalg.lstsq(u, v, rcond=None)[0] for v in (rest, y[0])]
    model = linear_model.Ridge(alpha=0.5 * 400, fit_intercept=False).fit(*left)
    assert np.delete(fitted.weight[0].numpy(), [0, 2]) == pytest.approx(model.coef_.ravel(), abs=1e-10)


def test_a_large_penalty_leaves_the_last_value_alone():
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 2))
    y = 3 * x[:, :1] + 1 + x[:, 1:]
    fitted = fit_ridge([x], [y], [x], [y], inputs=2, lags=[1, 3], penalties=[1e8])
    assert fitted.weight[0, 0].item() == pytest.approx(3.0, abs=0.2)
    assert fitted.weight[0, 1:].abs().max().item() < 1e-6


def test_chunks_and_streams_are_not_mixed(monkeypatch):
    x, y = streams(3, [37, 5, 64], 3, 2, 0.2)
    whole = fit_ridge(x, y, x, y, inputs=2, lags=[8], penalties=[0.1])
    monkeypatch.setattr("nystream.train.lagged.CHUNK", 7)
    chunked = fit_ridge(x, y, x, y, inputs=2, lags=[8], penalties=[0.1])
    assert torch.allclose(whole.weight, chunked.weight, atol=1e-12)
    assert torch.allclose(whole.predict(x[0]), chunked.predict(x[0]), atol=1e-12)


def test_outputs_with_their_own_missing_rows_equal_those_fitted_alone():
    x, y = streams(4, [200], 3, 3)
    y[0][-20:, 1] = NAN  # few: the Gram matrix of the others less these rows
    y[0][:150, 2] = NAN  # most: a Gram matrix of its own
    together = fit_ridge(x, y, x, y, inputs=1, lags=[4], penalties=[1e-3, 1e-1])
    for o in range(3):
        alone = fit_ridge(x, [y[0][:, o : o + 1]], x, [y[0][:, o : o + 1]], inputs=1, lags=[4], penalties=[1e-3, 1e-1])
        assert torch.allclose(together.weight[o], alone.weight[0], atol=1e-12)
        assert torch.allclose(together.bias[o], alone.bias[0], atol=1e-12)
        assert together.mse[o].item() == pytest.approx(alone.mse[0].item(), rel=1e-12)


def ar(weights, n=3000, seed=0, noise=1.0):
    random = np.random.default_rng(seed)
    v = np.zeros(n + 1)
    for t in range(n):
        v[t + 1] = sum(w * v[t - k] for k, w in enumerate(weights) if t >= k) + noise * random.normal()
    v /= v.std()
    return v[:-1, None], v[1:, None]


def test_the_number_of_tokens_is_chosen():
    x, y = ar([0.5, 0.0, 0.0, -0.4])
    fitted = fit_ridge([x[:2000]], [y[:2000]], [x[1990:]], [y[1990:]], inputs=1, lags=[8, 1, 2, 4], valid_skip=10)
    assert fitted.lags == 4
    assert fitted.weight[0].numpy() == pytest.approx([0.5, 0.0, 0.0, -0.4], abs=0.06)
    assert [(e.lags, e.penalty) for e in fitted.candidates[:2]] == [(1, 1.0), (1, 0.1)]
    assert len(fitted.candidates) == 4 * 7


def test_fewer_tokens_are_preferred_where_more_do_not_help():
    x, y = ar([0.9])
    fitted = fit_ridge([x[:2000]], [y[:2000]], [x[2000:]], [y[2000:]], inputs=1, lags=[1, 2])
    least = {p: min(e.mse[0] for e in fitted.candidates if e.lags == p) for p in (1, 2)}
    assert fitted.lags == 1
    assert least[1] <= least[2] * 1.001


def test_validation_rows_read_their_context():
    x, y = streams(5, [100], 2, 1)
    fitted = fit_ridge(x, y, x, y, inputs=2, lags=[5], penalties=[0.1], valid_skip=60)
    alone = (fitted.predict(x[0]) - torch.from_numpy(y[0]))[60:].square().mean()
    assert fitted.mse.item() == pytest.approx(alone.item(), rel=1e-12)


def test_skips_may_differ_between_streams():
    x, y = streams(6, [50, 60], 2, 1)
    fitted = fit_ridge(x, y, x, y, inputs=1, lags=[3], penalties=[0.1], skip=[10, 20])
    for v, count in zip(y, (10, 20), strict=True):
        v[:count] = NAN
    same = fit_ridge(x, y, x, y, inputs=1, lags=[3], penalties=[0.1])
    assert torch.allclose(fitted.weight, same.weight, atol=1e-12)


def degenerate():
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 4))
    noise = random.normal(size=(60, 1))
    constant, twice, huge = x.copy(), x.copy(), x.copy() * 1e9
    constant[:, [0, 2]] = 5.1
    twice[:, 1] = twice[:, 0]
    twice[:, 3] = twice[:, 2]
    huge[:, 3] = huge[:, 2]
    return {
        "constant columns": (constant, noise),
        "constant input": (np.full((60, 4), 0.1), noise),
        "duplicate columns": (twice, noise),
        "duplicate columns of another scale": (huge, noise),
        "far from zero": (x + 1e6, noise),
        "few rows": (x[:3], noise[:3]),
        "one row": (x[:1], noise[:1]),
        "linear target": (x, x[:, :1] * 2 - x[:, 3:] + 7),
        "constant target": (x, np.full((60, 1), 1e5)),
        "zeros": (np.zeros((60, 4)), np.zeros((60, 1))),
    }


@pytest.mark.parametrize("case", degenerate())
@pytest.mark.parametrize("free", [(0,), (0, 1, 2, 3), ()])
def test_degenerate_data_give_finite_answers(case, free):
    x, y = degenerate()[case]
    fitted = fit_ridge([x], [y], [x], [y], inputs=4, unpenalised=free)
    assert all(bool(v.isfinite().all()) for v in (fitted.weight, fitted.bias, fitted.mse, fitted.residual_std))
    assert bool(fitted.predict(x).isfinite().all())
    scale = np.abs(x).max() or 1.0
    assert float(fitted.weight.abs().max()) * min(scale, 1.0) < 1e3
    assert float(fitted.residual_std) <= y.std() * (1 + 1e-9) + 1e-9
    if case in ("linear target", "constant target"):
        assert fitted.lags == 1
        # The smallest penalty shrinks a weight by a millionth.
        assert float(fitted.residual_std) <= 1e-5 * max(np.abs(y).max(), 1)


def test_long_lags_and_many_features_are_left_out():
    x, y = streams(7, [30], 3, 1)
    tried = {e.lags for e in fit_ridge(x, y, x, y, inputs=3).candidates}
    assert tried == {1, 2, 4, 8, 16, 24}
    tried = {e.lags for e in fit_ridge(x, y, x, y, inputs=3, max_features=20).candidates}
    assert tried == {1, 2, 4}
    assert fit_ridge(x, y, x, y, inputs=3, lags=[50]).lags == 50  # the smallest is always tried


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": []}, "x must be a list of streams"),
        ({"x": np.zeros((5, 2))}, "x must be a list of streams"),
        ({"x": [np.zeros(5)]}, r"x\[0\] is \[5\], but must be \[T, input_dim\]"),
        ({"x": [np.full((20, 2), NAN)]}, r"x\[0\] has a number that is not finite"),
        ({"valid_x": [np.full((20, 2), np.inf)]}, r"valid_x\[0\] has a number that is not finite"),
        ({"valid_x": [np.zeros((20, 3))]}, "valid_x and valid_y have 3 and 1 columns, but x and y have 2 and 1"),
        ({"x": [np.full((20, 2), 1e200) * np.arange(20)[:, None]]}, "so large that their products overflow"),
        ({"y": [np.full((20, 1), 1e200) * np.arange(20)[:, None]]}, "so large that their products overflow"),
        ({"valid_y": [np.full((20, 1), 1e200)]}, "valid_x or valid_y has numbers so large that errors overflow"),
        ({"y": [np.zeros((19, 1))]}, r"y\[0\] is \[19, 1\], but must be \[20, outputs\]"),
        ({"y": [np.full((20, 1), np.inf)]}, r"y\[0\] has an infinite number; use NaN"),
        ({"y": [np.full((20, 1), NAN)]}, "y has no known target in column 0"),
        ({"valid_skip": 20}, "valid_y has no known target in column 0 after the rows that are skipped"),
        ({"skip": [1, 2]}, "skip has 2 numbers for 1 streams"),
        ({"skip": -1}, "skip=-1 must be an integer of at least 0"),
        ({"inputs": 3}, "inputs=3 must be at most the 2 columns of x"),
        ({"inputs": 0}, "inputs=0 must be at least 1"),
        ({"lags": []}, "lags is empty"),
        ({"lags": [0]}, "lags=0 must be at least 1"),
        ({"penalties": [0.0]}, "penalties=.* must be finite numbers greater than 0"),
        ({"unpenalised": [2]}, r"unpenalised=\[2\] must be columns of x, from 0 to 1"),
    ],
)
def test_errors_say_what_is_needed(change, message):
    x, y = streams(8, [20], 2, 1)
    arguments = {"x": x, "y": y, "valid_x": x, "valid_y": y, "inputs": 1, **change}
    with pytest.raises(ValueError, match=message):
        fit_ridge(**arguments)


def test_prediction_checks_its_input():
    x, y = streams(9, [20], 2, 1)
    fitted = fit_ridge(x, y, x, y, inputs=1)
    with pytest.raises(ValueError, match="x has 3 columns, but this ridge regression was fitted to 2"):
        fitted.predict(np.zeros((4, 3)))
    assert fitted.predict(np.zeros((0, 2))).shape == (0, 1)

"""Boosted trees as a baseline: what they learn, how much, and when they are left out."""

import sys

import numpy as np
import pytest

from nystream.data import trees
from nystream.data.trees import fit_trees

ensemble = pytest.importorskip("sklearn.ensemble")
NAN = float("nan")


def rows(count, features=4, outputs=1, seed=0, noise=0.1):
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, features))
    signal = np.sign(x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    return x, signal * np.arange(1, outputs + 1) + noise * random.normal(size=(count, outputs))


def test_they_equal_plain_boosting_of_the_best_length():
    (x, y), (valid_x, valid_y), (test_x, _) = rows(400), rows(100, seed=1), rows(50, seed=2)
    fitted, note = fit_trees(x, y, valid_x, valid_y)
    assert note == ""
    plain = ensemble.HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=300, early_stopping=False, random_state=0
    ).fit(x, y[:, 0])
    errors = [np.square(output - valid_y[:, 0]).mean() for output in plain.staged_predict(valid_x)]
    (count,) = fitted.iterations
    assert errors[count - 1] == min(errors[:count])
    assert errors[count - 1] <= min(errors[: count + trees.PATIENCE])
    shorter = ensemble.HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=count, early_stopping=False, random_state=0
    ).fit(x, y[:, 0])
    assert fitted.predict(test_x)[:, 0] == pytest.approx(shorter.predict(test_x), abs=1e-12)


def test_boosting_stops_where_there_is_nothing_to_learn():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(300, 3)), random.normal(size=(300, 1))
    fitted, _ = fit_trees(x[:200], y[:200], x[200:], y[200:])
    assert fitted.iterations[0] < 50
    assert fitted.models[0].n_iter_ <= 100


def test_each_output_has_its_known_rows():
    (x, y), (valid_x, valid_y) = rows(300, outputs=2), rows(100, outputs=2, seed=1)
    y[:100, 1], valid_y[:20, 1] = NAN, NAN
    together, _ = fit_trees(x, y, valid_x, valid_y)
    alone, _ = fit_trees(x[100:], y[100:, 1:], valid_x[20:], valid_y[20:, 1:])
    assert np.array_equal(together.predict(valid_x)[:, 1:], alone.predict(valid_x))
    assert together.predict(np.zeros((0, 4))).shape == (0, 2)


def test_unknown_features_are_accepted():
    (x, y), (valid_x, valid_y) = rows(300), rows(100, seed=1)
    x[::3, 0] = NAN
    fitted, _ = fit_trees(x, y, valid_x, valid_y)
    assert np.isfinite(fitted.predict(valid_x)).all()


def test_too_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(trees, "MAX_WORK", 4 * (trees.OVERHEAD + 2500))
    (x, y), valid = rows(3000), rows(100, seed=1)
    fitted, note = fit_trees(x, y, *valid)
    assert note == "boosted trees are fitted to 2,500 of 3,000 rows, so that they take at most about 20 seconds"
    again, _ = fit_trees(x, y, *valid)
    assert np.array_equal(fitted.predict(valid[0]), again.predict(valid[0]))  # the sample has a seed


def test_many_validation_rows_are_sampled(monkeypatch):
    (x, y), (valid_x, valid_y) = rows(300), rows(90, seed=1)
    monkeypatch.setattr(trees, "MAX_VALID_ROWS", 30)
    read = []
    monkeypatch.setattr(trees, "_fit", lambda _, *data: read.append(data) or (None, 1))
    _, note = fit_trees(x, y, valid_x, valid_y)
    ((_, fitted_y, some_x, some_y),) = read
    assert note == ""
    assert (len(fitted_y), len(some_x), len(np.unique(some_y))) == (300, 30, 30)
    place = [int(np.flatnonzero((valid_x == row).all(1))[0]) for row in some_x]
    assert np.array_equal(valid_y[place, 0], some_y)


def test_they_are_left_out_where_they_take_too_long(monkeypatch):
    monkeypatch.setattr(ensemble, "HistGradientBoostingRegressor", None)
    x, y = np.zeros((3000, 100)), np.zeros((3000, 48))
    fitted, note = fit_trees(x, y, x, y)
    assert fitted is None
    assert note == "boosted trees are left out: 100 features and 48 outputs would take much longer than 20 seconds"


def test_without_scikit_learn(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    data = rows(100)
    fitted, note = fit_trees(*data, *data)
    assert fitted is None
    install = "pip install -c constraints.txt '.[train]'"
    assert note == f"boosted trees are left out: the baseline needs scikit-learn: {install}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(30)}, r"x is \[30, 4\] and y is \[30\], but they must be \[N, features\] and \[N, outputs\]"),
        ({"valid_x": np.zeros((29, 4))}, r"valid_x is \[29, 4\] and valid_y is \[30, 1\]"),
        ({"x": np.full((30, 4), np.inf)}, "x or y has an infinite number"),
        ({"y": np.full((30, 1), NAN)}, "y has no known target in column 0"),
        ({"valid_x": np.zeros((30, 3))}, "valid_x and valid_y have 3 and 1 columns, but x and y have 4 and 1"),
    ],
)
def test_errors_say_what_is_needed(change, message):
    x, y = rows(30)
    with pytest.raises(ValueError, match=message):
        fit_trees(**{"x": x, "y": y, "valid_x": x, "valid_y": y, **change})

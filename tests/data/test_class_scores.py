"""Scores of every class, and the confusion matrix."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_fscore_support

from nystream.data import class_plots
from nystream.data.class_scores import class_scores
from nystream.data.plots import _written
from nystream.train.log import plain_numbers


def scored(classes, count, seed=0, ranked=True, single=True):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=count)
    logits = torch.from_numpy(rng.normal(size=(count, classes)) + 1.5 * np.eye(classes)[y])
    hot = torch.nn.functional.one_hot(torch.from_numpy(y), classes).float()
    if not single:
        hot[:, 0] = 1.0
    names = tuple(f"class {i}" for i in range(classes))
    return y, logits, class_scores(names, "frames", hot, logits.softmax(1), single=single, ranked=ranked)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(1, 60), st.integers(0, 99))
def test_as_in_scikit_learn(classes, count, seed):
    y, logits, found = scored(classes, count, seed)
    guess, labels = logits.argmax(1).numpy(), list(range(classes))
    np.testing.assert_array_equal(found.confusion, confusion_matrix(y, guess, labels=labels))
    expected = precision_recall_fscore_support(y, guess, labels=labels, zero_division=np.nan)
    # scikit-learn has F1 = 0 where a class is neither present nor predicted.
    absent = (found.counts == 0) & (found.confusion.sum(0) == 0)
    for name, values in zip(("precision", "recall", "F1"), expected, strict=False):
        np.testing.assert_allclose(found.scores[name][~absent], values[~absent])
        assert np.isnan(found.scores[name][absent]).all()
    np.testing.assert_array_equal(found.counts, expected[3])
    for place in np.flatnonzero(found.counts):
        exact = average_precision_score(y == place, logits.softmax(1)[:, place])
        assert found.scores["average precision"][place] == pytest.approx(exact)


def test_what_is_stored_is_plain():
    _, _, found = scored(3, 2)
    record = json.loads(json.dumps(plain_numbers(found.to_dict()), allow_nan=False))
    assert record["counted"] == "frames"
    assert set(record["scores"]["class 0"]) == {"frames", "precision", "recall", "F1", "average precision"}
    assert sum(sum(row.values()) for row in record["confusion"].values()) == 2
    assert None in (record["scores"][name]["recall"] for name in record["scores"])  # of a class that does not occur


def test_the_worst_and_the_most_confused_come_first():
    hot = torch.eye(3)[[0, 0, 0, 1, 1, 2]]
    guess = torch.eye(3)[[0, 1, 1, 1, 0, 2]]
    found = class_scores(("a", "b", "c"), "files", hot, guess, single=True, ranked=False)
    assert found.worst() == [0, 1, 2]
    assert [tuple(pair) for pair in found.confused()] == [("a", "b", 2, pytest.approx(2 / 3)), ("b", "a", 1, 0.5)]
    behind = class_scores(("a", "b", "c"), "files", hot, guess, single=True, ranked=False, background="a")
    assert behind.worst() == [1, 2, 0]


def test_several_classes_at_once_have_no_confusion():
    _, _, found = scored(3, 20, single=False)
    assert found.confusion is None
    assert found.confused() == []
    assert list(found.scores) == ["average precision"]
    assert set(class_plots.panels(found)) == {"precision.png"}


def test_outputs_that_are_not_finite():
    hot = torch.eye(2)
    found = class_scores(("a", "b"), "files", hot, hot * torch.nan, single=True, ranked=False)
    assert found.confusion is None
    assert np.isnan(found.scores["F1"]).all()


@pytest.mark.parametrize("classes", [3, 50])
def test_plots_say_what_they_leave_out(tmp_path, classes):
    _, _, found = scored(classes, 4000)
    panels = class_plots.panels(found)
    assert set(panels) == {"classes.png", "precision.png", "confusion.png"}
    for name, panel in panels.items():
        titles = []

        def keep(figure, classes, panel=panel, titles=titles):
            panel(figure, classes)
            titles.append(figure.axes[0].get_title("left"))

        _written(tmp_path / name, keep, found)
        assert (tmp_path / name).stat().st_size > 5000
        assert ("40 of 50 classes" in titles[0]) is (classes == 50)

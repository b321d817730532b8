import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.verdict import verdicts

MAE, RMSE, NAN = "mean absolute error", "root mean squared error", float("nan")


def sentence(ours, theirs, name="ridge", higher=False):
    (verdict,) = verdicts({"model": {"s": ours}, name: {"s": theirs}}, higher_is_better=higher)
    return verdict.sentence


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (88, 100, "12 % better than ridge"),
        (96.04, 100, "4.0 % better than ridge"),
        (99.6, 100, "as good as ridge"),
        (100, 100, "as good as ridge"),
        (100.4, 100, "as good as ridge"),
        (100.6, 100, "0.6 % worse than ridge: train on more rows, or use ridge"),
        (20_000, 100, "far worse than ridge: train on more rows, or use ridge"),
        (350, 100, "3.5 times the error of ridge: train on more rows, or use ridge"),
        (90.04, 100, "10 % better than ridge"),  # not 10.0
        (0, 0, "as good as ridge"),
        (0, 1, "100 % better than ridge"),
        (1, 0, "far worse than ridge: train on more rows, or use ridge"),
        (math.inf, 1, "far worse than ridge: train on more rows, or use ridge"),
        (NAN, 1, "not compared with ridge: one of the two has no s"),
    ],
)
def test_errors(ours, theirs, expected):
    assert sentence(ours, theirs) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (0.958, 0.928, "3.0 points better than boosted trees"),
        (0.9, 0.3, "60 points better than boosted trees"),
        (0.903, 0.9, "as good as boosted trees"),
        (0.0, 0.0, "as good as boosted trees"),
        (0.89, 0.9, "1.0 points worse than boosted trees: train on more labelled data, or use boosted trees"),
        (0.9, NAN, "not compared with boosted trees: one of the two has no s"),
    ],
)
def test_scores(ours, theirs, expected):
    assert sentence(ours, theirs, "boosted trees", higher=True) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("persistence", "50 % better than the last value"),
        ("a week ago", "50 % better than the value of a week ago"),
        ("most frequent class", "50 % better than the most frequent class"),
    ],
)
def test_names_fit_into_a_sentence(name, expected):
    assert sentence(1, 2, name) == expected


def test_every_baseline_in_order():
    scores = {"ridge": {MAE: 2.0, RMSE: 1.0}, "model": {MAE: 1.0, RMSE: 3.0}, "trees": {MAE: 0.5, RMSE: 3.0}}
    found = verdicts(scores, higher_is_better=False)
    assert [(verdict.baseline, verdict.gain) for verdict in found] == [("ridge", 0.5), ("trees", -1.0)]
    found = verdicts(scores, higher_is_better=False, score=RMSE)
    assert [verdict.gain for verdict in found] == pytest.approx([-2.0, 0.0])


def test_targets_of_different_units_count_alike():
    scores = {
        "model": {f"{MAE} of A": 1.0, f"{RMSE} of A": 9.0, f"{MAE} of share of B": 800.0},
        "ridge": {f"{MAE} of A": 2.0, f"{RMSE} of A": 1.0, f"{MAE} of share of B": 400.0},
    }
    for score in ("", MAE):
        (verdict,) = verdicts(scores, higher_is_better=False, score=score)
        assert verdict.gain == pytest.approx(0.0)
        assert verdict.sentence == "as good as ridge"


def test_a_score_that_a_baseline_lacks():
    (verdict,) = verdicts({"model": {MAE: 1.0}, "ridge": {}}, higher_is_better=False)
    assert math.isnan(verdict.gain)
    assert verdict.sentence == "not compared with ridge: one of the two has no mean absolute error"


def test_accuracy_of_all_tokens_is_not_that_of_files():
    scores = {"accuracy at the end of a file": 0.5, "accuracy of all tokens": 0.25, "accuracy of frames": 1.0}
    (verdict,) = verdicts({"model": scores, "x": dict.fromkeys(scores, 0.0)}, higher_is_better=True)
    assert verdict.gain == 0.5
    given = {"model": scores, "x": dict.fromkeys(scores, 0.0)}
    (verdict,) = verdicts(given, higher_is_better=True, score="accuracy of all tokens")
    assert verdict.gain == 0.25


def test_what_is_not_there_is_named():
    with pytest.raises(ValueError, match="scores has no scores of 'model'; it has those of ridge"):
        verdicts({"ridge": {MAE: 1.0}}, higher_is_better=False)
    with pytest.raises(ValueError, match="score='mae' is not one of mean absolute error"):
        verdicts({"model": {MAE: 1.0}}, higher_is_better=False, score="mae")


@given(st.floats(0), st.floats(0), st.booleans())
def test_better_is_never_called_worse(ours, theirs, higher):
    (verdict,) = verdicts({"model": {"s": ours}, "ridge": {"s": theirs}}, higher_is_better=higher)
    if " better than" in verdict.sentence:
        assert ours > theirs if higher else ours < theirs
    if " worse than" in verdict.sentence:
        assert ours < theirs if higher else ours > theirs

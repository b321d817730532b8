"""Average precision, plain and calibrated: examples worked by hand, scikit-learn, and invariances."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from nystream.train import Detection, metrics
from nystream.train.metrics import average_precision, mean_average_precision


def column(*values):
    return torch.tensor(values, dtype=torch.float32)[:, None]


def drawn(seed, frames, classes, levels=None):
    """Scores, with ties where there are few levels, and zeros and ones in which every class occurs."""
    draw = torch.Generator().manual_seed(seed)
    score = torch.rand(frames, classes, generator=draw)
    hot = (torch.rand(frames, classes, generator=draw) < 0.2).float()
    hot[seed % frames] = 1.0
    return (score if levels is None else (score * levels).floor()), hot


def test_by_hand():
    # Frames by falling score, hit or miss:   hit     miss    miss    hit     miss    miss    miss    miss
    # TP and FP so far:                       1, 0    1, 1    1, 2    2, 2    ...
    # Precision at the hits:                  1/1                     2/4
    # There are 2 positives and 6 negatives, so w = 3 and a false positive counts a third:
    # calibrated precision at the hits:       1/1                     2 / (2 + 2/3) = 3/4
    score, hot = column(8, 7, 6, 5, 4, 3, 2, 1), column(1, 0, 0, 1, 0, 0, 0, 0)
    assert average_precision(score, hot).tolist() == [pytest.approx((1 + 1 / 2) / 2)]
    assert average_precision(score, hot, calibrated=True).tolist() == [pytest.approx((1 + 3 / 4) / 2)]


def test_ties_by_hand():
    # The scores 5, [4, 4, 4], 3 have hit, [hit, miss, miss], miss: the second hit is found together with both misses of
    # its score, so its precision is 2/4; w = 3/2, so calibrated it is 2 / (2 + 2 / (3/2)) = 3/5.
    score, hot = column(5, 4, 4, 4, 3), column(1, 0, 1, 0, 0)
    assert average_precision(score, hot).tolist() == [pytest.approx((1 + 1 / 2) / 2)]
    assert average_precision(score, hot, calibrated=True).tolist() == [pytest.approx((1 + 3 / 5) / 2)]


def test_means_by_hand():
    # Class 0 is ranked perfectly; class 1 has its one hit last of two, precision 1/2, w = 1; class 2 does not occur.
    score, hot = torch.tensor([[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    for calibrated in (False, True):
        assert mean_average_precision(score, hot, calibrated) == pytest.approx((1 + 1 / 2) / 2)
        assert average_precision(score, hot, calibrated)[2].isnan()


@given(seed=st.integers(0, 2**31), frames=st.integers(2, 60), levels=st.sampled_from([None, 1, 2, 7]))
def test_plain_is_scikit_learns(seed, frames, levels):
    score, hot = drawn(seed, frames, 3, levels)
    expected = average_precision_score(hot.numpy(), score.numpy(), average=None)
    assert np.allclose(average_precision(score, hot), expected, rtol=0, atol=1e-12)


@given(seed=st.integers(0, 2**31), frames=st.integers(2, 60), levels=st.sampled_from([None, 3]))
def test_calibrated_is_plain_with_false_positives_weighed(seed, frames, levels):
    score, hot = drawn(seed, frames, 3, levels)
    found = average_precision(score, hot, calibrated=True)
    for c in range(3):
        positive = hot[:, c] > 0
        # A positive that weighs as much as all negatives to each: scikit-learn's sample weights say the same.
        weight = torch.where(positive, float((~positive).sum()) / float(positive.sum()), 1.0)
        if bool((~positive).any()):
            expected = average_precision_score(hot[:, c].numpy(), score[:, c].numpy(), sample_weight=weight.numpy())
            assert float(found[c]) == pytest.approx(expected, abs=1e-6)


@given(seed=st.integers(0, 2**31), frames=st.integers(2, 40), calibrated=st.booleans())
def test_order_and_monotone_changes_do_not_matter(seed, frames, calibrated):
    score, hot = drawn(seed, frames, 2, levels=5)
    found = average_precision(score, hot, calibrated)
    order = torch.randperm(frames, generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(average_precision(score[order], hot[order], calibrated), found, rtol=0, atol=1e-14)
    assert torch.equal(average_precision(score.double() ** 3 - 7, hot, calibrated), found)


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("positives", [1, 5, 99, 100])
def test_a_perfect_ranking_is_one(positives, calibrated):
    hot = (torch.arange(100) < positives).float()[:, None]
    assert mean_average_precision(hot, hot, calibrated) == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.002, 0.1, 0.5, 0.9])
def test_chance_is_a_half_when_calibrated_however_rare_the_class(share):
    frames = 20_000
    hot = (torch.arange(frames) < share * frames).float()[:, None].expand(-1, 20)
    score = torch.rand(frames, 20)
    assert mean_average_precision(score, hot, calibrated=True) == pytest.approx(0.5, abs=0.03)
    assert mean_average_precision(torch.zeros(frames, 20), hot, calibrated=True) == pytest.approx(0.5)
    assert mean_average_precision(torch.zeros(frames, 20), hot) == pytest.approx(share)


def test_scores_that_are_nan_give_nan():
    score, hot = torch.rand(6, 2), torch.tensor([[1.0, 1.0]] * 3 + [[0.0, 0.0]] * 3)
    score[2, 1] = torch.nan
    found = average_precision(score, hot)
    assert found.isnan().tolist() == [False, True]
    assert np.isnan(mean_average_precision(score, hot))


@pytest.mark.parametrize(
    ("score", "hot", "message"),
    [
        (torch.rand(4, 2), torch.ones(4, 3), r"score is \[4, 2\] and hot \[4, 3\]"),
        (torch.rand(4), torch.ones(4), r"must be \[N, C\]"),
        (torch.rand(4, 2), torch.full((4, 2), 0.5), "hot must be zeros and ones"),
    ],
)
def test_what_does_not_fit_is_refused(score, hot, message):
    with pytest.raises(ValueError, match=message):
        average_precision(score, hot)


def test_detection_has_both():
    y = torch.tensor([0, 1, 2, -1, 1, 0])
    output = torch.randn(6, 3)
    found = Detection().scores(output, y)
    assert list(found) == ["map", "cmap", "loss"]
    known = y >= 0
    score, hot = output.softmax(-1)[known][:, 1:], torch.eye(3)[y.clamp(min=0)][known][:, 1:]
    assert found["cmap"] == pytest.approx(mean_average_precision(score, hot, calibrated=True))


def test_outputs_that_are_not_finite_have_no_accuracy():
    output = torch.tensor([[torch.nan, torch.nan], [1.0, 0.0]])
    assert math.isnan(metrics.accuracy(output, torch.tensor([0, 0])))
    assert metrics.accuracy(output, torch.tensor([-1, 0])) == 1.0

"""Losses against torch's, scores against examples worked by hand."""

import pytest
import torch
from torch.nn import functional as F

from nystream.train import Classification, Detection, Forecasting, metrics, tasks


def test_cross_entropy_is_torchs():
    output, y = torch.randn(6, 4), torch.tensor([0, 3, 1, 2, 2, 0])
    for smoothing in (0.0, 0.1):
        each, counts = Classification(label_smoothing=smoothing).loss(output, y)
        assert torch.allclose(each, F.cross_entropy(output, y, reduction="none", label_smoothing=smoothing))
        assert bool(counts.all())


def test_unknown_classes_do_not_count():
    output, y = torch.randn(3, 4), torch.tensor([0, -1, 1])
    assert Classification().loss(output, y)[1].tolist() == [True, False, True]
    assert Classification().scores(torch.eye(4)[[0, 2, 3]], y)["accuracy"] == 0.5


def test_detection_of_one_class_is_cross_entropy():
    output, y = torch.randn(2, 5, 4), torch.randint(4, (2, 5))
    each, _ = Detection().loss(output, y)
    assert torch.allclose(
        each.flatten(), F.cross_entropy(output.flatten(0, 1), y.flatten(), reduction="none"), atol=1e-6
    )


def test_detection_of_several_classes():
    output = torch.randn(3, 4)
    y = torch.tensor([[0.0, 1, 1, 0], [1, 0, 0, 0], [torch.nan] * 4])
    each, counts = Detection().loss(output, y)
    log = output.log_softmax(-1)
    assert counts.tolist() == [True, True, False]
    assert torch.allclose(each[:2], torch.stack([-(log[0, 1] + log[0, 2]) / 2, -log[1, 0]]))
    each, _ = Detection(kind="sigmoid").loss(output, y)
    assert torch.allclose(each[:2], F.binary_cross_entropy_with_logits(output[:2], y[:2], reduction="none").sum(-1))


def test_average_precision_by_hand():
    # Ranked: hit, miss, hit, miss, hit -> (1/1 + 2/3 + 3/5) / 3.
    score, hot = torch.tensor([[0.9], [0.8], [0.7], [0.6], [0.5]]), torch.tensor([[1.0], [0], [1], [0], [1]])
    assert metrics.mean_average_precision(score, hot) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)


def test_classes_that_do_not_occur_are_left_out():
    score, hot = torch.rand(5, 2), torch.tensor([[1.0, 0], [0, 0], [1, 0], [0, 0], [1, 0]])
    assert metrics.mean_average_precision(score, hot) == metrics.mean_average_precision(score[:, :1], hot[:, :1])
    with pytest.raises(ValueError, match="none of the classes occurs"):
        metrics.mean_average_precision(score, torch.zeros(5, 2))


def test_the_background_and_unknown_frames_are_left_out():
    y = torch.tensor([0, 1, 2, -1, 1])
    perfect = 10 * F.one_hot(y.clamp(min=0), 3).float()
    perfect[3] = torch.tensor([0.0, 99.0, 0.0])  # wrong where nobody knows
    assert Detection().scores(perfect, y)["map"] == pytest.approx(1.0)


def test_forecasts_are_scored_where_there_is_a_target():
    output, y = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([[0.0], [torch.nan], [2.0]])
    each, counts = Forecasting().loss(output, y)
    assert counts.tolist() == [True, False, True]
    assert torch.allclose(each[::2], torch.tensor([0.5, 2.5]))
    scores = Forecasting().scores(output, y)
    assert scores["mse"] == pytest.approx(5.0)
    assert scores["mae"] == pytest.approx(2.0)


def test_columns_are_missing_one_by_one():
    output, y = torch.tensor([[1.0, 9.0]]), torch.tensor([[0.0, torch.nan]])
    each, counts = Forecasting().loss(output, y)
    assert counts.tolist() == [True]
    assert each.tolist() == [0.5]
    assert Forecasting().scores(output, y)["mse"] == 1.0


@pytest.mark.parametrize(
    ("task", "y", "message"),
    [
        (Classification(), torch.zeros(4, 1).long(), r"must be classes \[N\]: integers below 3"),
        (Classification(), torch.full((4,), -1), "no known class"),
        (Detection(), torch.zeros(4, 1).long(), r"must be classes \[N\]"),
        (Detection(), torch.zeros(4, 3).long(), r"must be floats: y.float\(\)"),
        (Detection(), torch.zeros(4, 2), r"must be \[N, 3\]: zeros and ones"),
        (Detection(), torch.zeros(4).long(), "none of the classes to be detected"),
        (Detection(background=17), torch.ones(4).long(), "background=17 is not one of the 3 classes"),
        (Forecasting(), torch.zeros(4), r"for one quantity, y\[:, None\]"),
        (Forecasting(), torch.zeros(4, 1, 3), r"must be numbers \[N, 3\]"),
        (Forecasting(), torch.full((4, 3), torch.nan), "no finite number"),
    ],
)
def test_targets_that_do_not_fit_are_refused(task, y, message):
    with pytest.raises(ValueError, match=message):
        task.check(y, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Classification(label_smoothing=5.0), "label_smoothing=5.0"),
        (lambda: Detection(kind="sigmod"), "kind='sigmod' is not known"),
        (lambda: Forecasting(delta=0.0), "delta=0.0 must be greater than 0"),
    ],
)
def test_tasks_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_missing_target_has_no_gradient():
    output = torch.tensor([[1.0], [2.0]], requires_grad=True)
    each, counts = Forecasting().loss(output, torch.tensor([[0.0], [torch.nan]]))
    torch.where(counts, each, 0.0).sum().backward()
    assert output.grad.tolist() == [[1.0], [0.0]]


def test_the_pinball_loss_is_least_at_the_quantiles():
    y = torch.linspace(0, 1, 1001)[:, None]
    task = Forecasting(quantiles=(0.25, 0.9))
    guesses = torch.linspace(0, 1, 101)
    losses = [task.scores(torch.stack([guess, guess]).expand(1001, 2), y.expand(1001, 2)) for guess in guesses]
    for column, level in enumerate((0.25, 0.9)):
        each = [tasks.pinball(guess.expand(1001, 1), y, (level,)).mean() for guess in guesses]
        assert float(guesses[int(torch.stack(each).argmin())]) == pytest.approx(level, abs=0.011), column
    assert list(losses[0]) == ["pinball", "loss"]
    assert losses[0]["pinball"] == pytest.approx(losses[0]["loss"], rel=1e-5)


def test_unknown_targets_of_quantiles_do_not_count():
    task, nan = Forecasting(quantiles=(0.1, 0.9)), float("nan")
    output = torch.zeros(2, 4, requires_grad=True)
    each, known = task.loss(output, torch.tensor([[1.0, 1.0, nan, nan], [nan] * 4]))
    assert known.tolist() == [True, False]
    torch.testing.assert_close(each[0], torch.tensor(0.5))
    each[0].backward()
    assert output.grad[0].tolist() == pytest.approx([-0.05, -0.45, 0, 0])
    with pytest.raises(ValueError, match="output_dim is 3, not a multiple of the 2 quantiles"):
        task.check(torch.zeros(5, 3), 3)
    with pytest.raises(ValueError, match="quantiles has 2"):
        Forecasting(quantiles=(2,))

"""Logistic regression equals a plain minimisation of its objective, and survives missing classes."""

import sys

import pytest
import torch

from nystream.train import Classification, Detection, fit_logistic, logistic

pytest.importorskip("sklearn")


@pytest.fixture(autouse=True)
def converged(monkeypatch):
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 2000)


def rows(count=300, features=5, classes=3, seed=0, noise=1.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, features, generator=generator)
    truth = torch.randn(classes, features, generator=torch.Generator().manual_seed(99))
    return x, x @ truth.T + noise * torch.randn(count, classes, generator=generator)


def minimised(x, y, task, classes, penalty):
    """Logits [N, classes] of the weights that minimise the mean loss plus the penalty."""
    x = x.double()
    W = torch.zeros(classes, x.shape[1], dtype=torch.float64, requires_grad=True)
    b = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([W, b], max_iter=2000, line_search_fn="strong_wolfe", tolerance_grad=1e-10)

    def objective():
        optimizer.zero_grad()
        each, known = task.loss(x @ W.T + b, y)
        value = each[known].mean() + penalty / 2 * W.square().sum()
        value.backward()
        return value

    optimizer.step(objective)
    return (x @ W.T + b).detach()


@pytest.mark.parametrize("penalty", [1.0, 0.01])
@pytest.mark.parametrize("case", ["classes", "two classes", "shared", "sigmoid"])
def test_equals_a_plain_minimisation(case, penalty):
    classes = 2 if case == "two classes" else 3
    x, logits = rows(classes=classes)
    task, y = Classification(), logits.argmax(1)
    y[::17] = -1
    if case in ("shared", "sigmoid"):
        task = Detection("softmax" if case == "shared" else "sigmoid", background=None)
        y = (logits > 0.5).float()
        y[:, 0] = torch.maximum(y[:, 0], (y.sum(1) == 0).float())  # every row has a class
        y[::17] = float("nan")
    fitted = fit_logistic(x, y, x, y, task=task, classes=classes, penalties=[penalty])
    normal = (lambda z: z) if case == "sigmoid" else (lambda z: z.log_softmax(-1))
    expected = normal(minimised(x, y, task, classes, penalty))
    assert fitted.penalty == penalty
    # scikit-learn stops at a gradient of 1e-4.
    assert torch.allclose(normal(fitted.predict(x)), expected, atol=5e-3 / penalty**0.5)
    assert fitted.scores == pytest.approx(task.scores(fitted.predict(x), y))


def test_the_penalty_is_chosen_on_validation_data():
    x, logits = rows(60, 30, noise=3.0)
    valid_x, valid_logits = rows(500, 30, seed=1, noise=3.0)
    y, valid_y = logits.argmax(1), valid_logits.argmax(1)
    task = Classification()
    fitted = fit_logistic(x, y, valid_x, valid_y, task=task, classes=3)
    tried = {c.penalty: c.scores["accuracy"] - 0.1 * c.scores["loss"] for c in fitted.candidates}
    assert tried[fitted.penalty] == max(tried.values())
    assert min(tried) > 0.0003  # the loss has grown too much before
    for candidate in fitted.candidates:  # a warm start changes nothing
        cold = fit_logistic(x, y, valid_x, valid_y, task=task, classes=3, penalties=[candidate.penalty])
        assert cold.scores["loss"] == pytest.approx(candidate.scores["loss"], rel=0.02)


def test_classes_without_rows_are_unlikely():
    x, logits = rows()
    y = logits.argmax(1)
    fitted = fit_logistic(x, y, x, y, task=Classification(), classes=5)
    share = fitted.predict(x).softmax(-1).mean(0)
    assert torch.all(share[3:] < 0.01)
    assert torch.all(share[3:] > 1e-4)
    assert share.sum().item() == pytest.approx(1.0)
    assert fitted.scores["accuracy"] > 0.6


@pytest.mark.parametrize("several", [False, True])
def test_a_single_class(several):
    x, _ = rows(50)
    y = torch.zeros(50, dtype=torch.long)
    task = Classification()
    if several:
        y, task = torch.nn.functional.one_hot(y, 3).float(), Detection("sigmoid", background=None)
    fitted = fit_logistic(x, y, x, y, task=task, classes=3)
    share = fitted.predict(x).sigmoid() if several else fitted.predict(x).softmax(-1)
    assert torch.all(share[:, 0] > 0.97)
    assert torch.all(share[:, 1:] < 0.02)
    assert torch.all(share[:, 1:] > 0)


def test_many_rows_are_sampled():
    x, logits = rows(300)
    y = logits.argmax(1)
    options = {"task": Classification(), "classes": 3, "penalties": [0.1]}
    some, again, other, every = (
        fit_logistic(x, y, x, y, **options, max_rows=count, seed=seed)
        for count, seed in ((100, 0), (100, 0), (100, 1), (300, 0))
    )
    assert torch.equal(some.weight, again.weight)
    assert not torch.allclose(some.weight, other.weight, atol=1e-3)
    assert torch.allclose(some.weight, every.weight, atol=0.2)


def test_degenerate_features_give_finite_answers():
    x, logits = rows(40)
    x[:, 1], x[:, 3] = 1.0, x[:, 0]
    fitted = fit_logistic(x[:4], logits[:4].argmax(1), x, logits.argmax(1), task=Classification(), classes=3)
    assert bool(fitted.weight.isfinite().all() & fitted.bias.isfinite().all())


def test_iterations_that_run_out_are_no_warning(monkeypatch):
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 1)
    x, logits = rows()
    y = logits.argmax(1)
    assert fit_logistic(x, y, x, y, task=Classification(), classes=3).scores["accuracy"] > 0.5


def test_without_scikit_learn(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    x, logits = rows(30)
    y = logits.argmax(1)
    with pytest.raises(
        ModuleNotFoundError, match=r"logistic regression needs scikit-learn: pip install -c constraints.txt '\.\["
    ):
        fit_logistic(x, y, x, y, task=Classification(), classes=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(29, 5)}, r"x is \[29, 5\] and y is \[30\], but they must be \[N, features\]"),
        ({"valid_x": torch.zeros(30, 4)}, "valid_x has 4 columns, but x has 5"),
        ({"valid_x": torch.full((30, 5), float("inf"))}, "valid_x has a number that is not finite"),
        ({"y": torch.full((30,), -1)}, "y has no known class"),
        ({"y": torch.full((30,), 3)}, "y: y has class 3, but the model's output_dim is 3"),
        ({"penalties": []}, r"penalties=\[\] must be finite numbers greater than 0"),
        ({"penalties": [-1.0]}, r"penalties=\[-1.0\] must be finite numbers greater than 0"),
    ],
)
def test_errors_say_what_is_needed(change, message):
    x, logits = rows(30)
    y = logits.argmax(1)
    arguments = {"x": x, "y": y, "valid_x": x, "valid_y": y, "task": Classification(), "classes": 3, **change}
    with pytest.raises(ValueError, match=message):
        fit_logistic(**arguments)
    with pytest.raises(ValueError, match=r"x is \[2, 3\], but must be \[N, 5\]"):
        fit_logistic(x, y, x, y, task=Classification(), classes=3).predict(torch.zeros(2, 3))

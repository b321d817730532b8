"""Logistic regression on the features of tokens: what a classifier can have without a network.

For each penalty λ, it minimises the mean loss plus λ/2 Σ w², with scikit-learn and from the largest λ to the smallest,
each starting from the one before. The loss is the cross-entropy of a softmax over all classes, or, for
`Detection(kind="sigmoid")`, the binary cross-entropy of each class against the rest.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream import extras
from nystream.config.checks import positive_int, whole
from nystream.train import metrics
from nystream.train.tasks import Classification, Detection

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
MAX_ROWS = 30_000
MAX_ITERATIONS = 60  # for each penalty, from the weights of the one before
LOSS_WEIGHT = 0.1  # of the loss beside the score: it decides where scores hardly differ
WORSE = 1.3  # times the smallest validation loss: weaker penalties are not tried

Array = NDArray[np.float64]


class LogisticCandidate(NamedTuple):
    """The validation scores of one penalty."""

    penalty: float
    scores: dict[str, float]


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted logistic regression. Tensors are float64 on the CPU.

    Attributes:
        penalty: λ.
        weight: [classes, features].
        bias: [classes].
        scores: The task's scores on validation data.
        candidates: Those of every penalty that was tried.
    """

    penalty: float
    weight: Tensor
    bias: Tensor
    scores: dict[str, float]
    candidates: list[LogisticCandidate] = field(repr=False)

    def predict(self, x: Any) -> Tensor:
        """Logits [N, classes] for features [N, features]."""
        features = torch.as_tensor(x).detach().double().cpu()
        if features.dim() != 2 or features.shape[1] != self.weight.shape[1]:
            raise ValueError(f"x is {list(features.shape)}, but must be [N, {self.weight.shape[1]}]")
        return features @ self.weight.T + self.bias


def fit_logistic(
    x: Any,
    y: Any,
    valid_x: Any,
    valid_y: Any,
    *,
    task: Classification | Detection,
    classes: int,
    penalties: Sequence[float] = PENALTIES,
    max_rows: int = MAX_ROWS,
    seed: int = 0,
) -> Logistic:
    """Fit logistic regressions with several penalties, and return the best on validation data.

    The best one has the largest score minus a tenth of the loss; the score is the task's first, accuracy or mean
    average precision. A class without training rows gets a small constant probability. Needs scikit-learn.

    Args:
        x: Features [N, features], standardised: the penalty is the same for all columns.
        y: Classes [N], −1 if unknown; or floats [N, classes], zeros and ones, NaN if unknown.
        valid_x, valid_y: Likewise, for validation.
        task: `Classification` or `Detection`, which has the scores.
        classes: Number of classes.
        penalties: λ to try.
        max_rows: If more rows are known, a random sample of so many is fitted.
        seed: Seed of the sample.

    Example:
        >>> import torch
        >>> from nystream.train import Classification, fit_logistic
        >>> x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> y = x[:, :3].argmax(1)
        >>> train, valid = (x[:200], y[:200]), (x[200:], y[200:])
        >>> fitted = fit_logistic(*train, *valid, task=Classification(), classes=3)
        >>> fitted.scores["accuracy"] > 0.9
        True
    """
    positive_int("classes", classes)
    positive_int("max_rows", max_rows)
    whole("seed", seed)
    strengths = sorted({float(penalty) for penalty in penalties}, reverse=True)
    if not strengths or not all(0 < strength < math.inf for strength in strengths):
        raise ValueError(f"penalties={penalties!r} must be finite numbers greater than 0, at least one")
    features, labels = _rows("", x, y, task, classes)
    valid_features, valid_labels = _rows("valid_", valid_x, valid_y, task, classes)
    if features.shape[1] != valid_features.shape[1]:
        raise ValueError(f"valid_x has {valid_features.shape[1]} columns, but x has {features.shape[1]}")
    if len(features) > max_rows:
        chosen = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))[:max_rows]
        features, labels = features[chosen], labels[chosen]
    hot = metrics.one_hot(labels, classes).double()
    several = isinstance(task, Detection) and task.kind == "sigmoid"

    best: Logistic | None = None
    candidates: list[LogisticCandidate] = []
    fits = (_one_vs_rest if several else _softmax)(features.numpy(), hot.numpy(), strengths)
    for penalty, (weight, bias) in zip(strengths, fits, strict=True):
        new = Logistic(penalty, torch.from_numpy(weight), torch.from_numpy(bias), {}, candidates)
        scores = task.scores(new.predict(valid_features), valid_labels)
        candidates.append(LogisticCandidate(penalty, scores))
        if best is None or _criterion(scores) > _criterion(best.scores):
            best = Logistic(penalty, new.weight, new.bias, scores, candidates)
        elif scores["loss"] > WORSE * min(candidate.scores["loss"] for candidate in candidates):
            break
    assert best is not None
    return best


def _criterion(scores: dict[str, float]) -> float:
    return next(iter(scores.values())) - LOSS_WEIGHT * scores["loss"]


def _rows(name: str, x: Any, y: Any, task: Classification | Detection, classes: int) -> tuple[Tensor, Tensor]:
    """Features and classes of the rows whose classes are known."""
    features, labels = torch.as_tensor(x).detach().double().cpu(), torch.as_tensor(y).detach().cpu()
    if features.dim() != 2 or not features.shape[1] or not labels.dim() or len(features) != len(labels):
        raise ValueError(
            f"{name}x is {list(features.shape)} and {name}y is {list(labels.shape)}, but they must be [N, features] "
            f"and [N] or [N, {classes}]"
        )
    if not len(features) or not bool(metrics.known(labels).any()):
        raise ValueError(f"{name}y has no known class, so there is nothing to learn or to score")
    if not bool(features.isfinite().all()):
        raise ValueError(f"{name}x has a number that is not finite; fill missing values first")
    try:
        task.check(labels, classes)
    except ValueError as error:
        raise ValueError(f"{name}y: {error}") from error
    known = metrics.known(labels)
    return features[known], labels[known]


def _softmax(x: Array, hot: Array, penalties: Sequence[float]) -> Iterator[tuple[Array, Array]]:
    """Weights and biases for each penalty; a row with several classes is shared among them."""
    row, label = hot.nonzero()
    share = (1 / hot.sum(1).clip(min=1))[row]
    rows, (classes, features) = share.sum(), (hot.shape[1], x.shape[1])
    prior = _log_share(hot.sum(0), rows, classes)
    present = np.unique(label)
    model = _regression() if len(present) > 1 else None
    for penalty in penalties:
        weight, bias = np.zeros((classes, features)), prior.copy()
        if model is not None:
            two = len(present) == 2  # scikit-learn then has one vector w for both, the softmax has ± w/2
            _fit(model.set_params(C=(2 if two else 1) / (penalty * rows)), x[row], label, share)
            coef, intercept = model.coef_, model.intercept_
            if two:
                coef, intercept = np.concatenate([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
            logits = x @ coef.T + intercept
            highest = logits.max(1)
            # Logits are defined up to a constant. With this one they compare with the prior of classes without rows.
            intercept = intercept - (highest + np.log(np.exp(logits - highest[:, None]).sum(1))).mean()
            weight[present], bias[present] = coef, intercept
        yield weight, bias


def _one_vs_rest(x: Array, hot: Array, penalties: Sequence[float]) -> Iterator[tuple[Array, Array]]:
    """Weights and biases for each penalty, of each class against the rest."""
    rows, classes = hot.shape
    positives = hot.sum(0)
    prior = _log_share(positives, rows, 2) - _log_share(rows - positives, rows, 2)
    models = {c: _regression() for c in range(classes) if 0 < positives[c] < rows}
    for penalty in penalties:
        weight, bias = np.zeros((classes, x.shape[1])), prior.copy()
        for c, model in models.items():
            _fit(model.set_params(C=1 / (penalty * rows)), x, hot[:, c])
            weight[c], bias[c] = model.coef_[0], model.intercept_[0]
        yield weight, bias


def _regression() -> Any:
    linear_model = extras.require("logistic regression", "sklearn.linear_model")
    return linear_model.LogisticRegression(warm_start=True, max_iter=MAX_ITERATIONS)


def _fit(model: Any, *data: Any) -> None:
    """Fit without a warning about the number of iterations: the penalty is chosen among the weights as they are."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*data)


def _log_share(count: Array, total: float, classes: int) -> Array:
    """The logarithm of a share of rows, as if there were another half row of every class."""
    return np.asarray(np.log((count + 0.5) / (total + 0.5 * classes)))

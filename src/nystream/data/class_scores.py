"""Scores of every class, and the confusion matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.train import metrics

PRECISION, RECALL, F1, AVERAGE = "precision", "recall", "F1", "average precision"


class Confused(NamedTuple):
    """How often one class was predicted in place of another."""

    truth: str
    predicted: str
    errors: int
    share: float  # of what truly has the first class


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Scores of every class.

    Attributes:
        classes: The names of the classes.
        counted: What is counted, "files" or "frames".
        counts: [classes], how many truly have each class.
        scores: [classes] by the name of the score, NaN where it is not defined: precision of a class that is never
            predicted, recall and average precision of one that does not occur.
        confusion: [true class, predicted class], counts; None if several classes can apply at once, or if outputs are
            not finite.
        total: The number of files or frames.
        background: The class of frames with nothing to detect, which is listed, but is not one of the worst.
    """

    classes: tuple[str, ...]
    counted: str
    counts: NDArray[np.int64]
    scores: dict[str, NDArray[np.float64]]
    confusion: NDArray[np.int64] | None
    total: int
    background: str | None = None

    @property
    def main(self) -> str:
        """The score that ranks the classes."""
        return F1 if F1 in self.scores else AVERAGE

    def worst(self, score: str = "") -> list[int]:
        """The numbers of the classes, those with the lowest score first (by default the main one); then the background
        and those without a score."""
        values = self.scores[score or self.main]
        last = [np.isnan(value) or name == self.background for value, name in zip(values, self.classes, strict=True)]
        return sorted(range(len(values)), key=lambda place: (last[place], np.nan_to_num(values[place]), place))

    def confused(self) -> list[Confused]:
        """Pairs of classes that were confused, the most frequent first."""
        if self.confusion is None:
            return []
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        truth, predicted = np.nonzero(wrong)
        pairs = [
            Confused(self.classes[i], self.classes[j], int(wrong[i, j]), float(wrong[i, j] / self.counts[i]))
            for i, j in zip(truth.tolist(), predicted.tolist(), strict=True)
        ]
        return sorted(pairs, key=lambda pair: -pair.errors)

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible values: scores by class, and predictions by true class without those that never occur."""
        each = {
            name: {
                self.counted: int(self.counts[place]),
                **{score: float(values[place]) for score, values in self.scores.items()},
            }
            for place, name in enumerate(self.classes)
        }
        found: dict[str, Any] = {"counted": self.counted, "scores": each}
        if self.confusion is not None:
            found["confusion"] = {
                name: {other: int(count) for other, count in zip(self.classes, row, strict=True) if count}
                for name, row in zip(self.classes, self.confusion, strict=True)
            }
        return found


def class_scores(
    classes: tuple[str, ...],
    counted: str,
    hot: Tensor,
    probabilities: Tensor,
    *,
    single: bool,
    ranked: bool,
    background: str | None = None,
) -> ClassScores:
    """Score every class.

    Args:
        classes: Their names.
        counted: What a row is, "files" or "frames".
        hot: The truth [N, classes], zeros and ones.
        probabilities: Of the classes [N, classes].
        single: Whether a row has exactly one class, so that the most probable one is predicted.
        ranked: Whether to add the average precision.
        background: As in `ClassScores`.
    """
    counts = hot.long().sum(0).numpy()
    scores: dict[str, NDArray[np.float64]] = {}
    confusion = None
    if single:
        if bool(probabilities.isfinite().all()):
            confusion = confusion_matrix(hot.argmax(1), probabilities.argmax(1), len(classes))
            scores = _single(confusion)
        else:  # argmax of NaN is a class too
            scores = {name: np.full(len(classes), np.nan) for name in (PRECISION, RECALL, F1)}
    if ranked:
        scores[AVERAGE] = metrics.average_precision(probabilities, hot).double().numpy()
    return ClassScores(classes, counted, counts, scores, confusion, len(hot), background)


def confusion_matrix(truth: Tensor, predicted: Tensor, classes: int) -> NDArray[np.int64]:
    """[true class, predicted class]: how often each pair occurs."""
    return torch.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes).numpy()


def _single(confusion: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Precision, recall and F1 of every class, from a confusion matrix."""
    right, true, predicted = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    with np.errstate(invalid="ignore"):  # 0 / 0 is not defined
        return {PRECISION: right / predicted, RECALL: right / true, F1: 2 * right / (true + predicted)}

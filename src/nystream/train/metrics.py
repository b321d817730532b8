"""Scores."""

from __future__ import annotations

import torch
from torch import Tensor


def accuracy(output: Tensor, y: Tensor) -> float:
    """Share of the known classes y [N] that have the largest of the outputs [N, C]."""
    known = y >= 0
    return float((output.argmax(-1) == y)[known].double().mean())


def mean_average_precision(score: Tensor, hot: Tensor) -> float:
    """Mean over the classes that occur of the area under precision and recall: scores and zeros and ones [N, C]."""
    try:
        from sklearn.metrics import average_precision_score
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "average precision needs scikit-learn: pip install 'nystream[train]'", name="sklearn"
        ) from error
    there = hot.bool().any(0)
    if not bool(there.any()):
        raise ValueError("none of the classes occurs, so there is no average precision; check the targets")
    return float(average_precision_score(hot[:, there].numpy(), score[:, there].numpy(), average="macro"))


def known(y: Tensor) -> Tensor:
    """[N]: whether the classes of a token are known."""
    return y.isfinite().all(-1) if y.is_floating_point() else y >= 0


def one_hot(y: Tensor, classes: int) -> Tensor:
    """[..., C] zeros and ones of classes [...] or of [..., C] itself; zeros where they are not known."""
    if y.is_floating_point():
        return torch.where(y.isfinite(), y, 0.0)
    return (y.unsqueeze(-1) == torch.arange(classes, device=y.device)).float()

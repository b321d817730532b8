"""Scores of outputs against targets."""

from __future__ import annotations

import torch
from torch import Tensor


def accuracy(output: Tensor, y: Tensor) -> float:
    """Fraction of the known classes y [N] that have the largest of the outputs [N, C]; NaN if an output is not finite.

    Example:
        >>> import torch
        >>> from nystream.train.metrics import accuracy
        >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 1.0], [5.0, 0.0]]), torch.tensor([0, 0, -1]))
        0.5
    """
    output, y = output[y >= 0], y[y >= 0]
    # argmax of NaN is a class too, and might count as correct.
    return float((output.argmax(-1) == y).double().mean()) if bool(output.isfinite().all()) else float("nan")


def average_precision(score: Tensor, hot: Tensor, calibrated: bool = False) -> Tensor:
    """Average precision [C] of scores and zeros and ones [N, C]: for every class, the mean precision at its frames.

    Precision is TP / (TP + FP) among the frames with the same score or a higher one. Calibrated precision is
    TP / (TP + FP / w), where w is the number of negatives per positive of the class, so that chance gives about a half
    however rare the class is. Frames of equal score count together. NaN if a class does not occur or a score is NaN.

    Example:
        >>> import torch
        >>> from nystream.train.metrics import average_precision
        >>> score = torch.tensor([[0.9], [0.8], [0.7], [0.1]])
        >>> hot = torch.tensor([[1], [0], [1], [0]])  # precision 1 at the first, 2/3 at the third
        >>> round(float(average_precision(score, hot)), 4)
        0.8333
    """
    if score.dim() != 2 or score.shape != hot.shape:
        raise ValueError(f"score is {list(score.shape)} and hot {list(hot.shape)}, but both must be [N, C]")
    if not bool(((hot == 0) | (hot == 1)).all()):
        raise ValueError("hot must be zeros and ones, but has other values")
    ranked, order = score.T.contiguous().sort(descending=True)  # [C, N]
    hit = hot.T.gather(1, order).double()
    true = hit.cumsum(1)
    places = torch.arange(1, len(score) + 1, device=score.device)
    false = places - true
    positives, negatives = true[:, -1:], false[:, -1:]
    weight = positives / negatives.clamp(min=1) if calibrated else 1.0  # 1 / w
    precision = true / (true + false * weight)
    ends = torch.ones_like(ranked, dtype=torch.bool)  # the last place of its score
    ends[:, :-1] = ranked[:, 1:] != ranked[:, :-1]
    last = torch.where(ends, places, len(score)).flip(1).cummin(1).values.flip(1) - 1
    average = (hit * precision.gather(1, last)).sum(1) / positives.squeeze(1)
    return average.masked_fill(score.isnan().any(0), torch.nan)


def mean_average_precision(score: Tensor, hot: Tensor, calibrated: bool = False) -> float:
    """Mean average precision over the classes that occur, of scores and zeros and ones [N, C]."""
    occurs = hot.bool().any(0)
    if not bool(occurs.any()):
        raise ValueError("none of the classes occurs, so there is no average precision; check the targets")
    return float(average_precision(score[:, occurs], hot[:, occurs], calibrated).mean())


def known(y: Tensor) -> Tensor:
    """Whether the classes of each token are known, [N]."""
    return y.isfinite().all(-1) if y.is_floating_point() else y >= 0


def one_hot(y: Tensor, classes: int) -> Tensor:
    """Zeros and ones [..., C] of classes [...] or [..., C]; zeros if unknown."""
    if y.is_floating_point():
        return torch.where(y.isfinite(), y, 0.0)
    return (y.unsqueeze(-1) == torch.arange(classes, device=y.device)).float()

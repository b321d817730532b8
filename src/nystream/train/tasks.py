"""Tasks: the loss of an output, and the scores of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from nystream.config.checks import one_of, quantile_levels
from nystream.train import metrics


class Task(Protocol):
    """Losses and scores. Models are selected by the first score."""

    @property
    def higher_is_better(self) -> bool: ...

    @property
    def scaled(self) -> bool:
        """Whether outputs and targets are in the user's units, and are to be compared in the model's."""
        ...

    def check(self, y: Tensor, width: int) -> None:
        """Raise if targets [N, ...] do not fit outputs [N, width]."""
        ...

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of every output [..., output_dim], and whether it counts: [...] each."""
        ...

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        """Scores of outputs [N, output_dim] against targets [N, ...], on the CPU."""
        ...


@dataclass(frozen=True)
class Classification:
    """One class per window: y [N], integers, −1 if unknown. Models are selected by accuracy."""

    label_smoothing: float = 0.0

    higher_is_better = True
    scaled = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ValueError(f"label_smoothing={self.label_smoothing!r} must be at least 0 and less than 1")

    def check(self, y: Tensor, width: int) -> None:
        _check_classes(y, width)

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return _cross_entropy(output, y, self.label_smoothing), y >= 0

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        return {"accuracy": metrics.accuracy(output, y), **_mean_loss(self, output, y)}


@dataclass(frozen=True)
class Detection:
    """Classes of every token of a stream. Models are selected by mean average precision, without the background.

    The calibrated mean, `cmap`, is that of online action detection, in which rare and frequent classes count the same.

    y is [N], one class per token, −1 if unknown; or floats [N, C], zeros and ones, for several classes at once, NaN if
    unknown. "softmax" makes the classes exclude each other; "sigmoid" treats each independently.
    """

    kind: Literal["softmax", "sigmoid"] = "softmax"
    background: int | None = 0

    higher_is_better = True
    scaled = False

    def __post_init__(self) -> None:
        one_of("kind", self.kind, ("softmax", "sigmoid"))

    def check(self, y: Tensor, width: int) -> None:
        if self.background is not None and not 0 <= self.background < width:
            raise ValueError(f"background={self.background} is not one of the {width} classes; None if there is none")
        if y.is_floating_point():
            if y.dim() != 2 or y.shape[1] != width:
                raise ValueError(f"y is {list(y.shape)}, but must be [N, {width}]: zeros and ones for every class")
        elif y.dim() == 2 and y.shape[1] == width:
            raise ValueError(f"y is {y.dtype} {list(y.shape)}; several classes at once must be floats: y.float()")
        else:
            _check_classes(y, width)
        known = metrics.known(y)
        occurs = metrics.one_hot(y, width)[known].any(0)
        if not any(bool(occurs[c]) for c in range(width) if c != self.background):
            raise ValueError("y has none of the classes to be detected, so there is nothing to learn or to score")

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        known, hot = metrics.known(y), metrics.one_hot(y, output.shape[-1]).to(output.dtype)
        if self.kind == "sigmoid":
            each = F.binary_cross_entropy_with_logits(output, hot, reduction="none").sum(-1)
        else:
            shared = hot / hot.sum(-1, keepdim=True).clamp(min=1)
            each = -(shared * output.log_softmax(-1)).sum(-1)
        return each, known

    def probabilities(self, output: Tensor) -> Tensor:
        """Probabilities [..., C] of the classes, from outputs [..., C]."""
        return output.float().softmax(-1) if self.kind == "softmax" else output.float().sigmoid()

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        known, hot = metrics.known(y), metrics.one_hot(y, output.shape[-1])
        score = self.probabilities(output)
        classes = [c for c in range(output.shape[-1]) if c != self.background]
        score, hot = score[known][:, classes], hot[known][:, classes]
        return {
            "map": metrics.mean_average_precision(score, hot),
            "cmap": metrics.mean_average_precision(score, hot, calibrated=True),
            **_mean_loss(self, output, y),
        }


@dataclass(frozen=True)
class Forecasting:
    """Numbers: y [N, output_dim], NaN if unknown. Huber loss; models are selected by squared error.

    Both are in the model's units: if `output_scaler` was fitted to the training targets, predicting their mean gives an
    `mse` of 1.

    With levels of quantiles, outputs and targets have one column per level, level after level of each number, and the
    loss is the pinball loss, by which models are also selected.
    """

    delta: float = 1.0
    quantiles: tuple[float, ...] = ()

    higher_is_better = False
    scaled = True

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise ValueError(f"delta={self.delta!r} must be greater than 0")
        object.__setattr__(self, "quantiles", quantile_levels("quantiles", self.quantiles))

    def check(self, y: Tensor, width: int) -> None:
        if self.quantiles and width % len(self.quantiles):
            raise ValueError(
                f"the model's output_dim is {width}, not a multiple of the {len(self.quantiles)} quantiles"
            )
        hint = "; for one quantity, y[:, None]" if y.dim() == 1 else ""
        if not y.is_floating_point() or y.dim() != 2 or y.shape[1] != width:
            raise ValueError(f"y is {y.dtype} {list(y.shape)}, but must be numbers [N, {width}]{hint}")
        if not bool(y.isfinite().any()):
            raise ValueError("y has no finite number, so there is nothing to learn or to score")

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        known = y.isfinite()
        y = torch.where(known, y, output.detach())  # a loss of 0
        if self.quantiles:
            each = torch.where(
                known, pinball(output, y, self.quantiles), 0.0
            )  # whose gradient is not 0 at an error of 0
        else:
            each = F.huber_loss(output, y, reduction="none", delta=self.delta)
        return each.sum(-1) / known.sum(-1).clamp(min=1), known.any(-1)

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        if self.quantiles:
            each = pinball(output.double(), y.double(), self.quantiles)[y.isfinite()]
            return {"pinball": float(each.mean()), **_mean_loss(self, output, y)}
        error = (output.double() - y.double())[y.isfinite()]
        return {"mse": float(error.square().mean()), "mae": float(error.abs().mean()), **_mean_loss(self, output, y)}


def pinball(output: Tensor, y: Tensor, quantiles: Sequence[float]) -> Tensor:
    """The pinball losses [..., C] of outputs and targets [..., C], whose columns are quantiles, level after level.

    Over all y, the mean of max(q · (y − output), (q − 1) · (y − output)) is least where a share q of them is below the
    output: at their quantile of level q.

    Example:
        >>> import torch
        >>> from nystream.train.tasks import pinball
        >>> pinball(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0]), (0.25, 0.75)).tolist()
        [0.25, 0.75]
    """
    levels = torch.tensor(quantiles, dtype=output.dtype, device=output.device).repeat(
        output.shape[-1] // len(quantiles)
    )
    error = y - output
    return torch.maximum(levels * error, (levels - 1) * error)


def _check_classes(y: Tensor, width: int) -> None:
    if y.is_floating_point() or y.dim() != 1:
        raise ValueError(f"y is {y.dtype} {list(y.shape)}, but must be classes [N]: integers below {width}")
    if int(y.max()) >= width:
        raise ValueError(f"y has class {int(y.max())}, but the model's output_dim is {width}: classes from 0")
    if not bool((y >= 0).any()):
        raise ValueError("y has no known class (all are below 0), so there is nothing to learn or to score")


def _cross_entropy(output: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy [...] of logits [..., C] and classes [...]; those below 0 must be masked by the caller."""
    log = output.log_softmax(-1)
    picked = log.gather(-1, y.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * picked + smoothing * log.mean(-1))


def _mean_loss(task: Task, output: Tensor, y: Tensor) -> dict[str, float]:
    each, counts = task.loss(output.float(), y)
    return {"loss": float(each[counts].mean())}

"""What a model is trained for: the loss of one output, and the scores that tell how good many of them are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from nystream.train import metrics


class Task(Protocol):
    """Losses and scores. The first score is the one by which models are selected."""

    @property
    def name(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    @property
    def scaled(self) -> bool:
        """Whether outputs and targets are numbers in the user's units, to be compared in the model's."""
        ...

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of every output, and whether it counts: [...] each, for outputs [..., output_dim]."""
        ...

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        """Of outputs [N, output_dim] and targets [N, ...], on the CPU."""
        ...


@dataclass(frozen=True)
class Classification:
    """One class for every window: y [N], whole numbers. Selected by accuracy."""

    label_smoothing: float = 0.0
    name: str = "classification"
    higher_is_better: bool = True
    scaled: bool = False

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return _cross_entropy(output, y, self.label_smoothing), y >= 0

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        return {"accuracy": metrics.accuracy(output, y), **_mean_loss(self, output, y)}


@dataclass(frozen=True)
class Detection:
    """Classes of every token of a stream. Selected by the mean average precision, the background left out.

    y is [N], one class a token, −1 where it is not known; or [N, C] of zeros and ones, several at once, NaN where it is
    not known. "softmax" shares one among all classes; "sigmoid" judges each by itself.
    """

    kind: Literal["softmax", "sigmoid"] = "softmax"
    background: int | None = 0
    name: str = "detection"
    higher_is_better: bool = True
    scaled: bool = False

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        known, hot = metrics.known(y), metrics.one_hot(y, output.shape[-1]).to(output.dtype)
        if self.kind == "sigmoid":
            each = F.binary_cross_entropy_with_logits(output, hot, reduction="none").sum(-1)
        else:
            shared = hot / hot.sum(-1, keepdim=True).clamp(min=1)
            each = -(shared * output.log_softmax(-1)).sum(-1)
        return each, known

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        known, hot = metrics.known(y), metrics.one_hot(y, output.shape[-1])
        score = output.float().softmax(-1) if self.kind == "softmax" else output.float().sigmoid()
        classes = [c for c in range(output.shape[-1]) if c != self.background]
        found = metrics.mean_average_precision(score[known][:, classes], hot[known][:, classes])
        return {"map": found, **_mean_loss(self, output, y)}


@dataclass(frozen=True)
class Forecasting:
    """Numbers: y [N, output_dim], NaN where there is none. Huber loss, selected by the squared error.

    Both are in the model's units: where `output_scaler` was fitted to the training targets, an `mse` of 1 is what their
    mean would give.
    """

    delta: float = 1.0
    name: str = "forecasting"
    higher_is_better: bool = False
    scaled: bool = True

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        known = y.isfinite().all(-1)
        y = torch.where(y.isfinite(), y, output.detach())
        return F.huber_loss(output, y, reduction="none", delta=self.delta).mean(-1), known

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        known = y.isfinite().all(-1)
        error = (output.double() - y.double())[known]
        return {"mse": float(error.square().mean()), "mae": float(error.abs().mean()), **_mean_loss(self, output, y)}


def _cross_entropy(output: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """[...] for logits [..., C] and classes [...]; what is below 0 costs nothing."""
    log = output.log_softmax(-1)
    picked = log.gather(-1, y.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * picked + smoothing * log.mean(-1))


def _mean_loss(task: Task, output: Tensor, y: Tensor) -> dict[str, float]:
    each, counts = task.loss(output.float(), y)
    return {"loss": float(each[counts].mean())}

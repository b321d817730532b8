"""Distillation: a low-rank model also learns from the outputs of a full one, at the same cost per update.

The teacher streams over the training data once, and its outputs are stored with the targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor

from nystream.config.checks import number, positive_int
from nystream.ops.precision import accumulator
from nystream.train import checks, metrics
from nystream.train.data import StreamData, WindowData
from nystream.train.predict import predict
from nystream.train.tasks import Classification, Detection, Forecasting
from nystream.train.trainable import Trainable

D = TypeVar("D", bound=WindowData | StreamData)


def distilled(data: D, teacher: Trainable, batch_size: int = 64, skip: int = 0) -> D:
    """The data with targets [N, 2, C]: their own targets, and the streaming outputs of the teacher.

    Classes [N] become zeros and ones, NaN if unknown; floats [N, C] stay as they are. The teacher's outputs are NaN for
    the first `skip` tokens of a stream (use the `FitResult.skip` of its training if it was not trained on the start of
    streams), and for the last tokens if they do not fill a group of its `update_size`. Numbers are in the units of the
    targets.

    Example:
        >>> import torch, nystream as ns
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> config = ns.ModelConfig(input_dim=3, output_dim=4, attention=attention)
        >>> teacher = ns.StreamModel(config)
        >>> data = ns.train.WindowData(torch.randn(10, 6, 3), torch.randint(4, (10,)))
        >>> ns.train.distilled(data, teacher).y.shape  # own classes, teacher's outputs
        torch.Size([10, 2, 4])
    """
    if not isinstance(data, WindowData | StreamData):
        raise TypeError(f"data is a {type(data).__name__}, but must be WindowData or StreamData")
    teacher = checks.trainable("teacher", teacher)
    positive_int("batch_size", batch_size)
    width, r = teacher.config.output_dim, teacher.config.update_size
    if data.input_dim != teacher.config.input_dim:
        raise ValueError(
            f"data has {data.input_dim} columns, but the teacher's input_dim is {teacher.config.input_dim}"
        )
    if isinstance(data, WindowData) and data.x.shape[1] % r:
        raise ValueError(
            f"data has windows of {data.x.shape[1]} tokens, not a multiple of the teacher's update_size={r}"
        )
    own = _own(data.y, width)
    output, _ = predict(teacher, data, batch_size, skip)
    if not bool(output.isfinite().all()):
        raise ValueError("teacher has outputs that are not finite, so nothing can be learned from it")
    # The data's own numbers keep their dtype, so that their loss is the same as without a teacher.
    own = own if data.y.is_floating_point() else own.to(accumulator(output.dtype))
    outputs = torch.full_like(own, torch.nan)
    if isinstance(data, StreamData):
        outputs[checks.scored_tokens(data, r, skip).to(outputs.device)] = output.to(outputs)
    else:
        outputs[:] = output.to(outputs)
    new = data.to(data.x.device)
    new.y = torch.stack([own, outputs], 1).to(data.y.device)
    return cast(D, new)


@dataclass(frozen=True)
class Distillation:
    """A task with a teacher: the loss is (1 − share) · the task's loss + share · the distance to the teacher.

    It trains on `distilled` data. For Classification and Detection, the distance is KL(teacher ‖ student) of the
    softmaxes at the temperature, times the temperature squared; for Detection(kind="sigmoid"), the binary cross-entropy
    to the teacher's probabilities, without a temperature; for Forecasting, its Huber loss, in the model's units. A
    token with only one of the two targets learns from that one, with its share; some tokens must have a target of their
    own.

    Scores are those of the inner task on the data's own targets; validation data may be plain or distilled.

    Example:
        >>> import torch, nystream as ns
        >>> from nystream.train import Classification, Distillation, TrainConfig, distilled, fit
        >>> data = ns.train.WindowData(torch.randn(32, 6, 3), torch.randint(4, (32,)))
        >>> def model(variant):
        ...     cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=6, landmarks=2)
        ...     return ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=4, attention=cfg))
        >>> teacher, student = model("co-full-single"), model("co-cont-single")
        >>> task, config = Distillation(Classification(), share=0.5), TrainConfig(epochs=1)
        >>> result = fit(student, distilled(data, teacher), config=config, task=task)
        >>> list(ns.train.evaluate(student, data, task))  # on the data's own classes
        ['accuracy', 'loss']
    """

    task: Classification | Detection | Forecasting
    share: float = 0.5
    temperature: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.task, Classification | Detection | Forecasting):
            raise TypeError(f"task is {self.task!r}, but must be Classification(), Detection() or Forecasting()")
        number("share", self.share)
        number("temperature", self.temperature)
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(
                f"share={self.share!r} must be at least 0, the task alone, and at most 1, the teacher alone"
            )
        if not 0.0 < self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature!r} must be greater than 0 and finite")

    @property
    def higher_is_better(self) -> bool:
        return self.task.higher_is_better

    @property
    def scaled(self) -> bool:
        return self.task.scaled

    def check(self, y: Tensor, width: int) -> None:
        if y.dim() != 3:
            self.task.check(y, width)
            return
        if y.shape[1] != 2 or not y.is_floating_point():
            raise ValueError(f"y is {y.dtype} {list(y.shape)}, but must be as returned by distilled(): [N, 2, {width}]")
        if y.shape[2] != width:
            raise ValueError(f"y has the {y.shape[2]} outputs of a teacher, but the model's output_dim is {width}")
        own, taught = y.unbind(1)
        plain = self._plain(y)
        if isinstance(self.task, Classification) and not torch.equal(
            metrics.one_hot(plain, width), own.nan_to_num().float()
        ):
            raise ValueError("y has windows of several classes at once, but Classification needs one: classes [N]")
        self.task.check(plain, width)
        if self.share > 0 and not bool(metrics.known(taught).any()):
            raise ValueError("y has no output of the teacher; give distilled() a smaller skip=")

    def loss(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if y.dim() != output.dim() + 1:
            raise ValueError("the training data have no outputs of a teacher: train on distilled(train, teacher)")
        each, known = self.task.loss(output, self._plain(y))
        if self.share == 0:
            return each, known
        teacher = y[..., 1, :].to(output.dtype)
        taught = metrics.known(teacher)
        # Without NaN, which would reach the gradient even where the distance does not count.
        distance = self._distance(output, torch.where(taught.unsqueeze(-1), teacher, output.detach()))
        if self.share == 1:
            return distance, taught
        both = (1 - self.share) * torch.where(known, each, 0.0) + self.share * torch.where(taught, distance, 0.0)
        return both, known | taught

    def scores(self, output: Tensor, y: Tensor) -> dict[str, float]:
        return self.task.scores(output, self._plain(y) if y.dim() == 3 else y)

    def _plain(self, y: Tensor) -> Tensor:
        """The data's own targets of [..., 2, C], as the inner task takes them."""
        own = y[..., 0, :]
        return torch.where(metrics.known(own), own.argmax(-1), -1) if isinstance(self.task, Classification) else own

    def _distance(self, output: Tensor, teacher: Tensor) -> Tensor:
        """Distances [...] of outputs [..., C] to those of the teacher."""
        if isinstance(self.task, Forecasting):
            # A quantile of the teacher is a number to come close to, whatever its level.
            return Forecasting(self.task.delta).loss(output, teacher)[0]
        if isinstance(self.task, Detection) and self.task.kind == "sigmoid":
            return self.task.loss(output, teacher.sigmoid())[0]
        theirs, ours = (teacher / self.temperature).log_softmax(-1), (output / self.temperature).log_softmax(-1)
        return self.temperature**2 * (theirs.exp() * (theirs - ours)).sum(-1)


def _own(y: Tensor, width: int) -> Tensor:
    """The targets of a task as [N, C]."""
    if y.dim() == 3:
        raise ValueError(
            f"data has targets {list(y.shape)}: they already have a teacher's outputs; distil the plain data"
        )
    if y.is_floating_point():
        if y.dim() != 2 or y.shape[1] != width:
            raise ValueError(f"data has targets {list(y.shape)}, but the teacher's outputs are [N, {width}]")
        return y.cpu()
    if y.dim() != 1:
        raise ValueError(
            f"data has targets {y.dtype} {list(y.shape)}, but must have classes [N] or floats [N, {width}]"
        )
    if int(y.max()) >= width:
        raise ValueError(f"data has class {int(y.max())}, but the teacher's output_dim is {width}: classes from 0")
    return metrics.one_hot(y, width).masked_fill((y < 0).unsqueeze(-1), torch.nan).cpu()

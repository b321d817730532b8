"""The error of each block's attention beside a teacher's on the same inputs, and training that makes it small."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from nystream.config import ModelConfig
from nystream.layers.modes import evaluating
from nystream.models import StreamModel
from nystream.ops.precision import accumulate
from nystream.progress import track
from nystream.train.config import TrainConfig
from nystream.train.data import Data, TrainingBatch, WindowData, seeded
from nystream.train.optimizer import adamw, lr_factor, set_lr
from nystream.train.sampler import Sampler, order, sampler, updates
from nystream.train.single import autocast

Trained = Literal["landmarks", "attention"]

ROUNDING = 1e-12  # a variance below this fraction of the mean square counts as none


class Errors(NamedTuple):
    """The mean squared error of each block's attention relative to the variance of the teacher's outputs."""

    relative: tuple[float, ...]
    variance: Tensor  # [blocks]


class Matching:
    """A student with fixed landmarks and its teacher, models of the same blocks, which stream over the same data.

    Both are in evaluation mode, so nothing depends on the global random state.
    """

    def __init__(self, teacher: StreamModel, student: StreamModel, data: Data, config: TrainConfig, seed: int) -> None:
        self.teacher, self.student, self.config, self.seed = teacher, student, config, seed
        self.device = teacher.head.weight.device
        self.samples = samples(data.to(self.device, teacher.head.weight.dtype), teacher.config, config)
        self.updates = updates(self.samples, config)

    @torch.no_grad()
    def measure(self, tokens: int) -> Errors:
        """The errors on at least `tokens` tokens, if an epoch has as many: one that the training does not have."""
        blocks, width = len(self.teacher.encoder.blocks), self.teacher.config.embed_dim
        squares, sums, errors = (torch.zeros(shape, dtype=torch.float64) for shape in (blocks, (blocks, width), blocks))
        count = 0
        for batch in self._batches(self.config.epochs):
            counted = self._counted(batch)
            for block, (ours, theirs) in enumerate(self._outputs(batch)):
                squares[block] += theirs[counted].double().square().sum().cpu()
                sums[block] += theirs[counted].double().sum(0).cpu()
                errors[block] += (ours - theirs)[counted].double().square().sum().cpu()
            count += int(counted.sum())
            if count >= tokens:
                break
        variance = squares / count - (sums / count).square().sum(1)
        for block, constant in enumerate((variance <= ROUNDING * squares / count).tolist()):
            if constant:
                raise ValueError(f"the attention of block {block} gives all tokens the same output: nothing to learn")
        return Errors(tuple((errors / count / variance).tolist()), variance.to(self.device, torch.float32))

    def train(self, variance: Tensor, trained: Trained, progress: bool | None) -> None:
        """Train the student's landmarks, or its whole attentions, to give what the teacher's attentions give."""
        attentions = [block.attention for block in self.student.encoder.blocks]
        for attention in attentions:
            attention.learn_landmarks()
        parameters = [_parameters(attention, trained) for attention in attentions]
        optimizer = adamw((item for named in parameters for item in named.items()), self.config)
        total = self.config.epochs * self.updates
        with track("attention transfer", total, progress) as advance:
            for epoch in range(self.config.epochs):
                errors = torch.zeros_like(variance)
                for index, batch in enumerate(self._batches(epoch)):
                    lr = self.config.lr * lr_factor(epoch * self.updates + index, total, self.config)
                    set_lr(optimizer, lr)
                    errors += self._gradients(batch, parameters, variance)
                    optimizer.step()
                    advance(1)
                advance(0, self._note(epoch, errors))
        for attention in attentions:
            attention.learn_landmarks(False)

    def _gradients(self, batch: TrainingBatch, parameters: list[dict[str, Tensor]], variance: Tensor) -> Tensor:
        """Set the gradients of one update; return the relative errors [blocks]."""
        counted, every = self._counted(batch), [x for named in parameters for x in named.values()]
        with torch.enable_grad():
            squares = [(ours - theirs).square().sum(-1) for ours, theirs in self._outputs(batch)]
            sums = torch.stack([torch.where(counted, square, 0.0).sum() for square in squares])  # [blocks]
            errors = sums / (counted.sum().clamp(min=1) * variance)
        for x, gradient in zip(every, torch.autograd.grad(errors.sum(), every), strict=True):
            x.grad = gradient
        if self.config.clip is not None:
            for named in parameters:  # each block learns by itself
                nn.utils.clip_grad_norm_(list(named.values()), self.config.clip)
        return errors.detach()

    def _outputs(self, batch: TrainingBatch) -> list[tuple[Tensor, Tensor]]:
        """What each attention of the student and of the teacher gives for the teacher's activations, [B, T, E] each."""
        learning, count = torch.is_grad_enabled(), len(batch.x)
        pairs = []
        with evaluating(self.teacher), autocast(self.device, self.config):
            x = self.teacher.embed(batch.x, batch.offset)
            for full, fixed in zip(self.teacher.encoder.blocks, self.student.encoder.blocks, strict=True):
                inputs = full.attended(x)
                theirs = full.attention.outputs(inputs, full.attention.init_state(count), lengths=batch.lengths)
                with torch.set_grad_enabled(learning):
                    ours = fixed.attention.outputs(inputs, fixed.attention.init_state(count), lengths=batch.lengths)
                    pairs.append((accumulate(ours), accumulate(theirs)))
                x = full.finish(x, theirs)
        return pairs

    def _counted(self, batch: TrainingBatch) -> Tensor:
        """[B, T]: the tokens whose error counts."""
        place = torch.arange(batch.x.shape[1], device=self.device)
        return (place >= batch.unscored[:, None]) & (place < batch.lengths[:, None])

    def _batches(self, epoch: int) -> Iterator[TrainingBatch]:
        for index, chosen in enumerate(order(self.samples, self.config, self.seed, epoch)):
            yield self.samples.take(chosen, seeded(self.seed, 1, epoch, index))

    def _note(self, epoch: int, errors: Tensor) -> str:
        """The mean errors of an epoch, for the progress bar; raise if they are not finite."""
        mean = errors / self.updates
        if not bool(mean.isfinite().all()):
            raise FloatingPointError(
                f"the error of a block is not finite in epoch {epoch + 1} of the transfer: lower lr, or set clip"
            )
        return f"epoch {epoch + 1}, error {', '.join(f'{error:.3f}' for error in mean.tolist())}"


def samples(data: Data, model: ModelConfig, config: TrainConfig) -> Sampler:
    """Whole windows, or pieces of streams: attentions are compared at every token."""
    short = 0.0 if isinstance(data, WindowData) else config.short  # the start of a window counts anyway
    return sampler(data, model, dataclasses.replace(config, through="steps", short=short))


def _parameters(attention: nn.Module, trained: Trained) -> dict[str, Tensor]:
    """What is trained in one attention: its landmarks, and with "attention" what else is not frozen."""
    return {
        name: x
        for name, x in attention.named_parameters()
        if name in ("q_tilde", "k_tilde") or (trained == "attention" and x.requires_grad)
    }

"""The loss of a batch as a module, for DistributedDataParallel and `torch.func`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nystream.models import StreamModel
from nystream.ops.precision import accumulate
from nystream.train.sampler import Sampler, Windows
from nystream.train.tasks import Task


class Objective(nn.Module):
    """The sum of the losses of a batch, and their number."""

    def __init__(self, model: StreamModel, task: Task, sampler: Sampler) -> None:
        super().__init__()
        self.model, self.task, self.sampler = model, task, sampler

    def forward(self, x: Tensor, y: Tensor, offset: Tensor, lengths: Tensor, unscored: Tensor) -> tuple[Tensor, Tensor]:
        sampler, model = self.sampler, self.model
        if sampler.streams:
            output = model.outputs(x, model.init_state(x.shape[0]), lengths=lengths, offset=offset)
            place = torch.arange(x.shape[1], device=x.device)
            counted = (place >= unscored[:, None]) & (place < lengths[:, None])
        else:
            output = model(x, offset, lengths=lengths if sampler.ragged else None)
            if isinstance(sampler, Windows) and output.dim() == 3:
                output = output[:, -1]  # one target for the whole window, also if several tokens arrive together
            counted = torch.ones(output.shape[:-1], dtype=torch.bool, device=x.device)
        output = accumulate(output)
        if self.task.scaled:
            output, y = model.output_scaler(output), model.output_scaler(y)
        each, known = self.task.loss(output, y)
        used = counted & known
        return torch.where(used, each, 0.0).sum(), used.sum()

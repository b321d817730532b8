"""The engine for one model, in one process or several."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nystream.models import StreamModel
from nystream.train import average
from nystream.train.config import TrainConfig
from nystream.train.data import Data, seeded
from nystream.train.distributed import World
from nystream.train.objective import Objective
from nystream.train.optimizer import adamw, load_optimizer, optimizer_tensors, set_lr
from nystream.train.predict import predict, scored
from nystream.train.sampler import order, sampler, updates, warm_up
from nystream.train.tasks import Task

MAX_LEFT_OUT = 5  # updates in succession whose gradient is not finite


class Single:
    """The engine that trains one model."""

    members = 1

    def __init__(
        self, model: StreamModel, train: Data, valid: Data | None, task: Task, config: TrainConfig, world: World
    ) -> None:
        self.model, self.task, self.config, self.world = model, task, config, world
        self.device = model.head.weight.device
        self.sampler = sampler(train.to(self.device, model.head.weight.dtype), model.config, config)
        self.shared = valid is not None and len(valid) >= world.size > 1  # else each validates on all of it
        if valid is not None and self.shared:
            valid = valid.subset(range(world.rank, len(valid), world.size))
        self.valid = valid
        self.updates = updates(self.sampler, config)
        self.objective = Objective(model, task, self.sampler)
        self.wrapped: nn.Module = DistributedDataParallel(self.objective) if world.size > 1 else self.objective
        self.names: dict[Tensor, str] = {x: name for name, x in model.named_parameters() if x.requires_grad}
        self.optimizer = adamw(((name, x) for x, name in self.names.items()), config)
        # Averages of the trained weights; none if they are not averaged.
        self.averages = {name: x.detach().clone() for x, name in self.names.items()} if config.average else {}
        self.best = self._weights()
        self._epoch, self._order = -1, list[Tensor]()
        self._left_out = 0  # updates in succession

    def step(self, epoch: int, index: int, lr: float) -> Tensor:
        """One update; return the mean loss of its batch [1]."""
        if self._epoch != epoch:
            self._epoch, self._order = epoch, order(self.sampler, self.config, self.config.seed, epoch)
        chosen, world = self._order[index], self.world
        drawn = seeded(self.config.seed, 2, epoch, index, world.rank)
        torch.manual_seed(int(torch.randint(2**62, (1,), generator=drawn)))
        # Drawn for the whole batch, so that the result does not depend on the number of processes.
        batch = self.sampler.take(chosen, seeded(self.config.seed, 1, epoch, index))
        mine = slice(world.rank, None, world.size) if world.rank < len(chosen) else slice(0, 1)
        batch = type(batch)(*(x[mine] for x in batch))
        self.model.train()
        with autocast(self.device, self.config):
            total, count = self.wrapped(*batch)
        if world.rank >= len(chosen):  # no row is left for this process: it takes one that does not count
            total, count = total * 0.0, count * 0
        loss = total / world.total(count).clamp(min=1)
        self.optimizer.zero_grad(set_to_none=True)
        (loss * world.size).backward()  # DistributedDataParallel takes the mean over processes
        largest = math.inf if self.config.clip is None else self.config.clip
        norm = nn.utils.clip_grad_norm_(self.names, largest)
        # A single gradient that overflows is left out, as it would make every weight NaN; more than that is an error.
        self._left_out = 0 if bool(norm.isfinite()) else self._left_out + 1
        if self._left_out > MAX_LEFT_OUT:
            return world.total(loss.detach() * math.nan)[None]
        set_lr(self.optimizer, lr)
        if not self._left_out:
            self.optimizer.step()
        if self.averages:
            number = epoch * self.updates + index + 1
            average.move(self.averages.values(), self.names, self.config.average, number)
        return world.total(loss.detach())[None]

    def evaluate(self) -> list[dict[str, float]] | None:
        """Streaming scores on the validation data, of the averaged weights if they are averaged."""
        if self.valid is None:
            return None
        skip = warm_up(self.model.config, self.config)
        with self._averaged():
            output, y = predict(self.model, self.valid, 2 * self.config.batch_size, skip)
        if self.shared:
            output, y = (self.world.gather(x, self.device) for x in (output, y))
        return [scored(self.model, self.task, output, y)]

    def keep(self, member: int) -> None:
        """Keep the weights that `evaluate` scores as the best."""
        with self._averaged():
            self.best = self._weights()

    def finish(self) -> None:
        """Restore the best weights."""
        self.model.load_state_dict(self.best)
        self.model.eval()

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint."""
        return {
            **{f"model.{name}": x for name, x in self._weights().items()},
            **{f"best.{name}": x for name, x in self.best.items()},
            **{f"{average.AVERAGE}{name}": x for name, x in self.averages.items()},
            **optimizer_tensors(self.optimizer, self.names),
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.model.load_state_dict(part_of(tensors, "model."))
        self.best = part_of(tensors, "best.")
        for name, x in self.averages.items():
            x.copy_(tensors[f"{average.AVERAGE}{name}"])
        load_optimizer(self.optimizer, self.names, tensors)

    def _averaged(self) -> AbstractContextManager[None]:
        """Give the model its averaged weights for a while."""
        return average.replaced(self.names, self.averages.values()) if self.averages else nullcontext()

    def _weights(self) -> dict[str, Tensor]:
        return {name: x.detach().cpu().clone() for name, x in self.model.state_dict().items()}


def part_of(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names have a prefix, without it."""
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def autocast(device: torch.device, config: TrainConfig) -> Any:
    """Autocast to bfloat16, by default on a GPU only; sums and inverses keep their precision."""
    enabled = device.type == "cuda" if config.bf16 is None else config.bf16
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)

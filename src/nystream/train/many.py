"""Many models of one config at once: their weights are stacked, and one call trains all of them.

The models differ in weights, seeds and data, but not in what they compute, so `torch.func` runs them with an extra
first dimension. On a GPU, which small models leave mostly idle, E models cost little more than one.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from nystream.models import StreamModel
from nystream.train import average, checks
from nystream.train.config import TrainConfig
from nystream.train.data import Data, WindowData, seeded
from nystream.train.distributed import World, alone_in, started
from nystream.train.loop import FitResult, Line, described, results, run
from nystream.train.objective import Objective
from nystream.train.optimizer import adamw, load_optimizer, optimizer_tensors, set_lr
from nystream.train.predict import evaluate
from nystream.train.sampler import Sampler, order, sampler, updates, warm_up
from nystream.train.single import autocast, part_of
from nystream.train.tasks import Task

MIN_VALIDATION_BATCH = 256  # windows; validation needs no gradients, so it can take more than training


class Many:
    """The engine that trains E models at once."""

    def __init__(
        self,
        models: Sequence[StreamModel],
        trains: Sequence[Data],
        valids: Sequence[Data] | None,
        task: Task,
        config: TrainConfig,
        seeds: Sequence[int],
    ) -> None:
        self.models, self.task, self.config, self.seeds = models, task, config, seeds
        self.members = len(models)
        self.device = models[0].head.weight.device
        self.samplers: list[Sampler] = []
        moved: dict[int, Data] = {}  # data that models share are moved once
        for data in trains:
            moved.setdefault(id(data), data.to(self.device, models[0].head.weight.dtype))
            self.samplers.append(sampler(moved[id(data)], models[0].config, config))
        self.valids = valids
        counts = sorted({updates(sampler, config) for sampler in self.samplers})
        examples = [len(sampler) for sampler in self.samplers]
        if len(counts) > 1 or (config.steps_per_epoch is None and len(set(examples)) > 1):
            raise ValueError(
                f"the models have {', '.join(map(str, examples))} examples per epoch, but models trained at once need "
                f"batches of one size: set steps_per_epoch={counts[0]}"
            )
        self.updates = counts[0]
        # One module that is called with the stacked weights.
        self.objective = Objective(copy.deepcopy(models[0]).train(), task, self.samplers[0])
        parameters, buffers = stack_module_state([Objective(model, task, self.samplers[0]) for model in models])
        trained = {f"model.{name}" for name, x in models[0].named_parameters() if x.requires_grad}
        self.parameters = {name: x.detach().clone().requires_grad_() for name, x in parameters.items()}
        frozen = {name: self.parameters.pop(name).detach() for name in parameters if name not in trained}
        self.buffers = {**frozen, **buffers}  # everything that is not trained
        self.names: dict[Tensor, str] = {x: name for name, x in self.parameters.items()}
        self.optimizer = adamw(self.parameters.items(), config, stacked=True)
        self.best = {name: x.detach().clone() for name, x in self.parameters.items()}
        # Averages of the weights; none if they are not averaged.
        self.averages = {name: x.clone() for name, x in self.best.items()} if config.average else {}
        self._epoch, self._orders = -1, list[list[Tensor]]()

    def step(self, epoch: int, index: int, lr: float) -> Tensor:
        """One update of every model; return the mean losses of their batches [E]."""
        if self._epoch != epoch:
            pairs = zip(self.samplers, self.seeds, strict=True)
            self._epoch, self._orders = epoch, [order(sampler, self.config, seed, epoch) for sampler, seed in pairs]
        drawn = seeded(self.seeds[0], 2, epoch, index)
        torch.manual_seed(int(torch.randint(2**62, (1,), generator=drawn)))
        batches = [
            sampler.take(chosen[index], seeded(seed, 1, epoch, index))
            for sampler, seed, chosen in zip(self.samplers, self.seeds, self._orders, strict=True)
        ]
        stacked = [torch.stack(parts) for parts in zip(*batches, strict=True)]
        # The fused attention kernels have no batching rule for vmap.
        with autocast(self.device, self.config), sdpa_kernel(SDPBackend.MATH):
            parameters = {name: x.detach() for name, x in self.parameters.items()}
            differentiated = vmap(grad_and_value(self._loss), randomness="different")
            gradient, loss = differentiated(parameters, self.buffers, *stacked)
        self._clip(gradient)
        for name, x in self.parameters.items():
            x.grad = gradient[name]
        set_lr(self.optimizer, lr)
        self.optimizer.step()
        if self.averages:
            number = epoch * self.updates + index + 1
            average.move(self.averages.values(), self.parameters.values(), self.config.average, number)
        return loss.detach()

    def evaluate(self) -> list[dict[str, float]] | None:
        """Streaming scores of every model on its validation data, with averaged weights if they are averaged."""
        if self.valids is None:
            return None
        skip, size = warm_up(self.models[0].config, self.config), 2 * self.config.batch_size
        if isinstance(self.valids[0], WindowData):
            size = max(size, MIN_VALIDATION_BATCH)
        scores = []
        for member, (model, valid) in enumerate(zip(self.models, self.valids, strict=True)):
            self._copy(model, self.averages or self.parameters, member)
            scores.append(evaluate(model, valid, self.task, size, skip))
        return scores

    def keep(self, member: int) -> None:
        """Keep the weights of one model that `evaluate` scores as its best."""
        for name, x in (self.averages or self.parameters).items():
            self.best[name][member] = x.detach()[member]

    def finish(self) -> None:
        """Give every model its best weights."""
        for member, model in enumerate(self.models):
            self._copy(model, self.best, member)
            model.eval()

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint."""
        return {
            **{f"model.{name}": x.detach() for name, x in (*self.parameters.items(), *self.buffers.items())},
            **{f"best.{name}": x for name, x in self.best.items()},
            **{f"{average.AVERAGE}{name}": x for name, x in self.averages.items()},
            **optimizer_tensors(self.optimizer, self.names),
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        weights = part_of(tensors, "model.")
        with torch.no_grad():
            for name, x in (*self.parameters.items(), *self.buffers.items()):
                x.copy_(weights[name])
        for member, model in enumerate(self.models):
            self._copy(model, self.buffers, member)
        self.best = {name: x.to(self.device) for name, x in part_of(tensors, "best.").items()}
        for name, x in self.averages.items():
            x.copy_(tensors[f"{average.AVERAGE}{name}"])
        load_optimizer(self.optimizer, self.names, tensors)

    def _loss(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], *batch: Tensor) -> Tensor:
        total, count = functional_call(self.objective, (parameters, buffers), batch)
        return total / count.clamp(min=1)

    def _clip(self, gradient: dict[str, Tensor]) -> None:
        """Clip the gradient of each model, as `clip_grad_norm_` does."""
        if self.config.clip is None:
            return
        norms = torch.stack([x.flatten(1).norm(dim=1) for x in gradient.values()]).norm(dim=0)  # [E]
        scale = (self.config.clip / (norms + 1e-6)).clamp(max=1.0)
        for x in gradient.values():
            x.mul_(scale.reshape(-1, *[1] * (x.dim() - 1)))

    @torch.no_grad()
    def _copy(self, model: StreamModel, stacked: dict[str, Tensor], member: int) -> None:
        """Copy the weights of one member to its model."""
        for name, x in (*model.named_parameters(), *model.named_buffers()):
            if f"model.{name}" in stacked:
                x.copy_(stacked[f"model.{name}"][member])


def fit_many(
    models: Sequence[StreamModel],
    train: Data | Sequence[Data],
    valid: Data | Sequence[Data] | None = None,
    config: TrainConfig | None = None,
    *,
    task: Task,
    seeds: Sequence[int] | None = None,
    folder: str | os.PathLike[str] | None = None,
    about: Line | None = None,
    tensorboard: bool = True,
    progress: bool | None = None,
) -> list[FitResult]:
    """Train E models of one config together, in place, each with the result of `fit` up to rounding and dropout.

    Unlike `fit`, it takes windows no longer than the model's for deep stacks, which learn only how a stream starts.

    Args:
        models: The models, on one device, with different initial weights.
        train: Data for all models, or a list with one for each.
        valid: Likewise.
        config: How to train all of them.
        task: `Classification`, `Detection` or `Forecasting`.
        seeds: Seeds of the order of the data and the offsets, one per model. By default, `config.seed` and the numbers
            after it.
        folder: Where checkpoints, metrics and the models (`model-0`, `model-1`, ...) are written, as in `fit`.
        about, tensorboard, progress: As in `fit`.

    Example:
        >>> import torch, nystream as ns
        >>> from nystream.train import Classification, TrainConfig, WindowData, fit_many
        >>> x = torch.randn(64, 6, 3)
        >>> data = WindowData(x, x.mean(1).argmax(-1))
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> config = ns.ModelConfig(input_dim=3, output_dim=3, attention=attention)
        >>> models = [ns.StreamModel(config) for _ in range(5)]
        >>> results = fit_many(models, data, data, TrainConfig(epochs=2), task=Classification())
        >>> len(results)
        5
    """
    config = config or TrainConfig()
    models = _models(models, config)
    count = len(models)
    seeds = member_seeds(config, count, seeds)
    trains = each_model("train", train, count)
    valids = None if valid is None else each_model("valid", valid, count)
    checks.config(config, valids[0] if valids else None)
    skip = warm_up(models[0].config, config)
    for name, sets in (("train", trains), ("valid", valids or [])):
        for data in {id(data): data for data in sets}.values():
            checks.data(name, data, task, models[0].config, skip)
    with alone_in(folder):
        engine = Many(models, trains, valids, task, config, seeds)
        identity = described(models, config, task, [*trains, *(valids or [])], folder)
        identity |= {"seeds": seeds, "about": about}
        done = run(engine, config, task, identity, folder, tensorboard, progress, World())
        if folder is not None:
            for member, model in enumerate(models):
                model.save_pretrained(Path(folder) / f"model-{member}")
    return results(done, skip)


def member_seeds(config: TrainConfig, count: int, seeds: Sequence[int] | None) -> list[int]:
    """One seed per model."""
    if seeds is None:
        return list(range(config.seed, config.seed + count))
    if len(seeds) != count:
        raise ValueError(f"seeds has {len(seeds)} numbers for {count} models; give one for each")
    for seed in seeds:
        if not hasattr(seed, "__index__") or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seeds has {seed!r}, but every seed must be an integer of at least 0")
    return [int(seed) for seed in seeds]


def _models(models: Sequence[StreamModel], config: TrainConfig) -> list[StreamModel]:
    """The models as a list; raise if they cannot be trained together."""
    if isinstance(models, StreamModel):
        raise TypeError("models is one StreamModel, but must be a list of them; fit() trains one")
    models = list(models)
    if not models:
        raise ValueError("models is empty; fit_many needs at least one")
    trained = [{name for name, x in model.named_parameters() if x.requires_grad} for model in models]
    for i, model in enumerate(models):
        checks.model(f"models[{i}]", model)
        if model.config != models[0].config:
            raise ValueError(f"models[{i}] has another config than models[0]; models trained at once share one")
        if trained[i] != trained[0]:
            different = sorted(trained[i] ^ trained[0])
            raise ValueError(f"models[{i}] trains other parameters than models[0]: {', '.join(different)}")
    if len({id(model) for model in models}) < len(models):
        raise ValueError("models has one model twice; each needs its own weights")
    if config.schedule == "plateau":
        raise ValueError("schedule='plateau' decides for each model by itself; models trained at once need 'cosine'")
    if started() > 1:
        raise RuntimeError("fit_many trains in one process; start it without torchrun, or train one model with fit()")
    return models


def each_model(name: str, data: Data | Sequence[Data], count: int) -> list[Data]:
    """The data of each model."""
    if isinstance(data, Sequence):
        if len(data) != count:
            raise ValueError(f"{name} has {len(data)} data sets for {count} models; give one, or one for each")
        return list(data)
    return [data] * count

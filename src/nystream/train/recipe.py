"""The recipe for fixed landmarks: a list of phases, how epochs are divided among them, and how they are run.

Phase one trains the model end to end with continual landmarks, which are means over its window, or with full attention,
which needs none and is faster to train. Phase two goes through
the blocks from first to last: the queries and keys that the trained model gives to a block are clustered, the centres
become its landmarks, and the model is fine-tuned end to end. Landmarks that are fixed stay fixed.

A fine-tuning takes half the epochs of phase one, with a third of its learning rate. So E epochs in total become, for L
blocks, L fine-tunings of E / (L + 2) epochs, rounded down, and the rest for phase one.

With `at_once`, phase two fixes the landmarks of all blocks, those of each block clustered on what the blocks before it
give with theirs, and there is a single fine-tuning. It is the longer part of the training: E / 4 epochs, rounded down,
are phase one, and the rest is the fine-tuning, with the same learning rate.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torch import Tensor

from nystream.config.attention import Pinv
from nystream.config.checks import one_of, positive_int
from nystream.landmarks.fit import fit_landmarks_together
from nystream.models import StreamModel
from nystream.train import checks
from nystream.train.config import TrainConfig
from nystream.train.data import Data
from nystream.train.distributed import rank
from nystream.train.loop import Line, fit
from nystream.train.many import each_model, fit_many, member_seeds
from nystream.train.sampler import sampler, warm_up
from nystream.train.tasks import Task

OneOrMany = StreamModel | Sequence[StreamModel]

TUNING_LR = 1 / 3  # of the learning rate of phase one


class Phase(NamedTuple):
    """One call of `fit`."""

    folder: str  # its name, within that of the run
    config: TrainConfig
    fix: tuple[int, ...] = ()  # blocks whose landmarks are fitted and fixed before the training, in this order


def phase_one(config: TrainConfig) -> Phase:
    """End-to-end training; the only phase of a model without fixed landmarks."""
    return Phase("phase-1", config)


def phase_two(config: TrainConfig, blocks: int, at_once: bool = False) -> list[Phase]:
    """A fine-tuning for each block, after its landmarks have been fixed; with `at_once`, one for all blocks."""
    if at_once:
        return [Phase("phase-2", config, tuple(range(blocks)))]
    return [Phase(f"phase-2-block-{block}", config, (block,)) for block in range(blocks)]


def tuning(config: TrainConfig) -> TrainConfig:
    """The config of a fine-tuning after a phase one with `config`."""
    return dataclasses.replace(config, epochs=max(1, config.epochs // 2), lr=config.lr * TUNING_LR)


def divide(config: TrainConfig, blocks: int, shorten: bool = False, at_once: bool = False) -> list[Phase]:
    """All phases for fixed landmarks in `blocks` blocks, with the epochs of `config` in total.

    Fewer than blocks + 2 epochs are an error, or fewer than 2 with `at_once`. With `shorten`, every fine-tuning then
    has one epoch, and if there are fewer epochs than phases, every phase has one epoch of fewer updates.
    """
    epochs, steps = config.epochs, config.steps_per_epoch
    tunings, least = (1, 2) if at_once else (blocks, blocks + 2)
    if epochs < least and not shorten:
        raise ValueError(f"epochs={epochs} is too few for fixed landmarks: at least {least}")
    if epochs > tunings:
        each = epochs - max(1, epochs // 4) if at_once else max(1, epochs // (blocks + 2))
        first = dataclasses.replace(config, epochs=epochs - tunings * each)
    else:
        assert steps is not None
        each = 1
        first = dataclasses.replace(config, epochs=1, steps_per_epoch=max(1, epochs * steps // (tunings + 1)))
    tuned = dataclasses.replace(first if at_once else tuning(first), epochs=each)
    return [phase_one(first), *phase_two(tuned, blocks, at_once)]


class LandmarkFit(NamedTuple):
    """How the landmarks of a block are fitted: see `fix_landmarks`."""

    tokens: int = 50_000
    method: Literal["qk", "x"] = "qk"
    learn_landmarks: bool = False
    pinv: Pinv | None = None
    pinv_ridge: float | None = None
    landmarks: int | None = None  # m, for models that have none in phase one; by default, as many as they have


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the phases have in common; the fields are the arguments of `train_two_phase`."""

    train: Data | Sequence[Data]
    valid: Data | Sequence[Data] | None
    task: Task
    landmark_fit: LandmarkFit
    at_once: bool = False
    seeds: Sequence[int] | None = None
    folder: str | os.PathLike[str] | None = None
    tensorboard: bool = True
    progress: bool | None = None

    @property
    def about(self) -> Line:
        """Options that must be the same for a phase to be resumed; the model's config has the others."""
        fit = self.landmark_fit
        about: Line = {"tokens": fit.tokens, "method": fit.method, "learn_landmarks": fit.learn_landmarks}
        later = {"at_once": self.at_once, "landmarks": fit.landmarks}  # absent by default: older runs do not have them
        return about | {name: value for name, value in later.items() if value}

    def check(self, models: Sequence[StreamModel], *configs: TrainConfig) -> None:
        """Raise the errors of all phases, each trained by one of the configs, before the first one starts."""
        fit = self.landmark_fit
        tokens = fit.tokens
        one_of("method", fit.method, ("qk", "x"))
        positive_int("tokens", tokens)
        if fit.landmarks is not None:
            positive_int("landmarks", fit.landmarks)
        if not models:
            raise ValueError("model is an empty list; give at least one model")
        for i, model in enumerate(models):
            checks.model("model" if len(models) == 1 else f"model[{i}]", model)
            for cfg in model.config.blocks:
                if cfg.fixed or cfg.record.fixed_form is None:
                    raise ValueError(
                        f"the model has a block of variant {cfg.variant!r}, but phase one trains continual landmarks "
                        f"or full attention: build it with co-cont-single or co-full-single, or nystrom or full"
                    )
                m = fit.landmarks or cfg.landmarks
                if m is None:
                    raise ValueError(
                        f"landmarks=None, but {cfg.variant!r} has no landmarks whose number could be kept: give it"
                    )
                if m > min(tokens, cfg.window):
                    least = f"tokens={tokens}" if tokens < m else f"window={cfg.window}"
                    raise ValueError(f"{least} is less than the m={m} landmarks of a block")
                if (fit.pinv or cfg.pinv) == "none" and fit.method == "qk":
                    raise ValueError("method='qk' gives no pairs of landmarks, which pinv='none' needs: use method='x'")
        shape = models[0].config
        trains = {id(data): data for data in each_model("train", self.train, len(models))}.values()
        for config in configs:
            checks.config(config, self.valid)
            for data in trains:
                checks.data("train", data, self.task, shape, warm_up(shape, config))
                checks.longer_than_warm_up("train", data, shape)
                sampler(data, shape, config)

    def run(self, model: OneOrMany, phases: Sequence[Phase], about: Line | None = None) -> Any:
        """Train a model, or several together, in one phase after another; a phase in the folder is resumed.

        A phase that fixes landmarks makes new models; the others train in place. `about` is that of phase one.
        """
        many = not isinstance(model, StreamModel)
        models: list[StreamModel] = list(model) if many else [model]  # type: ignore[arg-type, list-item]
        trains = each_model("train", self.train, len(models))
        progress = self.progress if rank() == 0 else False
        for phase in phases:
            seeds = member_seeds(phase.config, len(models), self.seeds)
            for block in phase.fix:
                batches = [data.batches(phase.config.batch_size, models[0].config.update_size) for data in trains]
                models = with_fixed_landmarks(models, block, batches, self.landmark_fit, seeds, progress=progress)
            options: dict[str, Any] = {
                "task": self.task,
                "folder": None if self.folder is None else Path(self.folder) / phase.folder,
                "about": self.about if phase.fix else about,
                "tensorboard": self.tensorboard,
                "progress": self.progress,
            }
            _learn_landmarks(models, self.landmark_fit.learn_landmarks)
            if many:
                fit_many(models, self.train, self.valid, phase.config, seeds=seeds, **options)
            else:
                fit(models[0], self.train, self.valid, phase.config, **options)  # type: ignore[arg-type]
            _learn_landmarks(models, False)
        return models if many else models[0]


def with_fixed_landmarks(
    models: Sequence[StreamModel],
    block: int,
    batches: Sequence[Iterable[Tensor]],
    landmark_fit: LandmarkFit,
    seeds: Sequence[int],
    *,
    progress: bool | None = None,
) -> list[StreamModel]:
    """Copies of models with fixed landmarks in one block, each fitted to its own batches."""
    tokens, method, _, pinv, pinv_ridge, landmarks = landmark_fit
    new = []
    for model in models:
        given = model.config.attention
        record = (given[block] if isinstance(given, tuple) else given).record
        if record.fixed_form is None:
            raise ValueError(f"block {block} is of variant {record.name!r}, which has no form with fixed landmarks")
        if landmarks is not None:  # first: full attention has no m, and fixed landmarks need one
            model = model.convert(landmarks=landmarks, layer=block)
        new.append(model.convert(variant=record.fixed_form, pinv=pinv, pinv_ridge=pinv_ridge, layer=block))
    fit_landmarks_together(new, batches, tokens, block, seeds, method=method, progress=progress)
    return new


def _learn_landmarks(models: Sequence[StreamModel], learn: bool) -> None:
    """Make fixed landmarks parameters, or buffers."""
    for model in models:
        for block in model.encoder.blocks:
            if block.attention.config.fixed:
                block.attention.learn_landmarks(learn)

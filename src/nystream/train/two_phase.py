"""Training of fixed landmarks, as a whole or phase two alone; `recipe` describes the phases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from nystream.config.attention import Pinv
from nystream.models import StreamModel
from nystream.progress import naming
from nystream.train import checks
from nystream.train.config import TrainConfig
from nystream.train.data import Data
from nystream.train.distributed import alone_in
from nystream.train.many import member_seeds
from nystream.train.recipe import LandmarkFit, OneOrMany, Training, phase_one, phase_two, tuning
from nystream.train.tasks import Task


def train_two_phase(
    model: OneOrMany,
    train: Data | Sequence[Data],
    valid: Data | Sequence[Data] | None = None,
    *,
    task: Task,
    config: TrainConfig | None = None,
    fine_tune: TrainConfig | None = None,
    seeds: Sequence[int] | None = None,
    landmarks: int | None = None,
    tokens: int = 50_000,
    method: Literal["qk", "x"] = "qk",
    learn_landmarks: bool = False,
    at_once: bool = False,
    folder: str | os.PathLike[str] | None = None,
    tensorboard: bool = True,
    progress: bool | None = None,
) -> Any:
    """Train a model, then give it fixed landmarks and fine-tune it; return the new model, or models.

    Args:
        model: A model with continual landmarks (co-cont, nystrom) or full attention (co-full, full); it is left with
            the weights of phase one. A list is trained together.
        train, valid: Data, as for `fit`, or as for `fit_many` if there are several models.
        task: What the model is trained for.
        config: How to train in phase one.
        fine_tune: How to fine-tune in phase two. By default, `config` with half the epochs and a third of the learning
            rate, or `config` itself with `at_once`.
        seeds: For several models, as in `fit_many`.
        landmarks: Number of landmarks m of every block. By default, that of the model's configs.
        tokens: Number of training tokens that are sampled and clustered.
        method: How landmarks are fitted, see `fit_landmarks`.
        learn_landmarks: Train the landmarks too, starting from the cluster centres; an extension of the paper.
        at_once: Fix the landmarks of all blocks, then fine-tune once, instead of fine-tuning after each block.
        folder: Where the runs are written, one folder per phase. A run in it is resumed.
        tensorboard, progress: As in `fit`.

    Example:
        >>> import torch, nystream as ns
        >>> x = torch.randn(200, 2)
        >>> data = ns.train.StreamData([x[1:]], [x[:-1].sum(1, keepdim=True)])
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=2, output_dim=1, attention=attention))
        >>> fixed = ns.train_two_phase(
        ...     model, data, task=ns.train.Forecasting(), config=ns.train.TrainConfig(epochs=2)
        ... )
        >>> model.config.attention.variant, fixed.config.attention.variant
        ('co-cont-single', 'co-fixed-single')
    """
    config = config or TrainConfig()
    checks.config(config, valid)
    models = [model] if isinstance(model, StreamModel) else list(model)
    training = Training(
        train=train,
        valid=valid,
        task=task,
        landmark_fit=LandmarkFit(tokens, method, learn_landmarks, landmarks=landmarks),
        at_once=at_once,
        seeds=_seeds(model, config, seeds),
        folder=folder,
        tensorboard=tensorboard,
        progress=progress,
    )
    fine_tune = fine_tune or (config if at_once else tuning(config))
    training.check(models, config, fine_tune)
    with alone_in(folder):
        with naming("phase 1"):
            training.run(model, [phase_one(config)], about=training.about)
        with naming("phase 2"):
            return training.run(model, phase_two(fine_tune, len(models[0].config.blocks), at_once))


def fix_landmarks(
    model: OneOrMany,
    train: Data | Sequence[Data],
    valid: Data | Sequence[Data] | None = None,
    *,
    task: Task,
    config: TrainConfig | None = None,
    seeds: Sequence[int] | None = None,
    landmarks: int | None = None,
    tokens: int = 50_000,
    method: Literal["qk", "x"] = "qk",
    learn_landmarks: bool = False,
    at_once: bool = False,
    pinv: Pinv | None = None,
    pinv_ridge: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    tensorboard: bool = True,
    progress: bool | None = None,
) -> Any:
    """Phase two alone: fix the landmarks of a trained model and fine-tune it; return the new model, or models.

    Args:
        model: A trained model, as in `train_two_phase`, or several of one config; it is not changed.
        config: How to fine-tune.
        pinv, pinv_ridge: The inverse of Γ in blocks with fixed landmarks. By default, that of the trained model.

    The other arguments are as in `train_two_phase`.

    Example:
        >>> import torch, nystream as ns
        >>> x = torch.randn(200, 2)
        >>> data = ns.train.StreamData([x[1:]], [x[:-1].sum(1, keepdim=True)])
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=2, output_dim=1, attention=attention))
        >>> short = ns.train.TrainConfig(epochs=1)
        >>> fixed = ns.train.fix_landmarks(
        ...     model, data, task=ns.train.Forecasting(), config=short, pinv="ridge"
        ... )
        >>> fixed.config.attention.variant, fixed.config.attention.pinv
        ('co-fixed-single', 'ridge')
    """
    config = config or TrainConfig()
    models = [model] if isinstance(model, StreamModel) else list(model)
    training = Training(
        train=train,
        valid=valid,
        task=task,
        landmark_fit=LandmarkFit(tokens, method, learn_landmarks, pinv, pinv_ridge, landmarks),
        at_once=at_once,
        seeds=_seeds(model, config, seeds),
        folder=folder,
        tensorboard=tensorboard,
        progress=progress,
    )
    training.check(models, config)
    with alone_in(folder):
        return training.run(model, phase_two(config, len(models[0].config.blocks), at_once))


def _seeds(model: OneOrMany, config: TrainConfig, seeds: Sequence[int] | None) -> list[int] | None:
    """The seeds of several models; one model has that of its config."""
    if not isinstance(model, StreamModel):
        return member_seeds(config, len(model), seeds)
    if seeds is not None:
        raise ValueError("seeds= is for several models; one model has the seed of its config")
    return None

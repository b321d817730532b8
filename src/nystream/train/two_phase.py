"""Fixed landmarks by the two phases of the paper.

Phase one trains the model end to end with landmarks that are means over its window. Phase two goes through the blocks
from the first to the last: the queries and keys that the trained model gives to a block are clustered, the centres
become its landmarks, and the model is fine-tuned end to end; landmarks that were found stay.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from nystream.config.attention import Pinv
from nystream.config.checks import one_of, positive_int
from nystream.landmarks import fit_landmarks
from nystream.models import StreamModel
from nystream.progress import naming
from nystream.train import checks
from nystream.train.config import TrainConfig
from nystream.train.data import Data
from nystream.train.distributed import alone_in, rank
from nystream.train.loop import fit
from nystream.train.many import fit_many, member_seeds
from nystream.train.sampler import sampler, warm_up
from nystream.train.tasks import Task

OneOrMany = StreamModel | Sequence[StreamModel]


def train_two_phase(
    model: OneOrMany,
    train: Data | Sequence[Data],
    valid: Data | Sequence[Data] | None = None,
    *,
    task: Task,
    config: TrainConfig | None = None,
    fine_tune: TrainConfig | None = None,
    seeds: Sequence[int] | None = None,
    tokens: int = 50_000,
    method: Literal["qk", "x"] = "qk",
    learn_landmarks: bool = False,
    folder: str | os.PathLike[str] | None = None,
    tensorboard: bool = True,
    progress: bool | None = None,
) -> Any:
    """Train a model with continual landmarks, then make them fixed; the new model, or models.

    Args:
        model: a co-cont or nystrom model; it is left with the weights of phase one. Several are trained at once.
        train, valid: data, as for `fit`, or `fit_many` where there are several models.
        task: what the model is for.
        config: phase one.
        fine_tune: each fine-tuning of phase two; as `config`, with half the epochs and a third of the learning rate,
            unless told.
        seeds: for several models, as in `fit_many`.
        tokens: size of the sample that is clustered, of the training data only.
        method: how landmarks are found, see `fit_landmarks`.
        learn_landmarks: train the landmarks too, from the cluster centres on. It goes past the paper.
        folder: where the runs go, one folder a phase; a run that is there is resumed.
        tensorboard, progress: as in `fit`.

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
    tuning = fine_tune or dataclasses.replace(config, epochs=max(1, config.epochs // 2), lr=config.lr / 3)
    many = not isinstance(model, StreamModel)
    models: list[StreamModel] = list(model) if many else [model]  # type: ignore[arg-type, list-item]
    _check(models, tokens, method, None)
    chosen = _seeds(models, config, seeds, many)
    given = list(train) if isinstance(train, Sequence) else [train] * len(models)
    _check_runs(models[0], given, valid, task, (config, tuning))
    about = {"tokens": tokens, "method": method, "learn_landmarks": learn_landmarks}
    options: dict[str, Any] = {"task": task, "tensorboard": tensorboard, "progress": progress}
    where = None if folder is None else Path(folder) / "phase-1"
    with alone_in(folder), naming("phase 1"):
        if many:
            fit_many(models, train, valid, config, seeds=chosen, folder=where, about=about, **options)
        else:
            fit(models[0], train, valid, config, folder=where, about=about, **options)  # type: ignore[arg-type]
    with naming("phase 2"):
        return fix_landmarks(
            models if many else models[0],
            train,
            valid,
            config=tuning,
            seeds=chosen if many else None,
            tokens=tokens,
            method=method,
            learn_landmarks=learn_landmarks,
            folder=folder,
            **options,
        )


def fix_landmarks(
    model: OneOrMany,
    train: Data | Sequence[Data],
    valid: Data | Sequence[Data] | None = None,
    *,
    task: Task,
    config: TrainConfig | None = None,
    seeds: Sequence[int] | None = None,
    tokens: int = 50_000,
    method: Literal["qk", "x"] = "qk",
    learn_landmarks: bool = False,
    pinv: Pinv | None = None,
    pinv_ridge: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    tensorboard: bool = True,
    progress: bool | None = None,
) -> Any:
    """Phase two alone: make the landmarks of a trained model fixed, block after block; the new model, or models.

    Args:
        model: a trained co-cont or nystrom model, or several of one config; left as it is.
        config: each fine-tuning.
        pinv, pinv_ridge: another inverse of Γ than the trained model's, for the blocks whose landmarks are fixed.

    Everything else is as in `train_two_phase`.

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
    many = not isinstance(model, StreamModel)
    models: list[StreamModel] = list(model) if many else [model]  # type: ignore[arg-type, list-item]
    _check(models, tokens, method, pinv)
    chosen = _seeds(models, config, seeds, many)
    given = list(train) if isinstance(train, Sequence) else [train] * len(models)
    _check_runs(models[0], given, valid, task, (config,))
    about = {"tokens": tokens, "method": method, "learn_landmarks": learn_landmarks}
    options: dict[str, Any] = {"task": task, "about": about, "tensorboard": tensorboard, "progress": progress}
    r = models[0].config.update_size
    with alone_in(folder):
        for layer in range(len(models[0].config.blocks)):
            models = [_fixed(one, layer, pinv, pinv_ridge) for one in models]
            for one, data, seed in zip(models, given, chosen, strict=True):
                batches = data.batches(config.batch_size, r)
                shown = progress if rank() == 0 else False
                fit_landmarks(one, batches, tokens, layer, seed, method=method, progress=shown)
            _learn(models, layer + 1 if learn_landmarks else 0)
            where = None if folder is None else Path(folder) / f"phase-2-block-{layer}"
            if many:
                fit_many(models, train, valid, config, seeds=chosen, folder=where, **options)
            else:
                fit(models[0], train, valid, config, folder=where, **options)  # type: ignore[arg-type]
            _learn(models, 0)
    return models if many else models[0]


def _seeds(models: list[StreamModel], config: TrainConfig, seeds: Sequence[int] | None, many: bool) -> list[int]:
    if seeds is not None and not many:
        raise ValueError("seeds= is for several models; one model has the seed of its config")
    return member_seeds(config, len(models), seeds)


def _check(models: list[StreamModel], tokens: int, method: str, pinv: Pinv | None) -> None:
    """Refuse now what the second phase would refuse after the first."""
    one_of("method", method, ("qk", "x"))
    positive_int("tokens", tokens)
    for i, one in enumerate(models):
        checks.model("model" if len(models) == 1 else f"model[{i}]", one)
        for cfg in one.config.blocks:
            if not cfg.record.means or cfg.record.fixed_form is None:
                raise ValueError(
                    f"the model has a block of variant {cfg.variant!r}, but phase one trains continual landmarks: "
                    f"build it with co-cont-single, or nystrom for a plain model"
                )
            if cfg.m > tokens:
                raise ValueError(f"tokens={tokens} is less than the m={cfg.m} landmarks of a block")
            if (pinv or cfg.pinv) == "none" and method == "qk":
                raise ValueError("method='qk' gives no pairs of landmarks, which pinv='none' needs: use method='x'")


def _check_runs(
    model: StreamModel, trains: list[Data], valid: Any, task: Task, configs: tuple[TrainConfig, ...]
) -> None:
    """Both phases can be trained on what is given."""
    for how in configs:
        checks.config(how, valid)
        for data in {id(data): data for data in trains}.values():
            checks.data("train", data, task, model.config, warm_up(model.config, how))
            sampler(data, model.config, how)


def _fixed(model: StreamModel, layer: int, pinv: Pinv | None, pinv_ridge: float | None) -> StreamModel:
    """The model with fixed landmarks, still to be found, in one block."""
    given = model.config.attention
    cfg = given[layer] if isinstance(given, tuple) else given
    return model.convert(variant=cfg.record.fixed_form, pinv=pinv, pinv_ridge=pinv_ridge, layer=layer)


def _learn(models: list[StreamModel], layers: int) -> None:
    """Make the landmarks of the first `layers` blocks parameters, and those of the others buffers."""
    for one in models:
        for place, block in enumerate(one.encoder.blocks):
            if block.attention.config.fixed:
                block.attention.learn_landmarks(place < layers)

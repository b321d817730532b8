"""Attention transfer: blocks with fixed landmarks learn to give what the attention of a trained model gives.

The trained model, with full attention or continual landmarks, is the teacher. A copy of it gets fixed landmarks, which
start as cluster centres of the teacher's queries and keys. Then the teacher reads the training data, and in every block
the copy's attention reads the same inputs. If the teacher's attention gives y and the copy's ŷ (after the output
projection), the relative error of the block is

    E‖ŷ − y‖² / E‖y − E y‖²,

and the landmarks are trained to make it small. No targets are needed. A block never reads what the copy's blocks before
it give, so the blocks learn side by side, each from its own error (`match`). Fine-tuning on the task then adapts them
to each other. Hedgehog and LoLCATs transfer softmax attention to linear attention in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from nystream.config.attention import Pinv
from nystream.config.checks import one_of, positive_int
from nystream.models import StreamModel
from nystream.progress import naming
from nystream.train import checks, match
from nystream.train.config import TrainConfig
from nystream.train.data import Data, StreamData, WindowData, fingerprint
from nystream.train.distributed import alone_in, rank
from nystream.train.loop import Line
from nystream.train.many import each_model, member_seeds
from nystream.train.recipe import LandmarkFit, OneOrMany, Phase, Training, with_fixed_landmarks
from nystream.train.sampler import sampler, warm_up
from nystream.train.tasks import Task

EPOCHS = 5  # of a transfer, by default


class Transfer(NamedTuple):
    """A model with fixed landmarks, and the relative error of each block's attention before any fine-tuning."""

    model: StreamModel
    before: tuple[float, ...]  # with the cluster centres
    after: tuple[float, ...]  # after the transfer


def transfer_attention(
    model: OneOrMany,
    train: Data | Sequence[Data],
    valid: Data | Sequence[Data] | None = None,
    *,
    landmarks: int | None = None,
    config: TrainConfig | None = None,
    trained: match.Trained = "landmarks",
    fine_tune: TrainConfig | None = None,
    task: Task | None = None,
    learn_landmarks: bool = True,
    seeds: Sequence[int] | None = None,
    tokens: int = 50_000,
    method: Literal["qk", "x"] = "qk",
    pinv: Pinv | None = None,
    pinv_ridge: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    tensorboard: bool = True,
    progress: bool | None = None,
) -> Any:
    """Fix the landmarks of a trained model so that each block's attention gives what it gave before.

    Args:
        model: A trained model of one block, or with stack="deep", with full attention or continual landmarks; it is not
            changed. Or several of one config.
        train: Data, as for `fit`, or as for `fit_many` if there are several models. Streams are read in pieces.
        valid: Validation data of the fine-tuning.
        landmarks: Number of landmarks m of every block. By default, that of the model's configs.
        config: How to train in the transfer, which has no validation. By default, for 5 epochs.
        trained: What the transfer trains: the landmarks, or the whole attention of each block, which adds the
            projections and the decay rates. Everything else stays as it is.
        fine_tune: How to train the model on the task afterwards. By default, this is left out.
        task: What the fine-tuning trains for.
        learn_landmarks: Whether the fine-tuning trains the landmarks too.
        seeds: For several models, as in `fit_many`.
        tokens: Number of training tokens that are sampled and clustered, and on which errors are measured.
        method: How landmarks are clustered, see `fit_landmarks`.
        pinv, pinv_ridge: The inverse of Γ. By default, that of the model's configs.
        folder: Where the fine-tuning is written, in a folder "tuning". If it was stopped there, it is resumed; the
            transfer is repeated.
        tensorboard, progress: As in `fit`.

    Returns:
        A `Transfer`: the new model, and the relative errors of its blocks before and after. For several models, a list.

    Example:
        >>> import torch, nystream as ns
        >>> x = torch.randn(400, 2)
        >>> data = ns.train.StreamData([x[1:]], [x[:-1].sum(1, keepdim=True)])
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=2, output_dim=1, attention=attention))
        >>> result = ns.train.transfer_attention(model, data, landmarks=3)
        >>> result.model.config.attention.variant, result.after < result.before
        ('co-fixed-single', True)
    """
    config = config or TrainConfig(epochs=EPOCHS)
    many = isinstance(model, Sequence)
    teachers = list(model) if isinstance(model, Sequence) else [model]
    landmark_fit = LandmarkFit(tokens, method, learn_landmarks, pinv, pinv_ridge, landmarks)
    _check_config(config, trained, landmark_fit)
    _check_teachers(teachers, many, landmarks)
    if seeds is not None and not many:
        raise ValueError("seeds= is for several models; one model has the seed of its config")
    each = member_seeds(config, len(teachers), seeds)
    trains = _checked_data(train, teachers, config)
    tuning = Training(
        train=train,
        valid=valid,
        task=task,  # type: ignore[arg-type]
        landmark_fit=landmark_fit,
        seeds=each if many else None,
        folder=folder,
        tensorboard=tensorboard,
        progress=progress,
    )
    _check_tuning(tuning, fine_tune, trains, teachers[0])
    shown = progress if rank() == 0 else False
    with alone_in(folder):
        results = [
            _transferred(teacher, data, config, trained, landmark_fit, seed, shown)
            for teacher, data, seed in zip(teachers, trains, each, strict=True)
        ]
        if fine_tune is not None:
            about: Line = {**tuning.about, "transfer": config.to_dict(), "transferred": trained}
            about["teachers"] = [] if folder is None else [fingerprint(*t.state_dict().values()) for t in teachers]
            models = [result.model for result in results]
            with naming("fine-tuning"):
                tuning.run(models if many else models[0], [Phase("tuning", fine_tune)], about)
    return results if many else results[0]


def _check_config(config: TrainConfig, trained: match.Trained, landmark_fit: LandmarkFit) -> None:
    """Raise if the transfer cannot be trained in this way."""
    one_of("trained", trained, ("landmarks", "attention"))
    one_of("method", landmark_fit.method, ("qk", "x"))
    positive_int("tokens", landmark_fit.tokens)
    if not isinstance(config, TrainConfig):
        raise TypeError(f"config is a {type(config).__name__}, but must be a TrainConfig")
    if config.patience is not None or config.schedule == "plateau":
        what = "schedule='plateau'" if config.patience is None else f"patience={config.patience}"
        raise ValueError(f"config has {what}, but the transfer has no validation; only fine_tune= can have it")
    if config.average:
        raise ValueError(
            f"config has average={config.average}, but the transfer averages no weights; only fine_tune= can"
        )


def _check_teachers(teachers: Sequence[StreamModel], many: bool, landmarks: int | None) -> None:
    """Raise if the attention of a model cannot be transferred."""
    if not teachers:
        raise ValueError("model is an empty list; give at least one model")
    for i, teacher in enumerate(teachers):
        name = f"model[{i}]" if many else "model"
        if not isinstance(teacher, StreamModel):
            raise TypeError(f"{name} is a {type(teacher).__name__}, but must be a StreamModel")
        if teacher.config != teachers[0].config:
            raise ValueError(f"{name} has another config than model[0]; they must be the same")
    shape = teachers[0].config
    if not shape.cascade:
        raise ValueError(
            f"the model has blocks of variants {', '.join(cfg.variant for cfg in shape.blocks)}, but the transfer "
            f"needs blocks that return their newest row: one block, or stack='deep'"
        )
    for block, cfg in enumerate(shape.blocks):
        if cfg.fixed or cfg.record.fixed_form is None:
            why = "has fixed landmarks already" if cfg.fixed else "has no form with fixed landmarks"
            raise ValueError(f"block {block} of the model is of variant {cfg.variant!r}, which {why}")
        if landmarks is None and cfg.landmarks is None:
            raise ValueError(f"block {block} of the model has no number of landmarks; give landmarks=")


def _checked_data(train: Data | Sequence[Data], teachers: Sequence[StreamModel], config: TrainConfig) -> list[Data]:
    """The training data of each model; raise if the transfer cannot read them."""
    trains = each_model("train", train, len(teachers))
    for data in trains:
        if not isinstance(data, WindowData | StreamData):
            raise TypeError(f"train is a {type(data).__name__}, but must be WindowData or StreamData")
        match.samples(data, teachers[0].config, config)
    return trains


def _check_tuning(tuning: Training, config: TrainConfig | None, trains: Sequence[Data], teacher: StreamModel) -> None:
    """Raise the errors of the fine-tuning before the transfer starts."""
    if config is None:
        for name in ("task", "valid", "folder"):
            if getattr(tuning, name) is not None:
                raise ValueError(f"{name}= is for the fine-tuning; give fine_tune= too")
        return
    if tuning.task is None:
        raise ValueError("fine_tune= needs a task; give task=")
    checks.config(config, tuning.valid)
    valids = [] if tuning.valid is None else each_model("valid", tuning.valid, len(trains))
    for name, sets in (("train", trains), ("valid", valids)):
        for data in sets:
            checks.data(name, data, tuning.task, teacher.config, warm_up(teacher.config, config))
    for data in trains:
        sampler(data, teacher.config, config)
        if tuning.seeds is None:  # one model, for `fit`
            checks.longer_than_warm_up("train", data, teacher.config)


def _transferred(
    teacher: StreamModel,
    data: Data,
    config: TrainConfig,
    trained: match.Trained,
    landmark_fit: LandmarkFit,
    seed: int,
    progress: bool | None,
) -> Transfer:
    student = teacher
    for block in reversed(range(len(teacher.config.blocks))):  # so that each is clustered on the teacher's activations
        batches = data.batches(config.batch_size, teacher.config.update_size)
        (student,) = with_fixed_landmarks([student], block, [batches], landmark_fit, [seed], progress=progress)
    matching = match.Matching(teacher, student.eval(), data, config, seed)
    before = matching.measure(landmark_fit.tokens)
    matching.train(before.variance, trained, progress)
    return Transfer(student, before.relative, matching.measure(landmark_fit.tokens).relative)

"""The training loop, for one model or for many at once.

Every update is a function of the seed and its number, so a run that was killed resumes from its last checkpoint and
ends with exactly the same weights.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from nystream.models import StreamModel
from nystream.progress import track
from nystream.train import checkpoint, checks
from nystream.train.config import TrainConfig
from nystream.train.data import Data, fingerprint
from nystream.train.distributed import World, alone_in, world
from nystream.train.log import Log
from nystream.train.optimizer import lr_factor
from nystream.train.sampler import warm_up
from nystream.train.single import Single
from nystream.train.tasks import Task
from nystream.train.trainable import Trainable

Line = dict[str, Any]

CHECK_LOSS_EVERY = 100  # updates: reading the loss makes a GPU wait


class Engine(Protocol):
    """What the loop trains: `members` models at once, with `updates` updates per epoch."""

    members: int
    updates: int

    def step(self, epoch: int, index: int, lr: float) -> Tensor: ...

    def evaluate(self) -> list[dict[str, float]] | None: ...

    def keep(self, member: int) -> None: ...

    def finish(self) -> None: ...

    def tensors(self) -> dict[str, Tensor]: ...

    def load(self, tensors: dict[str, Tensor]) -> None: ...


@dataclass
class FitResult:
    """The result of a training run.

    Attributes:
        best: The best validation scores.
        best_epoch: Their epoch, from 1.
        history: One entry per epoch.
        skip: Number of tokens at the start of every stream that were not scored.
    """

    best: dict[str, float]
    best_epoch: int
    history: list[Line]
    skip: int


@dataclass
class Progress:
    """The progress of a run, as JSON values."""

    epoch: int = 0
    index: int = 0
    losses: list[float] = field(default_factory=list)  # sums over the updates of the current epoch
    best: list[dict[str, float]] = field(default_factory=list)
    best_epoch: list[int] = field(default_factory=list)
    stopped: list[bool] = field(default_factory=list)
    factor: float = 1.0  # of the learning rate, set by "plateau"
    waited: int = 0  # epochs since the factor fell or the score improved
    history: list[Line] = field(default_factory=list)
    done: bool = False


def fit(
    model: Trainable,
    train: Data,
    valid: Data | None = None,
    config: TrainConfig | None = None,
    *,
    task: Task,
    folder: str | os.PathLike[str] | None = None,
    about: Line | None = None,
    tensorboard: bool = True,
    progress: bool | None = None,
) -> FitResult:
    """Train a model in place, on its device, and leave it with its best weights, in eval mode.

    Args:
        model: A `StreamModel`, or a module with the same methods.
        train: `WindowData` or `StreamData`.
        valid: Data on which the best weights are selected. Without it, the last weights are kept.
        config: How to train.
        task: `Classification`, `Detection` or `Forecasting`.
        folder: Where checkpoints, metrics and the model are written. A run in it is resumed. One process at a time can
            train in a folder; a second one gets a BlockingIOError.
        about: What else must be the same for a run in the folder to be resumed; JSON values.
        tensorboard: Whether to write scalars for TensorBoard to the folder, too.
        progress: Whether to show a progress bar. By default, if standard error is a terminal.

    With torchrun, every process takes a share of each batch.

    Example:
        >>> import torch, nystream as ns
        >>> from nystream.train import Classification, TrainConfig, WindowData, fit
        >>> x = torch.randn(64, 6, 3)
        >>> data = WindowData(x, x.mean(1).argmax(-1))  # which column is the largest
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=3, attention=attention))
        >>> result = fit(model, data, data, TrainConfig(epochs=2), task=Classification())
        >>> sorted(result.best), len(result.history)
        (['accuracy', 'loss'], 2)
    """
    config = config or TrainConfig()
    model = checks.trainable("model", model)
    checks.ready("model", model)
    checks.config(config, valid)
    skip = warm_up(model.config, config)
    for name, data in (("train", train), ("valid", valid)):
        if name == "train" or data is not None:
            checks.data(name, data, task, model.config, skip)
    checks.longer_than_warm_up("train", train, model.config)
    here = world(model)
    with alone_in(folder):
        engine = Single(model, train, valid, task, config, here)
        parts = [train] if valid is None else [train, valid]
        identity = described([model], config, task, parts, folder) | {"about": about}
        done = run(engine, config, task, identity, folder, tensorboard, progress, here)
        if folder is not None and here.rank == 0:
            model.save_pretrained(Path(folder) / "model")
        here.wait()
    return results(done, skip)[0]


def described(
    models: list[StreamModel], config: TrainConfig, task: Task, data: list[Data], folder: str | os.PathLike[str] | None
) -> Line:
    """What identifies a run: a checkpoint is resumed only by the same run."""
    first = models[0]
    return {
        "model": first.config.to_dict(),
        "train": config.to_dict(),
        "task": checks.describe(task),
        "trained": [name for name, x in first.named_parameters() if x.requires_grad],
        "scalers": [fingerprint(*scaler.buffers()) for m in models for scaler in (m.input_scaler, m.output_scaler)],
        "data": [] if folder is None else [part.fingerprint for part in data],
    }


def run(
    engine: Engine,
    config: TrainConfig,
    task: Task,
    about: Line,
    folder: str | os.PathLike[str] | None,
    tensorboard: bool,
    progress: bool | None,
    here: World,
) -> Progress:
    """Train to the end, or until all members stop early; resume from the checkpoint in `folder` if there is one."""
    path = None if folder is None else Path(folder)
    try:
        json.dumps(about)
    except TypeError as error:
        raise TypeError(f"about must be JSON values: {error}") from error
    now = _resume(engine, path, about) or Progress()
    if now.done:
        engine.finish()
        return now
    total = config.epochs * engine.updates
    first = now.epoch * engine.updates + now.index
    log = Log(path if here.rank == 0 else None, tensorboard, now.history, first)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    shown = progress if here.rank == 0 else False
    saver = checkpoint.Saver(path if here.rank == 0 else None)

    def write(now: Progress) -> None:
        saver.save(engine.tensors, {"about": about, "progress": dataclasses.asdict(now)})

    with _hint(path), closing(log), torch.random.fork_rng(devices), track("training", total, shown) as advance:
        advance(first)
        while True:
            began, lr = time.monotonic(), 0.0
            losses: Tensor | float = 0.0
            for index in range(now.index, engine.updates):
                number = now.epoch * engine.updates + index + 1
                lr = config.lr * now.factor * lr_factor(number - 1, total, config)
                losses = losses + engine.step(now.epoch, index, lr).double()
                advance(1)
                last = index + 1 == engine.updates
                due = config.checkpoint_every is not None and number % config.checkpoint_every == 0
                if last or due or number % CHECK_LOSS_EVERY == 0:
                    now.index, now.losses = index + 1, _summed(now.losses, losses, now.epoch, index)
                    losses = 0.0
                if due and not last:
                    write(now)
            finished = _close_epoch(engine, config, task, now, lr, time.monotonic() - began)
            log.epoch(now.history[-1])
            advance(0, _note(now))
            if finished or not saver.too_soon:
                write(now)
            if finished:
                break
    engine.finish()
    return now


@contextmanager
def _hint(folder: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        if folder is not None:
            stop.add_note(f"Make the same call to resume from {folder}.")
        raise


def results(now: Progress, skip: int) -> list[FitResult]:
    """The result of each member."""
    return [
        FitResult(best, epoch, [_of_member(line, member) for line in now.history], skip)
        for member, (best, epoch) in enumerate(zip(now.best, now.best_epoch, strict=True))
    ]


def _close_epoch(engine: Engine, config: TrainConfig, task: Task, now: Progress, lr: float, seconds: float) -> bool:
    """Validate, select the best weights, and return whether this was the last epoch."""
    scores, losses = engine.evaluate(), [total / engine.updates for total in now.losses]
    now.epoch, now.index, now.losses = now.epoch + 1, 0, []
    improved = [_improves(now, member, scores, task) for member in range(engine.members)]
    for member, better in enumerate(improved):
        if better:
            engine.keep(member)
    if not now.best_epoch:
        now.best, now.best_epoch = [{} for _ in improved], [0 for _ in improved]
        now.stopped = [False for _ in improved]
    for member, better in enumerate(improved):
        if better:
            now.best[member] = scores[member] if scores else {"loss": losses[member]}
            now.best_epoch[member] = now.epoch
        elif config.patience is not None and now.epoch - now.best_epoch[member] >= config.patience:
            now.stopped[member] = True
    now.waited = 0 if any(improved) else now.waited + 1
    if config.schedule == "plateau" and now.waited >= config.plateau_patience:
        now.factor, now.waited = now.factor * config.plateau_factor, 0
    line: Line = {"epoch": now.epoch, "step": now.epoch * engine.updates, "lr": lr, "seconds": round(seconds, 3)}
    now.history.append(line | {"train_loss": losses, "valid": scores})
    now.done = now.epoch == config.epochs or all(now.stopped)
    return now.done


def _improves(now: Progress, member: int, scores: list[dict[str, float]] | None, task: Task) -> bool:
    """Whether the weights of this epoch are the best so far; always, if there is no validation data."""
    if scores is None or not now.best_epoch:
        return True
    if now.stopped[member]:
        return False
    (name, new), old = next(iter(scores[member].items())), now.best[member]
    if math.isnan(new) or math.isnan(old[name]):
        return not math.isnan(new)
    return new > old[name] if task.higher_is_better else new < old[name]


def _resume(engine: Engine, folder: Path | None, about: Line) -> Progress | None:
    saved = None if folder is None else checkpoint.load(folder)
    if folder is None or saved is None:
        return None
    tensors, written = saved
    if not isinstance(written, dict) or not all(isinstance(written.get(part), dict) for part in ("about", "progress")):
        raise checkpoint.damaged(folder, "it has no description of its run, or of its progress")
    different = _differences(written["about"], json.loads(json.dumps(about)))  # through JSON, tuples are lists
    if different:
        raise ValueError(f"{folder} contains a different run: {', '.join(different)}; use a new folder")
    try:
        checkpoint.check(tensors, engine.tensors())
        progress = _progress(written["progress"], engine)
        engine.load(tensors)
    except (TypeError, ValueError) as error:
        raise checkpoint.damaged(folder, error) from error
    return progress


def _progress(fields: Line, engine: Engine) -> Progress:
    """The progress in a checkpoint, checked."""
    progress, defaults = Progress(**fields), dataclasses.asdict(Progress())
    for name, value in vars(progress).items():
        if type(value) is not type(defaults[name]):
            raise ValueError(f"{name} of its progress is {value!r:.40}")
    if not (progress.epoch >= 0 and 0 <= progress.index <= engine.updates):
        raise ValueError(f"its progress is epoch {progress.epoch}, update {progress.index}")
    for name in ("best", "best_epoch", "stopped"):
        if len(getattr(progress, name)) != (engine.members if progress.epoch else 0):
            raise ValueError(f"{name} of its progress is not of {engine.members} models")
    return progress


def _differences(theirs: Line, ours: Line) -> list[str]:
    """What differs between two descriptions of a run; numbers may differ by rounding."""
    parts = []
    for group in sorted({*theirs, *ours}):
        a, b = theirs.get(group), ours.get(group)
        if isinstance(a, dict) and isinstance(b, dict):
            parts += [(name, a.get(name), b.get(name)) for name in {**a, **b}]
        else:
            parts.append((group, a, b))
    return [f"{name} is {a!r} there and {b!r} here" for name, a, b in parts if not _same(a, b)]


def _same(a: Any, b: Any) -> bool:
    return math.isclose(a, b, rel_tol=1e-15) if isinstance(a, float) and isinstance(b, float) else a == b


def _summed(before: list[float], losses: Tensor, epoch: int, index: int) -> list[float]:
    """The losses of the epoch so far; raise if they are not finite."""
    if not bool(losses.isfinite().all()):
        raise FloatingPointError(
            f"the loss is not finite in epoch {epoch + 1}, up to update {index + 1}: "
            f"lower lr, set clip, or look for outliers in the data"
        )
    new = losses.tolist()
    return [a + b for a, b in zip(before or [0.0] * len(new), new, strict=True)]


def _note(now: Progress) -> str:
    line = now.history[-1]
    loss = sum(line["train_loss"]) / len(line["train_loss"])
    text = f"epoch {now.epoch}, loss {loss:.4f}"
    if line["valid"]:
        name = next(iter(line["valid"][0]))
        scores = [member[name] for member in line["valid"]]
        text += f", {name} {sum(scores) / len(scores):.4f}"
    return text


def _of_member(line: Line, member: int) -> Line:
    """An entry of the history for one member."""
    valid = line["valid"][member] if line["valid"] else None
    return line | {"train_loss": line["train_loss"][member], "valid": valid}

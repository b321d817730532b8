"""One cell: all its runs trained, then scored as streams.

The runs of a cell are trained together; those of a recurrent model one after another, because cuDNN has no batches of
weights. Every cell has the same number of epochs, whatever its model; `nystream.train.recipe` divides them among the
phases of fixed landmarks. What has been trained is kept, and cells that share a training or its first phase share the
models.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from nystream import files
from nystream.config import AttentionConfig, ModelConfig, json_text
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems import CellRun, problem
from nystream.lab.rivals import RecurrentConfig, RecurrentModel
from nystream.models import StreamModel
from nystream.train import Distillation, TrainConfig, distilled, evaluate, fit, transfer_attention
from nystream.train.data import Data
from nystream.train.log import METRICS
from nystream.train.many import each_model
from nystream.train.recipe import LandmarkFit, Phase, Training, divide, phase_one
from nystream.train.sampler import Sampler, sampler
from nystream.train.tasks import Task

if TYPE_CHECKING:
    from nystream.lab.reproduce.job import Job

DONE = "done.json"
EARLY_TOKENS = 10_000  # clustered for landmarks that are fixed early and trained from there
STUDENT = 10**6  # added to the seed of a model with full attention that learns from another one

Model = StreamModel | RecurrentModel


class Trained(NamedTuple):
    """The models of a cell, one for each run."""

    models: list[Any]  # all StreamModels, or all RecurrentModels
    phases: list[TrainConfig]
    seconds: float


def train(job: Job, runs: Sequence[CellRun]) -> Trained:
    """Train the models of a job's cell, or load those that have been trained."""
    cell = job.cell
    data: list[Data] = [run.train for run in runs]
    task: Task = job.problem.task(cell)
    if cell.distilled:
        teachers = train(job.teacher, runs).models
        data = [distilled(run.train, teacher) for run, teacher in zip(runs, teachers, strict=True)]
        task = Distillation(job.problem.task(cell))
    training = Training(
        train=data,
        valid=[run.valid for run in runs],
        task=task,
        landmark_fit=LandmarkFit(
            EARLY_TOKENS if cell.at_once else job.problem.landmark_tokens,
            cell.method,
            cell.learned,
            cell.pinv,  # type: ignore[arg-type]
            cell.pinv_ridge,
            cell.landmarks if cell.at_once else None,
        ),
        seeds=[_seed(cell, run) for run in runs],
        tensorboard=False,
        progress=job.show,
    )

    def first(folder: Path) -> list[Any]:
        models = [build(cell.phase_one, run).to(job.device) for run in runs]
        if cell.recurrent:
            return _fit_each(models, runs, training, phases[0].config, folder)
        return dataclasses.replace(training, folder=folder).run(models, [phases[0]._replace(folder="")])

    def second(folder: Path) -> list[Any]:
        models = [model.to(job.device) for model in trained.models]
        if cell.transferred:
            return _transferred(models, dataclasses.replace(training, folder=folder), phases)
        return dataclasses.replace(training, folder=folder).run(models, phases[1:])

    phases = cell_phases(_with_updates(job, runs), cell)
    trained = _trained_once(job, cell.phase_one, phases[:1], runs, first)
    if len(phases) > 1:
        trained = _trained_once(job, cell.twin, phases, runs, second, trained.seconds)
    models = trained.models if cell.twin == cell else [one.convert(variant=cell.model) for one in trained.models]
    return trained._replace(models=[model.to(job.device).eval() for model in models])


def _transferred(models: list[StreamModel], training: Training, phases: Sequence[Phase]) -> list[StreamModel]:
    """Models with fixed landmarks: the second phase transfers each block's attention, the third trains the whole."""
    fit = training.landmark_fit
    transfers = transfer_attention(
        models,
        training.train,
        training.valid,
        landmarks=fit.landmarks,
        config=phases[1].config,
        fine_tune=phases[2].config,
        task=training.task,
        learn_landmarks=fit.learn_landmarks,
        seeds=training.seeds,
        tokens=fit.tokens,
        method=fit.method,
        pinv=fit.pinv,
        pinv_ridge=fit.pinv_ridge,
        folder=training.folder,
        tensorboard=training.tensorboard,
        progress=training.progress,
    )
    return [transfer.model for transfer in transfers]


def _fit_each(
    models: list[Any], runs: Sequence[CellRun], training: Training, config: TrainConfig, folder: Path
) -> list[Any]:
    """Train models one after another, each in a folder of its own, from which it is resumed."""
    trains = each_model("train", training.train, len(models))
    for i, (model, run) in enumerate(zip(models, runs, strict=True)):
        fit(
            model,
            trains[i],
            run.valid,
            dataclasses.replace(config, seed=run.number),
            task=training.task,
            folder=folder / f"run-{i}",
            tensorboard=training.tensorboard,
            progress=training.progress,
        )
    return models


def score(job: Job, models: Sequence[Model], runs: Sequence[CellRun], part: str) -> list[dict[str, float]]:
    """Streaming scores of every run on its part "valid" or "test"."""
    task, skip = job.problem.task(job.cell), job.problem.skip(job.cell)
    return [evaluate(model, getattr(run, part), task, skip=skip) for model, run in zip(models, runs, strict=True)]


def cell_phases(config: TrainConfig, cell: Cell) -> list[Phase]:
    """The phases of a cell's training, with the epochs of `config` in total."""
    if not cell.fixed:
        return [phase_one(config)]
    phases = divide(config, cell.layers, at_once=cell.at_once)
    if cell.transferred:  # it takes as many epochs as phase one, off those of the fine-tuning
        first, tuning = phases
        left = tuning.config.epochs - first.config.epochs
        return [first, Phase("transfer", first.config), Phase("tuning", dataclasses.replace(first.config, epochs=left))]
    return phases


def model_config(cell: Cell, input_dim: int) -> ModelConfig | RecurrentConfig:
    """The config of a cell's models."""
    of = problem(cell.task)
    options: dict[str, Any] = {"input_dim": input_dim, "output_dim": of.output_dim, **of.options(cell)}
    if cell.dropout is not None:
        options["dropout"] = cell.dropout
    if cell.recurrent:
        sizes: dict[str, Any] = {"embed_dim": cell.embed_dim, "layers": cell.layers, "window": cell.window}
        return RecurrentConfig(kind=cell.model, **sizes, **options)  # type: ignore[arg-type]
    attention = tuple(
        AttentionConfig(
            cell.model,
            cell.embed_dim,
            cell.num_heads,
            window,
            cell.landmarks,
            pinv=cell.pinv,  # type: ignore[arg-type]
            pinv_ridge=cell.pinv_ridge,
            decay=cell.decay,
        )
        for window in cell.windows or [cell.window] * cell.layers
    )
    if cell.decay:
        options["positions"] = "none"
    if cell.windows:
        options["num_positions"] = cell.window  # by default, the first window, which may be the smallest
    return ModelConfig(attention=attention, layers=cell.layers, stack=cell.stack, **options)


def cell_sampler(cell: Cell, data: Data, config: TrainConfig) -> Sampler:
    """What the first phase of a cell learns from."""
    return sampler(data, cast(ModelConfig, model_config(cell.phase_one, data.input_dim)), config)


def build(cell: Cell, run: CellRun) -> Any:
    """A model with the initial weights of its run, its scalers fitted to the training part."""
    torch.manual_seed(_seed(cell, run))
    config = model_config(cell, run.train.input_dim)
    model = RecurrentModel(config) if isinstance(config, RecurrentConfig) else StreamModel(config)
    model.input_scaler.fit(run.train.x, one_scale=cell.one_scale)
    if problem(cell.task).task(cell).scaled:
        model.output_scaler.fit(run.train.y)
    return model


def _seed(cell: Cell, run: CellRun) -> int:
    """The seed of the weights and the order of the data: another one where the teacher is a model of the same kind."""
    return run.number + STUDENT * (cell.distilled and cell.phase_one.model == cell.teacher.model)


def _with_updates(job: Job, runs: Sequence[CellRun]) -> TrainConfig:
    """The config of a job, with a number of updates per epoch that all runs have, as they are trained together."""
    if job.config.steps_per_epoch is not None:
        return job.config
    trains = {id(run.train): run.train for run in runs}
    examples = min(len(cell_sampler(job.cell, data, job.config)) for data in trains.values())
    return dataclasses.replace(job.config, steps_per_epoch=max(1, examples // job.config.batch_size))


def _trained_once(
    job: Job,
    cell: Cell,
    phases: Sequence[Phase],
    runs: Sequence[CellRun],
    fit_in: Callable[[Path], list[Any]],
    seconds_before: float = 0.0,
) -> Trained:
    """The models that `fit_in` trains in a folder, kept on disk: trained once, whichever cell needs them first."""
    from filelock import FileLock

    configs = [phase.config for phase in phases]
    identity = {
        "cell": cell.to_dict(),
        "phases": [config.to_dict() for config in configs],
        "runs": [run.number for run in runs],
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
    folder = job.work / f"{job.problem.cell_name(cell)}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    data = [[run.train.fingerprint, run.valid.fingerprint] for run in runs]
    with FileLock(folder / "lock"):  # if another process is training these models, wait for them
        if (folder / DONE).is_file():
            record = _read_done(folder / DONE)
            if record.get("data", data) != data:  # records of older versions do not have it
                raise ValueError(f"{folder} has models trained on other data; give another folder with --work")
            kind: Any = RecurrentModel if cell.recurrent else StreamModel
            models = [kind.from_pretrained(folder / f"model-{i}") for i in range(len(runs))]
            return Trained(models, configs, record["seconds"])
        seconds, start = seconds_before + _seconds_spent(folder / "running"), time.monotonic()
        models = fit_in(folder / "running")
        seconds += time.monotonic() - start
        for i, model in enumerate(models):
            model.save_pretrained(folder / f"model-{i}")
        files.write_text(folder / DONE, json.dumps(identity | {"data": data, "seconds": seconds}))
        shutil.rmtree(folder / "running")
    return Trained(models, configs, seconds)


def _read_done(path: Path) -> dict[str, Any]:
    try:
        record = json_text.parse(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not isinstance(record.get("seconds"), int | float):
            raise ValueError("it does not have the seconds of the training")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}; delete its folder to train its models again") from error
    return record


def _seconds_spent(folder: Path) -> float:
    """Seconds that the epochs of an interrupted run took; 0 if there is none."""
    logs = (path.read_text(encoding="utf-8") for path in folder.rglob(METRICS))
    return sum(json.loads(line)["seconds"] for log in logs for line in log.splitlines() if line.endswith("}"))

"""One cell: all its runs trained together, then scored as streams.

Every cell has the same budget of E epochs. One phase takes all of it; fixed landmarks, whose L blocks are fine-tuned
one after another, spend E / (L + 2) on each and the rest on their first phase.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nystream import files
from nystream.config import AttentionConfig, ModelConfig, json_text
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems import PaperProblem, Run
from nystream.models import StreamModel
from nystream.train import Distillation, TrainConfig, distilled, evaluate, fit_many, fix_landmarks
from nystream.train.data import Data
from nystream.train.log import METRICS
from nystream.train.sampler import sampler
from nystream.train.tasks import Task

TUNING_LR = 1 / 3  # of the first phase's learning rate
DONE = "done.json"
SEEDS = 1000  # of a split, at most


class CellPlan(NamedTuple):
    """What is done for a cell, apart from its data."""

    problem: PaperProblem
    cell: Cell
    config: TrainConfig  # the whole budget
    device: str
    work: Path  # where runs go on from, and trained models stay
    show: bool | None = None


class Trained(NamedTuple):
    """The models of a cell, and how they came about."""

    models: list[StreamModel]
    phases: list[TrainConfig]
    seconds: float


def train(plan: CellPlan, runs: Sequence[Run]) -> Trained:
    """Train what the cell needs, or take up what is there; the models are of the cell's own variant."""
    cell, twin = plan.cell, plan.cell.twin
    teachers = train(plan._replace(cell=cell.teacher), runs).models if cell.distilled else None
    trains, task = _lessons(plan, runs, teachers)
    first, tuning = budget(_whole(plan, runs), cell)
    found = _phase(plan, cell.phase_one, [first], runs, lambda where: _first(plan, runs, trains, task, first, where))
    if tuning is not None:
        means = found.models
        found = _phase(
            plan,
            twin,
            [first] + [tuning] * cell.layers,
            runs,
            lambda where: _fixed(plan, runs, trains, task, tuning, means, where),
            found.seconds,
        )
    models = found.models if twin == cell else [model.convert(variant=cell.model) for model in found.models]
    return found._replace(models=[model.to(plan.device).eval() for model in models])


def score(plan: CellPlan, models: Sequence[StreamModel], runs: Sequence[Run], part: str) -> list[dict[str, float]]:
    """Streaming scores on the part "valid" or "test" of every run."""
    task, skip = plan.problem.task(plan.cell), plan.problem.skip(plan.cell)
    return [evaluate(model, getattr(run, part), task, skip=skip) for model, run in zip(models, runs, strict=True)]


def budget(config: TrainConfig, cell: Cell) -> tuple[TrainConfig, TrainConfig | None]:
    """The first phase, and each fine-tuning where landmarks are fixed; together as many epochs as `config` has."""
    if not cell.fixed:
        return config, None
    each = config.epochs // (cell.layers + 2)
    if each < 1:
        raise ValueError(f"epochs={config.epochs} is too few for fixed landmarks: at least {cell.layers + 2}")
    first = dataclasses.replace(config, epochs=config.epochs - each * cell.layers)
    return first, dataclasses.replace(config, epochs=each, lr=config.lr * TUNING_LR)


def shape(problem: PaperProblem, cell: Cell, input_dim: int) -> ModelConfig:
    """The config of the cell's models."""
    attention = AttentionConfig(
        cell.model,
        cell.embed_dim,
        cell.num_heads,
        cell.window,
        cell.landmarks,
        pinv=cell.pinv,  # type: ignore[arg-type]
        pinv_ridge=cell.pinv_ridge,
    )
    options: dict[str, Any] = {"input_dim": input_dim, "output_dim": problem.output_dim, **problem.options(cell)}
    return ModelConfig(attention=attention, layers=cell.layers, stack=cell.stack, **options)


def build(problem: PaperProblem, cell: Cell, run: Run) -> StreamModel:
    """A model as its seed gives it, its scalers fitted to the training part."""
    torch.manual_seed(number(run))
    model = StreamModel(shape(problem, cell, run.train.input_dim))
    model.input_scaler.fit(run.train.x)
    if problem.task(cell).scaled:
        model.output_scaler.fit(run.train.y)
    return model


def number(run: Run) -> int:
    """The seed of a run's weights and of the order of its data."""
    return SEEDS * run.split + run.seed


def _whole(plan: CellPlan, runs: Sequence[Run]) -> TrainConfig:
    """The budget, with as many updates an epoch for every run: they are trained together."""
    if plan.config.steps_per_epoch is not None:
        return plan.config
    trains = {id(run.train): run.train for run in runs}
    config = shape(plan.problem, plan.cell.phase_one, runs[0].train.input_dim)
    least = min(len(sampler(data, config, plan.config)) for data in trains.values())
    return dataclasses.replace(plan.config, steps_per_epoch=max(1, least // plan.config.batch_size))


def _lessons(plan: CellPlan, runs: Sequence[Run], teachers: list[StreamModel] | None) -> tuple[list[Data], Task]:
    """What is learned from: targets, or targets and a teacher's outputs."""
    task = plan.problem.task(plan.cell)
    if teachers is None:
        return [run.train for run in runs], task
    return [distilled(run.train, one) for run, one in zip(runs, teachers, strict=True)], Distillation(task)


def _first(
    plan: CellPlan, runs: Sequence[Run], trains: list[Data], task: Task, config: TrainConfig, where: Path
) -> list[StreamModel]:
    models = [build(plan.problem, plan.cell.phase_one, run).to(plan.device) for run in runs]
    valids, seeds = [run.valid for run in runs], [number(run) for run in runs]
    options: dict[str, Any] = {"seeds": seeds, "tensorboard": False, "progress": plan.show}
    fit_many(models, trains, valids, config, task=task, folder=where, **options)
    return models


def _fixed(
    plan: CellPlan,
    runs: Sequence[Run],
    trains: list[Data],
    task: Task,
    config: TrainConfig,
    means: list[StreamModel],
    where: Path,
) -> list[StreamModel]:
    cell, valids, seeds = plan.cell, [run.valid for run in runs], [number(run) for run in runs]
    found: list[StreamModel] = fix_landmarks(
        [model.to(plan.device) for model in means],
        trains,
        valids,
        task=task,
        config=config,
        seeds=seeds,
        tokens=plan.problem.landmark_tokens,
        method=cell.method,
        learn_landmarks=cell.learned,
        pinv=cell.pinv,  # type: ignore[arg-type]
        pinv_ridge=cell.pinv_ridge,
        folder=where,
        tensorboard=False,
        progress=plan.show,
    )
    return found


def _phase(
    plan: CellPlan, cell: Cell, phases: list[TrainConfig], runs: Sequence[Run], job: Any, before: float = 0.0
) -> Trained:
    """The models that a job gives, kept on disk: done once, whichever cell asks for it first."""
    from filelock import FileLock

    said = {"cell": cell.to_dict(), "phases": [one.to_dict() for one in phases], "runs": [number(run) for run in runs]}
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]
    folder = plan.work / f"{plan.problem.cell_name(cell)}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    data = [[run.train.fingerprint, run.valid.fingerprint] for run in runs]
    with FileLock(folder / "lock"):  # another process may be at it: wait, and take what it has found
        done = folder / DONE
        if done.is_file():
            held = _done(done)
            # Those that were written before this was said are taken as they are.
            if held.get("data", data) != data:
                raise ValueError(f"{folder} holds models of other data; give another folder with --work")
            models = [StreamModel.from_pretrained(folder / f"model-{i}") for i in range(len(runs))]
            return Trained(models, phases, held["seconds"])
        began, before = time.monotonic(), before + _spent(folder / "running")
        models = job(folder / "running")
        seconds = before + time.monotonic() - began
        for i, model in enumerate(models):
            model.save_pretrained(folder / f"model-{i}")
        text = json.dumps(said | {"data": data, "seconds": seconds})
        files.write_text(done, text)
        shutil.rmtree(folder / "running")
    return Trained(models, phases, seconds)


def _done(path: Path) -> dict[str, Any]:
    try:
        held = json_text.parse(path.read_text(encoding="utf-8"))
        if not isinstance(held, dict) or not isinstance(held.get("seconds"), int | float):
            raise ValueError("it does not say how many seconds were spent")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}; delete its folder to train its models again") from error
    return held


def _spent(folder: Path) -> float:
    """Seconds that the epochs of a run took before it was stopped; 0 where there is none."""
    logs = (path.read_text(encoding="utf-8") for path in folder.rglob(METRICS))
    return sum(json.loads(line)["seconds"] for log in logs for line in log.splitlines() if line.endswith("}"))

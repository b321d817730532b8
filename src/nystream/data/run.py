"""A training run: from settings to a folder with everything that came of it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nystream import files, variants
from nystream.config import AttentionConfig, ModelConfig
from nystream.data import lesson
from nystream.data.budget import EPOCHS, Plan, one_phase, two_phases
from nystream.data.problem import PartName, Problem, Scores
from nystream.data.run_folder import CONFIG, MODEL, check_folder, config_text, usual_epochs
from nystream.data.settings import Settings
from nystream.data.table import counted
from nystream.landmarks import kmeans
from nystream.layers.scaler import Scaler
from nystream.models import StreamModel, pretrained
from nystream.provenance import hardware
from nystream.train import TrainConfig, checkpoint, fit, fix_landmarks, predict
from nystream.train.data import StreamData
from nystream.train.distributed import alone_in
from nystream.train.log import METRICS
from nystream.train.sampler import sampler as make_sampler
from nystream.train.sampler import updates, warm_up
from nystream.train.tasks import Task

SCORES, CHECKPOINTS, PLOTS = "scores.json", "checkpoints", "plots"
WINDOW, LEAST_WINDOW = 64, 4  # unless told: the first, or less where streams are short
LANDMARKS = 4  # unless told, or as many as a shorter window has tokens
FEWEST, MOST = 40, 200  # updates an epoch: a small source is gone through several times, a large one in part
PARTS: tuple[PartName, ...] = ("train", "valid", "test")
TOKENS = 20_000  # that landmarks are clustered from

Say = Callable[[str], None]


class Lessons(NamedTuple):
    """What is learned, and by what the best epoch is chosen."""

    train: StreamData
    valid: StreamData
    task: Task


class Result(NamedTuple):
    """What came of a run."""

    model: StreamModel
    problem: Problem
    folder: Path
    scores: dict[str, dict[str, Scores]]  # part -> model or baseline -> scores
    output: Tensor  # of the scored tokens of the test part [N, output_dim]
    warm: int
    seconds: float


def resolved(settings: Settings, problem: Problem) -> Settings:
    """The settings with what the source decides: a run's config says all of it."""
    window = settings.window or _window(problem)
    low_rank = variants.of_family(settings.variant).low_rank
    landmarks = settings.landmarks or min(LANDMARKS, window) if low_rank else 0
    if landmarks > window:
        found = "" if settings.window else ", as this source allows"
        raise ValueError(
            f"landmarks={landmarks} must be at most window={window}{found}: give fewer landmarks, or a longer window"
        )
    return dataclasses.replace(settings, window=window, landmarks=landmarks)


def train(
    settings: Settings,
    problem: Problem,
    folder: Path,
    say: Say = print,
    show: bool | None = None,
    teacher: StreamModel | None = None,
) -> Result:
    """Train what the settings ask for. A run of the same settings that is in the folder is resumed where it was; one
    that is done is scored again.

    `teacher` is the model of `settings.teacher`.
    """
    settings = resolved(settings, problem)
    if (teacher is None) == bool(settings.teacher):
        raise ValueError("teacher must be the model of settings.teacher: give both, or none")
    check_folder(settings, problem, folder, teacher)
    settings = dataclasses.replace(settings, epochs=settings.epochs or usual_epochs(folder))
    with alone_in(folder):
        return _train(settings, problem, folder, say, show, teacher)


def _train(
    settings: Settings, problem: Problem, folder: Path, say: Say, show: bool | None, teacher: StreamModel | None
) -> Result:
    if teacher is not None:
        lesson.check(teacher, problem)
    pretrained.require()
    fixed = variants.of_family(settings.variant).fixed
    if fixed:
        kmeans.require()
    device = _device(settings.device)
    config = model_config(settings, problem)
    how, warm = training(settings, problem, config)
    if settings.window > problem.longest:  # short ones count too, so that nothing else would say it
        say(f"no file fills window={settings.window}: the longest has {counted(problem.longest, 'token')}")
    parts = {name: problem.part(name, warm) for name in PARTS}
    how = _paced(how, parts["train"], config)
    torch.manual_seed(settings.seed)
    model = StreamModel(config, problem.info)
    model.input_scaler.fit(parts["train"].x)
    if problem.task.scaled:
        _fit_changes(model, parts["train"].y)
    plan = two_phases(how, len(config.blocks)) if fixed else one_phase(how)
    done = _say_what_is_there(folder, plan, say)
    folder.mkdir(parents=True, exist_ok=True)
    if not done:
        _write(folder / CONFIG, config_text(settings, problem, teacher))
    began = time.monotonic()
    lessons, heard = Lessons(parts["train"], parts["valid"], problem.task), list[str | None]()
    if teacher is not None and not done:
        place = Path(settings.teacher)  # a run folder, or the model in it
        heard = lesson.heard([place / SCORES, place.parent / SCORES])
        say(f"learning from {settings.teacher} too{lesson.doubt(heard, parts['train'])}")
        data, task = lesson.taught(parts["train"], problem, teacher.to(device), how)
        lessons = lessons._replace(train=data, task=task)
    if done:
        model = StreamModel.from_pretrained(folder / MODEL).to(device)
    else:
        model = _trained(settings, lessons, model.to(device), plan, folder / CHECKPOINTS, say, show)
        model.save_pretrained(folder / MODEL)
        _gather_metrics(folder)
    seconds = time.monotonic() - began
    scores: dict[str, dict[str, Scores]] = {}
    for name in PARTS[1:]:
        output, y = predict(model, parts[name], skip=warm, progress=show)
        _say_if_not_finite(output, say)
        scores[name] = {"model": problem.scores(name, warm, output, y), **problem.baselines(name, warm)}
    if not done:
        about: dict[str, Any] = {
            "task": problem.info.task,
            "tokens": {name: len(parts[name].x) for name in PARTS},
            "data": parts["train"].fingerprint,
            "hardware": hardware(),
        }
        about |= {"heard": heard} if heard else {}
        held = json.dumps(plain_numbers(scores | about), indent=2, ensure_ascii=False, allow_nan=False)
        _write(folder / SCORES, held + "\n")
    return Result(model.cpu(), problem, folder, scores, output, warm, seconds)


def evaluate(
    model: StreamModel, problem: Problem, part: PartName = "all", show: bool | None = False, say: Say = print
) -> dict[str, Scores]:
    """The scores of a model that streams over a source, and those of the baselines."""
    warm = warm_up(model.config, TrainConfig(short=problem.short))
    data = problem.part(part, warm)
    longest = int(data.length.max())
    if longest <= warm:
        raise ValueError(f"the source has {longest} rows to forecast from, which do not fill a window of {warm + 1}")
    output, y = predict(model, data, skip=warm, progress=show)
    _say_if_not_finite(output, say)
    return {"model": problem.scores(part, warm, output, y), **problem.baselines(part, warm)}


def model_config(settings: Settings, problem: Problem) -> ModelConfig:
    """The model that is trained first: landmarks are fixed later."""
    record = variants.of_family(settings.variant)
    attention = AttentionConfig(
        "co-cont-single" if record.fixed else record.name,  # phase one
        settings.embed_dim,
        settings.num_heads,
        settings.window,
        settings.landmarks if record.low_rank else None,
    )
    return ModelConfig(
        input_dim=problem.input_dim,
        output_dim=problem.output_dim,
        attention=attention,
        layers=settings.layers,
        ff_dim=2 * settings.embed_dim,
        stack=settings.stack,
        dropout=problem.dropout,
    )


def training(settings: Settings, problem: Problem, config: ModelConfig) -> tuple[TrainConfig, int]:
    """How to train, and how many tokens at the start of a stream only fill a window."""
    how = TrainConfig(
        epochs=settings.epochs or EPOCHS,
        batch_size=settings.batch_size,
        lr=settings.lr,
        seed=settings.seed,
        short=problem.short,
        bf16=False if problem.task.scaled else None,  # errors of a percent of a deviation are too fine for it
    )
    warm = warm_up(config, how)
    if problem.longest <= warm:
        raise ValueError(
            f"window={config.window} is too long: {problem.longest} tokens are there to train on; "
            f"give a shorter one, or more data"
        )
    return how, warm


def epochs_done(folder: Path) -> int:
    """Epochs of all phases whose checkpoints are in a run folder."""
    saved = [checkpoint.load(phase) for phase in (folder / CHECKPOINTS).glob("phase-*")]
    return sum(int(found[1]["progress"]["epoch"]) for found in saved if found is not None)


def history(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    for line in (folder / METRICS).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def plain_numbers(value: Any) -> Any:
    """In what JSON can hold: it knows no NaN."""
    if isinstance(value, dict):
        return {name: plain_numbers(one) for name, one in value.items()}
    return None if isinstance(value, float) and value != value else value


def _trained(
    settings: Settings,
    lessons: Lessons,
    model: StreamModel,
    plan: Plan,
    folder: Path,
    say: Say,
    show: bool | None,
) -> StreamModel:
    options: dict[str, Any] = {"task": lessons.task, "tensorboard": False, "progress": show}
    size = (
        f"{settings.variant}, window {settings.window}"
        + f", {settings.landmarks} landmarks" * model.config.blocks[0].low_rank
    )
    say(f"{size}, {sum(x.numel() for x in model.parameters()):,} parameters")
    say(f"training for {plan}")
    if plan.tuning is not None:
        say(f"training, phase 1 of 2: {counted(plan.first.epochs, 'epoch')}")
    fit(model, lessons.train, lessons.valid, plan.first, folder=folder / "phase-1", **options)
    if plan.tuning is None:
        return model
    each = f", for each of {plan.blocks} blocks" if plan.blocks > 1 else ""
    say(f"training, phase 2 of 2: landmarks are fitted and fixed, {counted(plan.tuning.epochs, 'epoch')}{each}")
    found: StreamModel = fix_landmarks(
        model, lessons.train, lessons.valid, config=plan.tuning, tokens=TOKENS, folder=folder, **options
    )
    return found


def _say_what_is_there(folder: Path, plan: Plan, say: Say) -> bool:
    """Say that a run is resumed, or that it is done; whether it is."""
    scores, done = folder / SCORES, epochs_done(folder)
    if scores.is_file() and (folder / MODEL).is_dir():
        finished = time.strftime("%Y-%m-%d %H:%M", time.localtime(scores.stat().st_mtime))
        say(
            f"{folder} is already trained ({counted(done, 'epoch')}, finished {finished}); its scores are below; "
            f"give another --out to train afresh"
        )
        return True
    if done >= plan.epochs:
        say(f"resuming {folder}: all {counted(done, 'epoch')} are trained, only the scores are missing")
    elif (folder / CONFIG).is_file():
        say(f"resuming {folder} at epoch {done + 1} of {plan.epochs}")
    return False


def _say_if_not_finite(output: Tensor, say: Say) -> None:
    wrong = int((~output.isfinite()).any(1).sum())
    if wrong:
        say(f"the model's output is not finite for {wrong:,} of {counted(len(output), 'token')}, so scores are missing")


def _fit_changes(model: StreamModel, y: Tensor) -> None:
    """Scale the outputs by what is known of the targets."""
    scaler = model.output_scaler
    means, scales = [], []
    for column in y.T:
        known = column[column.isfinite()]
        if not len(known):
            raise ValueError("a target is not known in any row that is trained on")
        one = Scaler(1)
        one.fit(known[:, None])
        means.append(one.mean)
        scales.append(one.scale)
    scaler.set(torch.cat(means), torch.cat(scales))


def _gather_metrics(folder: Path) -> None:
    """One file of the phases' metrics, in order."""
    lines = []
    for phase in sorted((folder / CHECKPOINTS).glob("phase-*"), key=lambda path: (len(path.name), path.name)):
        for line in (phase / METRICS).read_text(encoding="utf-8").splitlines():
            lines.append(json.dumps({"phase": phase.name, **json.loads(line)}) + "\n")
    _write(folder / METRICS, "".join(lines))


def _write(path: Path, text: str) -> None:
    files.write_text(path, text)


def _paced(how: TrainConfig, data: StreamData, config: ModelConfig) -> TrainConfig:
    natural = updates(make_sampler(data, config, how), how)
    return dataclasses.replace(how, steps_per_epoch=min(max(natural, FEWEST), MOST))


def _window(problem: Problem) -> int:
    """The usual window, or what streams can fill: several where the first of each only fills it."""
    window = WINDOW
    if problem.short:
        return min(window, problem.longest)
    while window > LEAST_WINDOW and 4 * window > problem.longest:
        window //= 2
    return window


def _device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device={name!r} is not known; it must be one of auto, cpu, cuda")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise ValueError("device='cuda' needs a GPU that torch can use, and there is none")
    return "cuda" if there and name != "cpu" else "cpu"

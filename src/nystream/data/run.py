"""A training run on your own data: from settings to a folder with the model, its metrics and its scores."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nystream import files, variants
from nystream.config import AttentionConfig, ModelConfig
from nystream.config.checks import positive_int
from nystream.data import expected_time, teaching
from nystream.data.default_window import default_window
from nystream.data.defaults import with_defaults
from nystream.data.forecast_problem import Forecast
from nystream.data.problem import PartName, Problem, Scores
from nystream.data.run_folder import MODEL, check_folder, config_text
from nystream.data.scoring import LogLine, scored, scored_from
from nystream.data.settings import CONFIG, Settings
from nystream.data.starting import finished, untrained
from nystream.data.table import counted
from nystream.landmarks import kmeans
from nystream.models import StreamModel, pretrained
from nystream.provenance import hardware
from nystream.train import TrainConfig, checkpoint
from nystream.train.data import StreamData
from nystream.train.distributed import alone_in
from nystream.train.log import METRICS, plain_numbers
from nystream.train.recipe import LandmarkFit, Phase, Training, divide, phase_one, with_fixed_landmarks
from nystream.train.sampler import sampler as make_sampler
from nystream.train.sampler import updates, warm_up
from nystream.train.tasks import Task

SCORES, CHECKPOINTS, PLOTS = "scores.json", "checkpoints", "plots"
# A small source is read several times in an epoch, a large one in part.
MIN_UPDATES_PER_EPOCH, MAX_UPDATES_PER_EPOCH = 40, 200
LANDMARK_TOKENS = 20_000
SLOW = 3  # times as long for an update as with the default window that are worth a warning
OVERFITS = 0.05  # relative rise of the validation loss that is worth a warning
# Landmarks that are fixed early are trained from there, so the sample need not be large. As they start as pairs, Γ† can
# be left out.
EARLY = LandmarkFit(10_000, method="x", learn_landmarks=True, pinv="none")
AVERAGE = 0.98  # of the weights of a Transformer beside linear regression, which overfits easily


class Result(NamedTuple):
    """The result of a run."""

    model: StreamModel
    problem: Problem
    folder: Path
    scores: dict[str, dict[str, Scores]]  # part -> model or baseline -> scores
    output: Tensor  # [N, output_dim] for the scored tokens of the test part
    warm: int


def train(
    settings: Settings,
    problem: Problem,
    folder: Path,
    log: LogLine = print,
    show: bool | None = None,
    teacher: StreamModel | None = None,
) -> Result:
    """Train and score a model in a folder.

    A run of the same settings in the folder is resumed; one that is finished is only scored again. `teacher` is the
    model of `settings.teacher`.
    """
    if (teacher is None) == bool(settings.teacher):
        raise ValueError("teacher must be the model of settings.teacher: give both, or none")
    check_folder(settings, problem, folder, teacher)
    settings = with_defaults(settings, problem, folder)
    threads = torch.get_num_threads()
    with alone_in(folder):
        try:
            return _train(settings, problem, folder, log, show, teacher)
        finally:
            torch.set_num_threads(threads)


def _train(
    settings: Settings, problem: Problem, folder: Path, log: LogLine, show: bool | None, teacher: StreamModel | None
) -> Result:
    if teacher is not None:
        teaching.check(teacher, problem)
    pretrained.require()
    fixed = variants.get(settings.variant).fixed
    if fixed:
        kmeans.require()
    device = _device(settings.device)
    config = model_config(settings, problem)
    train_config, warm = training(settings, problem, config)
    if settings.window > problem.longest:  # no error: short streams are trained on and scored too
        log(f"no file fills window={settings.window}: the longest has {counted(problem.longest, 'token')}")
    if settings.valid and settings.valid == settings.test:
        log(
            f"valid and test are both {settings.valid}: its scores choose the weights that are kept, so that they may "
            f"be better than those on new data"
        )
    start = problem.start if isinstance(problem, Forecast) else None
    names: tuple[PartName, ...] = ("train", *problem.parts_scored)
    parts = {name: problem.part(name, warm) for name in names}
    train_config = _with_updates(train_config, parts["train"], config)
    torch.manual_seed(settings.seed)
    model = untrained(config, problem, parts["train"], start)
    early = settings.recipe == "early"
    phases = [phase_one(train_config)]
    if fixed:
        phases = divide(train_config, len(config.blocks), shorten=True, at_once=early)
    data, valid, learned_from = parts["train"], parts["valid"], list[str | None]()
    task: Task = problem.task
    done = _log_progress(folder, phases, log)
    if done:
        model = StreamModel.from_pretrained(folder / MODEL).to(device)
    else:
        if teacher is not None:
            run = Path(settings.teacher)  # a run folder, or the model in it
            learned_from = teaching.learned_from([run / SCORES, run.parent / SCORES])
            log(f"also learning from {settings.teacher}{teaching.doubt(learned_from, data)}")
            data, task = teaching.taught(data, problem, teacher.to(device), train_config)
        if isinstance(problem, Forecast) and start is not None:
            data, valid = problem.missed(data, "train", warm), problem.missed(valid, "valid", warm)
        common = Training(
            train=data,
            valid=valid,
            task=task,
            landmark_fit=EARLY._replace(landmarks=settings.landmarks) if early else LandmarkFit(LANDMARK_TOKENS),
            at_once=early,
            folder=folder / CHECKPOINTS,
            tensorboard=False,
            progress=show,
        )
        model = model.to(device)
        if settings.threads < 0:
            threads = expected_time.faster_threads(model, data, task, train_config) if device == "cpu" else 0
            settings = dataclasses.replace(settings, threads=threads)
        torch.set_num_threads(settings.threads or torch.get_num_threads())  # also on resuming: sums depend on it
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / CONFIG).is_file():  # that of an older version stays as it is, as its defaults were others
            files.write_text(folder / CONFIG, config_text(settings, problem, teacher))
        if not epochs_done(folder):
            expected = expected_time.measure(model, data, valid, task, train_config)
            if (usual := default_window(problem)) <= settings.window // 2:
                least = dataclasses.replace(settings, window=usual, landmarks=min(settings.landmarks, usual))
                with torch.random.fork_rng():
                    shorter = untrained(model_config(least, problem), problem, parts["train"], start).to(device)
                times = expected.update / expected_time.update_seconds(shorter, data, task, train_config)
                if times >= SLOW:
                    log(
                        f"window={settings.window} makes each update about {times:.0f} times longer than the default "
                        f"of {usual}"
                    )
            seconds = expected.run(train_config, sum(phase.config.epochs for phase in phases))
            update = f"{max(1000 * expected.update, 1):.0f} ms per update"
            update += f" with {counted(torch.get_num_threads(), 'thread')}" if device == "cpu" else ""
            log(f"training will take {expected_time.told(seconds)}: {update}")
        model = _run_phases(settings, common, model, phases, log)
        log_if_worse(folder / CHECKPOINTS / phases[-1].folder, log)
        model = finished(model, config, problem, log)
        model.save_pretrained(folder / MODEL)
        _gather_metrics(folder, phases)
    scores: dict[str, dict[str, Scores]] = {}
    classes: dict[str, Any] = {}
    series: dict[str, dict[str, Scores]] = {}
    window = warm
    for name in problem.parts_scored:  # the test data last: their outputs are part of the result
        warm = scored_from(model, problem, name, window)
        output, scores[name] = scored(model, problem, name, warm, log, show)
        if (found := problem.class_scores(name, output)) is not None:
            classes[name] = found.to_dict()
        if isinstance(problem, Forecast) and (found_series := problem.series_scores(name, warm, output)):
            series[name] = found_series
    if start is not None and isinstance(problem, Forecast) and problem.trees[1]:
        log(problem.trees[1])
    if not done:
        record: dict[str, Any] = scores | {
            "task": problem.info.task,
            "tokens": {name: len(parts[name].x) for name in names},
            "data": parts["train"].fingerprint,
            "hardware": hardware(),
        }
        record |= {"classes": classes} if classes else {}
        record |= {"series": series} if series else {}
        record |= {"heard": learned_from} if learned_from else {}
        text = json.dumps(plain_numbers(record), indent=2, ensure_ascii=False, allow_nan=False)
        files.write_text(folder / SCORES, text + "\n")
    return Result(model.cpu(), problem, folder, scores, output, warm)


def with_landmarks(
    model: StreamModel, problem: Problem, landmarks: int, tokens: int, seed: int = 0, show: bool | None = None
) -> StreamModel:
    """A copy of a trained model with fixed landmarks in every block, fitted one after another without fine-tuning."""
    positive_int("landmarks", landmarks)
    paired = any(cfg.pinv == "none" for cfg in model.config.blocks)
    data = problem.part("all", 0)
    fit = LandmarkFit(tokens, "x" if paired else "qk", landmarks=landmarks)
    for block in range(len(model.config.blocks)):
        batches = data.batches(update_size=model.config.update_size)
        (model,) = with_fixed_landmarks([model], block, [batches], fit, [seed], progress=show)
    return model.eval()


def model_config(settings: Settings, problem: Problem) -> ModelConfig:
    """The model of phase one; fixed landmarks come later."""
    record = variants.get(settings.variant)
    decay = settings.decay == "yes"
    if record.fixed:
        record = variants.get("co-full" if settings.recipe == "early" else variants.continual_form(record.name))
    attention = AttentionConfig(
        record.name,
        settings.embed_dim,
        settings.num_heads,
        settings.window,
        settings.landmarks if record.low_rank else None,
        decay=decay,
    )
    return ModelConfig(
        input_dim=problem.input_dim,
        output_dim=problem.output_dim,
        attention=attention,
        layers=settings.layers,
        ff_dim=2 * settings.embed_dim,
        stack=settings.stack,
        dropout=settings.dropout,
        # Forecasts need to know how long ago something was; classes were found better with decay alone.
        positions="none" if decay and not problem.task.scaled else "learned",
        linear=problem.start.config if isinstance(problem, Forecast) and problem.start is not None else None,
    )


def training(settings: Settings, problem: Problem, config: ModelConfig) -> tuple[TrainConfig, int]:
    """How to train, and the number of tokens at the start of a stream that only fill the window."""
    train_config = TrainConfig(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        lr=settings.lr,
        seed=settings.seed,
        short=problem.short,
        bf16=False if problem.task.scaled else None,  # forecasts need more precision than bfloat16 has
        patience=settings.patience or None,
        weight_decay=settings.weight_decay,
        average=AVERAGE if config.linear is not None else TrainConfig.average,
    )
    warm = warm_up(config, train_config)
    if problem.longest <= warm:
        raise ValueError(
            f"window={config.window} is too long for streams of at most {problem.longest} tokens; "
            f"give a shorter one, or more data"
        )
    return train_config, warm


def epochs_done(folder: Path) -> int:
    """The number of epochs, over all phases, that are saved in a run folder."""
    saved = filter(None, map(checkpoint.load, (folder / CHECKPOINTS).glob("phase-*")))
    return sum(int(about["progress"]["epoch"]) for _, about in saved)


def history(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    for line in (folder / METRICS).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def log_if_worse(folder: Path, log: LogLine) -> None:
    """Say so if a phase was best early, and its validation loss then rose: the model overfits."""
    losses = [line["valid"][0]["loss"] for line in history(folder)]
    if len(losses) < 4 or not all(map(math.isfinite, losses)):
        return
    best = min(range(len(losses)), key=losses.__getitem__)
    if best < len(losses) // 2 and losses[-1] > (1 + OVERFITS) * losses[best]:
        rise = losses[-1] / losses[best] - 1
        log(
            f"the validation loss was lowest after epoch {best + 1} of {len(losses)} of this phase, and rose by "
            f"{rise:.0%} since: the model overfits; the best weights are kept; more data, a smaller `embed_dim` or "
            f"more `dropout` may help"
        )


def _run_phases(
    settings: Settings, common: Training, model: StreamModel, phases: Sequence[Phase], log: LogLine
) -> StreamModel:
    landmarks = f", {counted(settings.landmarks, 'landmark')}" if settings.landmarks else ""
    landmarks += ", decay" if settings.decay == "yes" else ""
    parameters = sum(x.numel() for x in model.parameters())
    blocks = counted(settings.layers, "block")
    log(f"{settings.variant}, {blocks}, window {settings.window}{landmarks}, {parameters:,} parameters")
    (first, *second), epochs = phases, sum(phase.config.epochs for phase in phases)
    plan = f"{counted(epochs, 'epoch')} of {counted(first.config.steps_per_epoch or 0, 'update')}"
    if not second:
        log(f"training for {plan}")
        return common.run(model, phases)
    common.check([model], first.config, second[0].config)
    if settings.epochs < len(phases):
        log(
            f"epochs={settings.epochs} is less than the number of training phases, {len(phases)}: each has a shorter "
            f"epoch, with {counted(settings.epochs, 'epoch')} of updates in total"
        )
    each = f"for each of {len(second)} blocks"
    tuned, many = second[0].config.epochs, len(second) > 1
    kind = "continual landmarks" if model.config.blocks[0].low_rank else "full attention"
    log(
        f"training for {plan}: {first.config.epochs} with {kind}, then {tuned} with fixed landmarks" + f" {each}" * many
    )
    log(f"training, phase 1 of 2: {counted(first.config.epochs, 'epoch')}")
    model = common.run(model, [first])
    log(f"training, phase 2 of 2: landmarks are fitted and fixed, {counted(tuned, 'epoch')}" + f", {each}" * many)
    return common.run(model, second)


def _log_progress(folder: Path, phases: Sequence[Phase], log: LogLine) -> bool:
    """Log that a run is resumed or finished; return whether it is finished."""
    scores, done, epochs = folder / SCORES, epochs_done(folder), sum(phase.config.epochs for phase in phases)
    if scores.is_file() and (folder / MODEL).is_dir():
        finished = time.strftime("%Y-%m-%d %H:%M", time.localtime(scores.stat().st_mtime))
        log(
            f"{folder} is already trained ({counted(done, 'epoch')}, finished {finished}); its scores are below; "
            f"give another `out` to train afresh"
        )
        return True
    if done >= epochs:
        log(f"resuming {folder}: all {counted(done, 'epoch')} are trained, only the scores are missing")
    elif (folder / CONFIG).is_file():
        log(f"resuming {folder} at epoch {done + 1} of {epochs}")
    return False


def _gather_metrics(folder: Path, phases: Sequence[Phase]) -> None:
    """Write the metrics of all phases into one file."""
    lines = []
    for phase in phases:
        for line in history(folder / CHECKPOINTS / phase.folder):
            lines.append(json.dumps({"phase": phase.folder, **line}) + "\n")
    files.write_text(folder / METRICS, "".join(lines))


def _with_updates(train_config: TrainConfig, data: StreamData, config: ModelConfig) -> TrainConfig:
    """The config with a number of updates per epoch that is neither small nor large."""
    count = updates(make_sampler(data, config, train_config), train_config)
    steps = min(max(count, MIN_UPDATES_PER_EPOCH), MAX_UPDATES_PER_EPOCH)
    return dataclasses.replace(train_config, steps_per_epoch=steps)


def _device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device={name!r} is not known; it must be one of auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' needs a GPU that torch can use, and there is none")
    return "cuda" if torch.cuda.is_available() and name != "cpu" else "cpu"

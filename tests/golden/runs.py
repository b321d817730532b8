"""The training runs of the golden files: their losses and scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import nystream as ns
from tests.golden.cases import TWO, WINDOW, model_case, numbers


def windows(count: int, phase: float) -> ns.train.WindowData:
    """Windows of three classes: which number is the largest, on average over the window."""
    x = numbers((count, WINDOW, 3), phase)
    y = torch.arange(count) % 3
    return ns.train.WindowData(x + 0.5 * torch.nn.functional.one_hot(y, 3)[:, None], y)


def streams(count: int, phase: float, classes: bool = False) -> ns.train.StreamData:
    """Streams whose targets are two means over their last tokens, or the class of the largest number."""
    x = [numbers((70 + 9 * i, 3), phase + i) for i in range(count)]
    smooth = [(y + y.roll(1, 0) + y.roll(2, 0)) / 3 for y in x]
    return ns.train.StreamData(x, [y.argmax(-1) if classes else y[:, :2] for y in smooth])


FORECASTING = ns.train.Forecasting()

RUNS: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "windows, co-full-single": (
        {"variant": "co-full-single", "output_dim": 3},
        {"batch_size": 8},
        ns.train.Classification(),
    ),
    "windows, nystrom, short": (
        {"variant": "nystrom", "blocks": TWO, "output_dim": 3},
        {"batch_size": 8, "short": 0.5, "schedule": "constant"},
        ns.train.Classification(label_smoothing=0.1),
    ),
    "windows of streams, paper": (
        {"blocks": TWO, "stack": "paper"},
        {"through": "windows", "schedule": "plateau", "plateau_patience": 1, "clip": None},
        FORECASTING,
    ),
    "pieces of streams, averaged weights": (
        {"blocks": TWO, "linear": ns.LinearConfig(segments=(1, 4, 2))},
        {"average": 0.9, "context": WINDOW, "piece": 24},
        FORECASTING,
    ),
    "pieces of streams, quantiles": (
        {"variant": "co-full-single", "blocks": TWO, "decay": True},
        {"warmup": 0.3, "weight_decay": 0.1},
        ns.train.Forecasting(quantiles=(0.25, 0.75)),
    ),
    "pieces of streams, detection": (
        {"variant": "co-cont-single", "blocks": TWO, "output_dim": 3},
        {"short": 0.5, "piece": 36},
        ns.train.Detection(),
    ),
}


def trained(name: str) -> dict[str, Any]:
    """Losses and scores of a short run of `fit`."""
    options, how, task = RUNS[name]
    if isinstance(task, ns.train.Classification):
        train, valid = windows(24, 0.3), windows(12, 0.8)
    else:
        train, valid = (streams(n, p, isinstance(task, ns.train.Detection)) for n, p in ((3, 0.3), (2, 0.8)))
    config = ns.train.TrainConfig(**{"epochs": 3, "steps_per_epoch": 4, "batch_size": 2, "lr": 5e-3} | how)
    result = ns.train.fit(model_case(gain=0.5, **options).module.requires_grad_(), train, valid, config, task=task)
    losses = [line["train_loss"] for line in result.history]
    return {"train_loss": losses, **result.best, "best_epoch": result.best_epoch}


def two_phases(at_once: bool) -> dict[str, Any]:
    """Scores of a model with fixed landmarks, fitted and fine-tuned after it was trained without."""
    model = model_case("co-cont-single", gain=0.5, blocks=TWO).module.requires_grad_()
    config = ns.train.TrainConfig(epochs=2, steps_per_epoch=4, batch_size=2, lr=5e-3)
    how = {"method": "x", "at_once": True, "learn_landmarks": True} if at_once else {}
    fixed = ns.train_two_phase(model, streams(3, 0.3), task=FORECASTING, config=config, **how)
    return ns.train.evaluate(fixed, streams(2, 0.8), FORECASTING)


def landmarks() -> dict[str, Any]:
    """What `fit_landmarks` reports of both blocks of a model, and the scores of its outputs then."""
    model, data = model_case(gain=0.5, blocks=TWO).module, streams(3, 0.3)
    reports = [ns.fit_landmarks(model, data, tokens=150, layer=layer) for layer in (0, 1)]
    inertia = [[*report.q_inertia, *report.k_inertia] for report in reports]
    seen = [[report.tokens_seen, report.tokens_used] for report in reports]
    return {"inertia": inertia, "tokens": seen, **ns.train.evaluate(model, data, FORECASTING)}


TRAINING: dict[str, Callable[[], dict[str, Any]]] = {
    **{f"fit, {name}": partial(trained, name) for name in RUNS},
    "train_two_phase": partial(two_phases, at_once=False),
    "train_two_phase, at once, learned landmarks": partial(two_phases, at_once=True),
    "fit_landmarks": landmarks,
}

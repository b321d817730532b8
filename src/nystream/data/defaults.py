"""The defaults of a run: those that its source decides, and the others. A run of an older version keeps its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

from nystream import variants
from nystream.data.default_window import WINDOW, default_window, older_default
from nystream.data.forecast_problem import Forecast
from nystream.data.labelled import Labelled
from nystream.data.problem import Problem
from nystream.data.settings import ALL_PHASES, CONFIG, Settings, read_config
from nystream.train import TrainConfig

LANDMARKS = 4  # or the window where that is shorter
EPOCHS, LAYERS, PATIENCE = 18, 2, 6
OLD_EPOCHS = 12  # of version 0.1, which counted those of phase one alone
# What linear regression misses is mostly noise, so that a Transformer beside it overfits easily.
WEIGHT_DECAY_BESIDE_LINEAR = 0.05


def with_defaults(settings: Settings, problem: Problem, folder: Path | None = None) -> Settings:
    """The settings with all defaults filled in; `folder` may have a run, perhaps of an older version."""
    config = None if folder is None else folder / CONFIG
    old = read_config(config) if config is not None and config.is_file() else {}
    text = config.read_text(encoding="utf-8") if config is not None and old else ALL_PHASES
    epochs = EPOCHS if ALL_PHASES in text or f"\nepochs = {OLD_EPOCHS}\n" not in text else int(old["epochs"])
    older = bool(old) and "\nrecipe = " not in text
    layers = settings.layers or (old.get("layers", 1) if older else LAYERS)
    can_decay = layers == 1 or settings.stack == "deep"
    chosen: dict[str, Any] = {"decay": "yes" if can_decay else "no", "recipe": "early"}
    if older:
        chosen = {name: old[name] for name in chosen}
    patience = settings.patience if settings.patience >= 0 else old.get("patience", 0) if old else PATIENCE
    chosen |= {name: getattr(settings, name) for name in chosen if getattr(settings, name) != "auto"}
    if chosen["decay"] == "yes" and not can_decay:
        raise ValueError(
            f"decay='yes' does not go with {layers} blocks of `stack='paper'`: give `stack='deep'` or `layers=1`"
        )
    window = settings.window or _older_window(old, problem) or default_window(problem)
    linear: Literal["yes", "no"] = "yes" if _is_linear(problem) else "no"
    chosen |= {"epochs": settings.epochs or epochs, "layers": layers, "patience": patience, "linear": linear}
    chosen |= {"threads": old.get("threads", 0)} if old and settings.threads < 1 else {}
    chosen |= {"window": window, "landmarks": _landmarks(settings, problem, window)}
    chosen |= {name: value for name, value in regularization(problem).items() if getattr(settings, name) < 0}
    return dataclasses.replace(settings, **chosen)


def regularization(problem: Problem) -> dict[str, float]:
    """Dropout and weight decay, unless they are given."""
    beside_linear = isinstance(problem, Forecast) and problem.start is not None
    weight_decay = WEIGHT_DECAY_BESIDE_LINEAR if beside_linear else TrainConfig.weight_decay
    return {"dropout": problem.dropout, "weight_decay": weight_decay}


def _is_linear(problem: Problem) -> bool:
    forecasts = isinstance(problem, Forecast) and problem.start is not None
    return forecasts or (isinstance(problem, Labelled) and problem.linear)


def _landmarks(settings: Settings, problem: Problem, window: int) -> int:
    if not variants.get(settings.variant).low_rank:
        return 0
    landmarks = settings.landmarks or min(LANDMARKS, window, _distinct(problem))
    if landmarks > window:
        origin = "" if settings.window else ", the default for this source"
        raise ValueError(
            f"landmarks={landmarks} must be at most window={window}{origin}: give fewer landmarks, or a longer window"
        )
    return landmarks


def _older_window(old: dict[str, Any], problem: Problem) -> int:
    """The window of a run of an older version that had its default; 0 for any other run, or none."""
    # Newer files have the dropout and the weight decay that were used.
    is_older = bool(old) and -1.0 in (old.get("dropout", -1.0), old.get("weight_decay", -1.0))
    return int(old["window"]) if is_older and old["window"] == older_default(problem) else 0


def _distinct(problem: Problem) -> int:
    """The number of distinct tokens among the first ones that are trained on; there cannot be more landmarks."""
    return len(problem.part("train", 0).x[:WINDOW].unique(dim=0))

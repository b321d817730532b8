"""A teacher for a run: a model trained on the same data, whose outputs the new model also learns from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nystream.data.problem import Problem
from nystream.models import StreamModel
from nystream.train import Distillation, TrainConfig, distilled
from nystream.train.data import StreamData
from nystream.train.sampler import warm_up
from nystream.train.tasks import Task

# Fields of ModelInfo that teacher and student must share.
SHARED = ("task", "inputs", "labels", "units", "horizon", "seconds", "several", "horizons", "quantiles", "minimum")
POLICIES = ("missing", "gaps")  # of a reader: they do not change what a token is


def check(teacher: StreamModel, problem: Problem) -> None:
    """Raise if the teacher was trained for another task, or on tokens that were made in another way."""
    theirs, ours = dataclasses.asdict(teacher.info), dataclasses.asdict(problem.info)
    different = [
        f"{name} is {_short(theirs[name])} there and {_short(ours[name])} here"
        for name in SHARED
        if theirs[name] != ours[name]
    ]
    if different:
        raise ValueError(
            f"teacher was trained for another task: {', '.join(different)}; train it on this source, with the same "
            f"options"
        )
    # The teacher reads the student's tokens, which mean nothing to it unless its own were made in the same way.
    theirs, ours = (info.reader or {} for info in (teacher.info, problem.info))
    different = [name for name in {**theirs, **ours} if name not in POLICIES and theirs.get(name) != ours.get(name)]
    if different:
        raise ValueError(
            f"teacher was trained on rows that were read in another way ({', '.join(different)}); train it on this "
            f"source as it is now, with the same options"
        )


def taught(
    data: StreamData, problem: Problem, teacher: StreamModel, train_config: TrainConfig
) -> tuple[StreamData, Task]:
    """The training data with the teacher's outputs beside the targets, and the task that learns from both."""
    return distilled(data, teacher, skip=warm_up(teacher.config, train_config)), Distillation(problem.task)


def learned_from(scores: Sequence[Path]) -> list[str | None]:
    """Hashes of the data that a teacher and its own teachers were trained on; None if unknown.

    `scores` are the places where the scores file of the teacher's run may be.
    """
    path = next((path for path in scores if path.is_file()), None)
    try:
        record: Any = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = {}
    return [record.get("data"), *record.get("heard", [])] if isinstance(record, dict) else [None]


def doubt(learned_from: Sequence[str | None], data: StreamData) -> str:
    """A warning if the teacher may have seen the data that the new model is scored on; else empty."""
    if set(learned_from) == {data.fingerprint}:
        return ""
    reason = "it is not known what it was trained on" if None in learned_from else "it was trained on other rows"
    return f"; {reason}, so scores are fair only if it has not seen the test part"


def _short(value: object) -> str:
    if not isinstance(value, tuple):
        return repr(value)
    if not value:
        return "nothing"
    return ", ".join(map(str, value[:3])) + (f" and {len(value) - 3} more" if len(value) > 3 else "")

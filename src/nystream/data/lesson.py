"""A teacher for a run: another model on the same data, from whose outputs the new one learns too."""

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

SAME = ("task", "inputs", "labels", "units", "horizon", "seconds", "several")  # of what teacher and pupil are about
POLICIES = ("missing", "gaps")  # of a reader: they do not change what a token is


def check(teacher: StreamModel, problem: Problem) -> None:
    """Refuse a teacher of something else."""
    theirs, ours = dataclasses.asdict(teacher.info), dataclasses.asdict(problem.info)
    different = [name for name in SAME if theirs[name] != ours[name]]
    if different:
        said = ", ".join(f"{name} is {_short(theirs[name])} there and {_short(ours[name])} here" for name in different)
        raise ValueError(
            f"teacher is a model of something else: {said}; train it on this source, with the same options"
        )
    # The teacher is given the pupil's tokens: where it was trained on tokens made in another way, they tell it nothing.
    theirs, ours = (info.reader or {} for info in (teacher.info, problem.info))
    different = [name for name in {**theirs, **ours} if name not in POLICIES and theirs.get(name) != ours.get(name)]
    if different:
        raise ValueError(
            f"teacher was trained on rows that were read in another way ({', '.join(different)}); train it on this "
            f"source as it is now, with the same options"
        )


def taught(data: StreamData, problem: Problem, teacher: StreamModel, how: TrainConfig) -> tuple[StreamData, Task]:
    """The training data with the teacher's outputs beside the targets, and the task that learns from both."""
    return distilled(data, teacher, skip=warm_up(teacher.config, how)), Distillation(problem.task)


def heard(scores: Sequence[Path]) -> list[str | None]:
    """Hashes of all that a teacher and its own teachers learned from; None where nothing says so.

    `scores` are the places where the file of its run may be.
    """
    held = next((path for path in scores if path.is_file()), None)
    try:
        known: Any = {} if held is None else json.loads(held.read_text(encoding="utf-8"))
    except ValueError:
        known = {}  # a file that cannot be read says nothing
    return [known.get("data"), *known.get("heard", [])] if isinstance(known, dict) else [None]


def doubt(heard: Sequence[str | None], data: StreamData) -> str:
    """What to say of a teacher that may have seen what the new model is scored by."""
    if set(heard) == {data.fingerprint}:
        return ""
    what = "nothing says what it was trained on" if None in heard else "it was trained on other rows"
    return f"; {what}, so scores are fair only if it has not seen the test part"


def _short(value: object) -> str:
    if not isinstance(value, tuple):
        return repr(value)
    if not value:
        return "nothing"
    return ", ".join(value[:3]) + (f" and {len(value) - 3} more" if len(value) > 3 else "")

"""A teacher for a run: another model on the same data, from whose outputs the new one learns too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from nystream.data.problem import Problem
from nystream.models import StreamModel
from nystream.train import Distillation, TrainConfig, distilled
from nystream.train.data import StreamData
from nystream.train.sampler import warm_up
from nystream.train.tasks import Task

SAME = ("task", "inputs", "labels", "horizon", "seconds", "several")  # of what teacher and pupil are about


def check(teacher: StreamModel, problem: Problem) -> None:
    """Refuse a teacher of something else."""
    theirs, ours = dataclasses.asdict(teacher.info), dataclasses.asdict(problem.info)
    different = [name for name in SAME if theirs[name] != ours[name]]
    if different:
        said = ", ".join(f"{name} is {_short(theirs[name])} there and {_short(ours[name])} here" for name in different)
        raise ValueError(
            f"teacher is a model of something else: {said}; train it on this source, with the same options"
        )


def taught(data: StreamData, problem: Problem, teacher: StreamModel, how: TrainConfig) -> tuple[StreamData, Task]:
    """The training data with the teacher's outputs beside the targets, and the task that learns from both."""
    return distilled(data, teacher, skip=warm_up(teacher.config, how)), Distillation(problem.task)


def doubt(scores: Sequence[Path], data: StreamData) -> str:
    """What to say of a teacher that may have seen what the new model is scored by; its run has one of these files."""
    held = next((path for path in scores if path.is_file()), None)
    known = None if held is None else json.loads(held.read_text(encoding="utf-8")).get("data")
    if known == data.fingerprint:
        return ""
    if known is None:
        return "; nothing says what it was trained on, so scores are fair only if it has not seen the test part"
    return "; it was trained on other rows, so scores are fair only if it has not seen the test part"


def _short(value: object) -> str:
    if not isinstance(value, tuple):
        return repr(value)
    return ", ".join(value[:3]) + (f" and {len(value) - 3} more" if len(value) > 3 else "")

"""The three tasks of the paper: one module each, imported when it is needed."""

from __future__ import annotations

from importlib import import_module

from nystream.lab.reproduce.problems.problem import MAX_SEEDS, CellRun, Loaded, PaperProblem

TASKS = ("gtzan", "thumos14", "electricity")

__all__ = ["MAX_SEEDS", "TASKS", "CellRun", "Loaded", "PaperProblem", "problem"]


def problem(task: str) -> PaperProblem:
    """The problem of a task."""
    if task not in TASKS:
        raise ValueError(f"task={task!r} must be one of {', '.join(TASKS)}")
    problem: PaperProblem = import_module(f"nystream.lab.reproduce.problems.{task}").PROBLEM
    return problem

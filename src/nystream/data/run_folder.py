"""Where a run goes: a folder that is free, or holds the same run, which then goes on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from nystream.data.problem import Problem
from nystream.data.settings import Settings, read_config

CONFIG = "config.toml"


def check_folder(settings: Settings, problem: Problem, folder: Path) -> None:
    """Refuse a folder that holds another run, or something else."""
    held = folder / CONFIG
    if held.is_file():
        # An older file may lack a setting that was added since.
        usual = {field.name: field.default for field in dataclasses.fields(Settings)}
        theirs, ours = usual | read_config(held), dataclasses.asdict(settings)
        different = [name for name, value in ours.items() if _listed(theirs[name]) != _listed(value)]
        if different:
            said = ", ".join(f"{name} is {theirs[name]!r} there and {ours[name]!r} here" for name in different)
            raise ValueError(f"out={folder} holds a run of other settings: {said}; give another folder")
        if held.read_text(encoding="utf-8").partition("\n")[0] != _about_data(problem):
            raise ValueError(
                f"out={folder} holds a run on other data: {settings.source} has changed since; give another folder"
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out={folder} is there and holds no run; give another folder")


def free_folder(settings: Settings, problem: Problem, base: Path) -> Path:
    """The first of runs/NAME, runs/NAME-2, … that is free or holds a run of the same settings on the same data."""
    number = 1
    while True:
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            check_folder(settings, problem, folder)
        except ValueError:
            number += 1
        else:
            return folder


def config_text(settings: Settings, problem: Problem) -> str:
    """The config file of a run; what data it was on is a comment, of no use to other data."""
    return f"{_about_data(problem)}\n{settings.to_toml()}"


def _about_data(problem: Problem) -> str:
    return f"# tokens and targets {problem.fingerprint}"


def _listed(value: Any) -> Any:
    """A setting as a file gives it back, where pairs are lists."""
    return list(value) if isinstance(value, tuple) else value

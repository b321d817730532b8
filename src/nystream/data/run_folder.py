"""Where a run goes: a folder that is free, or holds the same run, which then goes on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from nystream import files
from nystream.config import ModelInfo
from nystream.data.budget import EPOCHS
from nystream.data.problem import Problem
from nystream.data.settings import ALL_PHASES, DATA, Settings, read_config
from nystream.models import StreamModel
from nystream.train.data import fingerprint

CONFIG, MODEL = "config.toml", "model"
OLD_EPOCHS = 12  # of the first phase, unless told, in older versions


def check_folder(settings: Settings, problem: Problem, folder: Path, teacher: StreamModel | None = None) -> None:
    """Refuse a folder that holds another run, or something else."""
    held = folder / CONFIG
    if held.is_file():
        # An older file may lack a setting that was added since.
        usual = {field.name: field.default for field in dataclasses.fields(Settings)}
        theirs, ours = usual | read_config(held), dataclasses.asdict(settings)
        ours["epochs"] = ours["epochs"] or usual_epochs(folder)
        if theirs["variant"] == "co-full":
            theirs["landmarks"] = 0  # older files have a number that meant nothing
        different = [name for name, value in ours.items() if _listed(theirs[name]) != _listed(value)]
        if different:
            said = ", ".join(f"{name} is {theirs[name]!r} there and {ours[name]!r} here" for name in different)
            raise ValueError(f"out={folder} holds a run of other settings: {said}; {_advice(different, theirs, held)}")
        for what, changed, line in (
            ("on other data", settings.source, _data(problem)),
            ("with another teacher", settings.teacher, _teacher(teacher)),
        ):
            if line not in held.read_text(encoding="utf-8"):
                raise ValueError(f"out={folder} holds a run {what}: {changed} has changed since; give another folder")
    elif folder.exists() and (not folder.is_dir() or not all(map(files.is_remnant, folder.iterdir()))):
        raise ValueError(f"out={folder} is there and holds no run; give another folder")


def _advice(different: list[str], theirs: dict[str, Any], held: Path) -> str:
    """What to do about settings that differ. The command that began the run of an older version must get further."""
    if different != ["epochs"] or ALL_PHASES in held.read_text(encoding="utf-8"):
        return "give another folder"
    return (
        f"the run is of an older version, which did not count those of the second phase: "
        f"give --epochs {theirs['epochs']} to resume it, or another folder"
    )


def free_folder(settings: Settings, problem: Problem, base: Path, teacher: StreamModel | None = None) -> Path:
    """The first of runs/NAME, runs/NAME-2, … that is free or holds a run of the same settings on the same data."""
    number = 1
    while True:
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            check_folder(settings, problem, folder, teacher)
        except ValueError:
            number += 1
        else:
            return folder


def usual_epochs(folder: Path) -> int:
    """Epochs of a run in this folder unless told: those of the run of an older version that is there, if it was not
    told either, or the usual ones."""
    held = folder / CONFIG
    text = held.read_text(encoding="utf-8") if held.is_file() else ALL_PHASES
    if ALL_PHASES in text or f"\nepochs = {OLD_EPOCHS}\n" not in text:
        return EPOCHS
    return int(read_config(held)["epochs"])


def info_of(info: ModelInfo, folder: Path) -> ModelInfo:
    """What is known of the model in a folder, with what older versions wrote only into the config file of its run."""
    held = folder.parent / CONFIG
    if folder.name != MODEL or not held.is_file():
        return info
    settings = read_config(held)
    if info.background is None and settings.get("background"):
        info = dataclasses.replace(info, background=settings["background"])
    if info.file_seconds is None and (info.reader or {}).get("kind") == "audio":
        info = dataclasses.replace(info, file_seconds=settings.get("seconds"))
    return info


def config_text(settings: Settings, problem: Problem, teacher: StreamModel | None = None) -> str:
    """The config file of a run; what data it was on, and who taught it, are comments, of no use to other data."""
    return _data(problem) + _teacher(teacher) + settings.to_toml()


def _data(problem: Problem) -> str:
    return f"{DATA}{problem.fingerprint}\n"


def _teacher(teacher: StreamModel | None) -> str:
    return "" if teacher is None else f"# teacher {fingerprint(*teacher.state_dict().values())}\n"


def _listed(value: Any) -> Any:
    """A setting as a file gives it back, where pairs are lists."""
    return list(value) if isinstance(value, tuple) else value

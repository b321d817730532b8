"""The folder of a run: an empty one, or one with the same run, which is then resumed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from nystream import files
from nystream.config import ModelInfo
from nystream.data.defaults import regularization, with_defaults
from nystream.data.problem import Problem
from nystream.data.settings import ALL_PHASES, CONFIG, DATA, Settings, paths_in, read_config
from nystream.models import StreamModel
from nystream.train.data import fingerprint

MODEL = "model"


def check_folder(settings: Settings, problem: Problem, folder: Path, teacher: StreamModel | None = None) -> None:
    """Raise if the folder has another run, or anything else."""
    config = folder / CONFIG
    if config.is_file():
        defaults: dict[str, Any] = {
            field.name: field.default for field in dataclasses.fields(Settings)
        }  # for fields older files lack
        defaults["patience"] = 0
        theirs, ours = defaults | read_config(config), dataclasses.asdict(with_defaults(settings, problem, folder))
        # Older files have -1 for the default.
        theirs |= {name: value for name, value in regularization(problem).items() if theirs[name] < 0}
        if theirs["variant"] == "co-full":
            theirs["landmarks"] = 0  # older files have a number without meaning
        different = [name for name, value in ours.items() if _as_in_file(theirs[name]) != _as_in_file(value)]
        if different:
            differences = ", ".join(f"{name} is {theirs[name]!r} there and {ours[name]!r} here" for name in different)
            advice = _advice(different, theirs, config)
            raise ValueError(f"out={folder} contains a run with other settings: {differences}; {advice}")
        for what, changed, line in (
            ("on other data", _sources(settings), _data_line(problem)),
            ("with another teacher", settings.teacher, _teacher_line(teacher)),
        ):
            if line not in config.read_text(encoding="utf-8"):
                raise ValueError(f"out={folder} contains a run {what}: {changed} has changed; give another folder")
    elif folder.exists() and (not folder.is_dir() or not all(map(files.is_remnant, folder.iterdir()))):
        raise ValueError(f"out={folder} exists and is not a run; give another folder")


def _advice(different: list[str], theirs: dict[str, Any], config: Path) -> str:
    """What to do about settings that differ: version 0.1 counted epochs differently, so its command needs a change.

    It had no linear path either, and another default window.
    """
    if different in (["linear"], ["window"]):
        (name,) = different
        return f"give `{name}={theirs[name]!r}` to resume it, or another folder"
    if different != ["epochs"] or ALL_PHASES in config.read_text(encoding="utf-8"):
        return "give another folder"
    return (
        f"the run is from an older version, which did not count the epochs of the second phase: "
        f"give `epochs={theirs['epochs']}` to resume it, or another folder"
    )


def free_folder(settings: Settings, problem: Problem, base: Path, teacher: StreamModel | None = None) -> Path:
    """The first of runs/NAME, runs/NAME-2, … that is free or has a run of the same settings on the same data."""
    folder, number = base, 1
    while True:
        try:
            check_folder(settings, problem, folder, teacher)
        except ValueError:
            number += 1
            folder = base.with_name(f"{base.name}-{number}")
        else:
            return folder


def info_of(info: ModelInfo, folder: Path) -> ModelInfo:
    """The model's info, with fields that version 0.1 wrote only into the config file of the run."""
    config = folder.parent / CONFIG
    if folder.name != MODEL or not config.is_file():
        return info
    settings = read_config(config)
    if info.background is None and settings.get("background"):
        info = dataclasses.replace(info, background=settings["background"])
    if info.file_seconds is None and (info.reader or {}).get("kind") == "audio":
        info = dataclasses.replace(info, file_seconds=settings.get("seconds"))
    return info


def config_text(settings: Settings, problem: Problem, teacher: StreamModel | None = None) -> str:
    """The config file of a run. Hashes of its data and teacher are comments, so the file can be used with others."""
    return _data_line(problem) + _teacher_line(teacher) + settings.to_toml()


def _sources(settings: Settings) -> str:
    """All that the data were read from."""
    source = ", ".join(map(str, paths_in(settings.source)))
    return " or ".join(filter(None, (source, settings.valid, settings.test)))


def _data_line(problem: Problem) -> str:
    return f"{DATA}{problem.fingerprint}\n"


def _teacher_line(teacher: StreamModel | None) -> str:
    return "" if teacher is None else f"# teacher {fingerprint(*teacher.state_dict().values())}\n"


def _as_in_file(value: Any) -> Any:
    """A setting as it is read from a file, where tuples are lists."""
    return list(value) if isinstance(value, tuple) else value

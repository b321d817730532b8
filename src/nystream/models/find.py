"""Finding a model by name: a run folder, a model folder, or a model of the package."""

from __future__ import annotations

import os
from pathlib import Path

CONFIG = "config.json"
MODEL_FOLDER = "model"  # of a run folder

# name -> folder written by save_pretrained
PACKAGED: dict[str, Path] = {
    "demand": Path(__file__).parent / "packaged" / "demand",  # made by tools/packaged_model.py
}


def found(name: str | os.PathLike[str]) -> Path | None:
    """Return the folder with the model's files, or None. A model in a folder takes precedence over the package's."""
    folder = Path(os.path.expanduser(name))
    candidates = (folder, folder / MODEL_FOLDER)
    return next((place for place in candidates if (place / CONFIG).is_file()), PACKAGED.get(str(name)))


def folder_of(name: str) -> Path:
    """Return the folder with the model's files."""
    folder = found(name)
    if folder is not None:
        return folder
    if Path(name).expanduser().is_dir():
        raise FileNotFoundError(f"{name} has no model: neither it nor {Path(name) / MODEL_FOLDER} contains a {CONFIG}")
    raise FileNotFoundError(
        f"{name} is not a folder; give a run folder, a model folder, or a model of the package: {', '.join(PACKAGED)}"
    )

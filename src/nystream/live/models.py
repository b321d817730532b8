"""Which model a name means: a run folder, a model folder, or a model inside the package."""

from __future__ import annotations

from pathlib import Path

from nystream.models import StreamModel
from nystream.models.pretrained import CONFIG

# name -> folder that save_pretrained wrote
PACKAGED: dict[str, Path] = {
    "demand": Path(__file__).parent / "packaged" / "demand",  # by tools/packaged_model.py
}


def folder_of(name: str) -> Path:
    """The folder that holds the model's files."""
    folder = Path(name).expanduser()
    for place in (folder, folder / "model"):
        if (place / CONFIG).is_file():
            return place
    if name in PACKAGED:
        return PACKAGED[name]
    if folder.is_dir():
        raise FileNotFoundError(f"{name} holds no model: neither it nor {folder / 'model'} has a {CONFIG}")
    known = ", ".join(PACKAGED)
    raise FileNotFoundError(
        f"{name} is not a folder; give a run folder, a model folder, or one of the package: {known}"
    )


def load(name: str) -> StreamModel:
    """The model, in eval mode."""
    return StreamModel.from_pretrained(folder_of(name))

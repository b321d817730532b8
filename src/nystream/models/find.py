"""Finding a model by name: a run folder, a model folder, or a model of the package."""

from __future__ import annotations

from pathlib import Path

from nystream.models import StreamModel
from nystream.models.pretrained import CONFIG

# name -> folder written by save_pretrained
PACKAGED: dict[str, Path] = {
    "demand": Path(__file__).parent / "packaged" / "demand",  # made by tools/packaged_model.py
}


def folder_of(name: str) -> Path:
    """Return the folder with the model's files."""
    folder = Path(name).expanduser()
    for candidate in (folder, folder / "model"):
        if (candidate / CONFIG).is_file():
            return candidate
    if name in PACKAGED:
        return PACKAGED[name]
    if folder.is_dir():
        raise FileNotFoundError(f"{name} has no model: neither it nor {folder / 'model'} contains a {CONFIG}")
    raise FileNotFoundError(
        f"{name} is not a folder; give a run folder, a model folder, or a model of the package: {', '.join(PACKAGED)}"
    )


def load(name: str) -> StreamModel:
    """Load the model, in eval mode."""
    return StreamModel.from_pretrained(folder_of(name))

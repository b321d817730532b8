"""A run on disk: one file that is replaced whole, so that a kill at any moment loses nothing but time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from nystream import files

FILE = "checkpoint.safetensors"


def save(folder: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Tensors, and what JSON can hold, in one safetensors file."""
    from safetensors.torch import save_file

    held = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    files.replace(folder / FILE, lambda path: save_file(held, path, {"about": json.dumps(about)}))


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What `save` wrote, or None where there is nothing yet."""
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a checkpoint of a training run, or is damaged: {error}") from error

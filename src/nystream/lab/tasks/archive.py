"""Reading .npz files, and errors that say what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"PK\x03\x04"


def is_archive(path: Path) -> bool:
    """Whether a file starts like an .npz file."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_archive(path: Path, needed: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """The needed arrays of an .npz file, or all of them. Arrays of Python objects are rejected."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")
    if not is_archive(path):
        raise ValueError(f"{path} is not an .npz file")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            arrays = {name: archive[name] for name in (names if needed is None else needed) if name in names}
    except Exception as error:  # many kinds, of the archive, its compression or an array in it
        raise ValueError(f"{path} is damaged, cut short or not of plain arrays: {error}") from error
    missing = [name for name in needed or () if name not in names]
    if missing:
        raise ValueError(f"{path} has no {', '.join(missing)}; it has {', '.join(names) or 'nothing'}")
    return arrays

"""Reading .npz files, with errors that say what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"PK\x03\x04"


def is_archive(path: Path) -> bool:
    """Whether a file begins as an .npz file does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_archive(path: Path, needed: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file that are needed. Arrays of Python objects are not read."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")
    if not is_archive(path):
        raise ValueError(f"{path} is not an .npz file")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            names = list(held.files)
            found = {name: held[name] for name in needed if name in names}
    except Exception as error:  # of the archive, of what it is packed with, or of an array in it
        raise ValueError(f"{path} is damaged, cut short or not of plain arrays: {error}") from error
    missing = [name for name in needed if name not in names]
    if missing:
        raise ValueError(f"{path} has no {', '.join(missing)}; it has {', '.join(names) or 'nothing'}")
    return found

"""Checkpoints of a run: one file, replaced atomically, so that a run can be killed at any time and resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from nystream import files

FILE = "checkpoint.safetensors"
OPTIMIZER = "optimizer."

SLOW = 1.0  # seconds: checkpoints that are written faster are written after every epoch
SHARE = 20  # training takes at least as many times as long as writing slow checkpoints


class Saver:
    """Writes the checkpoints of a run to a folder; does nothing if it is None."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.ended, self.took = 0.0, 0.0  # the last one, in seconds

    @property
    def too_soon(self) -> bool:
        """Whether writing another checkpoint now would take a large share of the time."""
        return self.took > SLOW and time.monotonic() - self.ended < SHARE * self.took

    def save(self, tensors: Callable[[], dict[str, Tensor]], about: dict[str, Any]) -> None:
        if self.folder is None:
            return
        start = time.monotonic()
        save(self.folder, tensors(), about)
        self.ended = time.monotonic()
        self.took = self.ended - start


def save(folder: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write tensors, and a JSON value about them, to one safetensors file."""
    from safetensors.torch import save_file

    on_cpu = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    files.replace(folder / FILE, lambda path: save_file(on_cpu, path, {"about": json.dumps(about)}))


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read what `save` wrote; None if there is no checkpoint."""
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise damaged(folder, error) from error


def damaged(folder: Path, why: object) -> ValueError:
    """The error for a checkpoint that cannot be used."""
    return ValueError(f"{folder / FILE} is not a checkpoint of a training run, or is damaged: {why}")


def check(tensors: dict[str, Tensor], like: dict[str, Tensor]) -> None:
    """Raise unless the tensors have the names and shapes of `like`, those of an engine before its first update.

    The optimizer's own tensors, which appear with the first update, are not checked here.
    """
    ours = {name: list(x.shape) for name, x in like.items()}
    theirs = {name: list(x.shape) for name, x in tensors.items() if not name.startswith(OPTIMIZER)}
    for name in sorted({*ours, *theirs}):
        if theirs.get(name) != ours.get(name):
            raise ValueError(f"{name} is {theirs.get(name, 'missing')}, but must be {ours.get(name, 'missing')}")

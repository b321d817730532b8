"""Weights from a file, put into a network under strict names and shapes."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

COUNTER = "num_batches_tracked"  # a count of training steps, no weight


def read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of a .safetensors or .npz file by name."""
    if path.suffix not in (".safetensors", ".npz"):
        raise ValueError(
            f"{path} must be a .safetensors or .npz file; a PyTorch checkpoint becomes one by "
            "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file; weights are not downloaded, so give the path of your copy")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a whole .npz file")
        with np.load(path, allow_pickle=False) as held:
            return {name: torch.from_numpy(held[name]) for name in held.files}
    except (SafetensorError, ValueError, TypeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def assign(network: nn.Module, weights: dict[str, Tensor], unneeded: tuple[str, ...], ones: tuple[str, ...]) -> None:
    """Copy the weights into the network, or say which names or shapes are wrong.

    Args:
        network: what gets them.
        weights: tensors by name.
        unneeded: beginnings of names that may be there and are not used.
        ones: ends of names that may be missing, and are ones then.
    """
    needed = {name: value for name, value in network.state_dict().items() if not name.endswith(COUNTER)}
    given = {
        name: value for name, value in weights.items() if not name.endswith(COUNTER) and not name.startswith(unneeded)
    }
    wrong = []
    if missing := [name for name in needed if name not in given and not (ones and name.endswith(ones))]:
        wrong.append(f"it lacks {_some(missing)}")
    if unknown := [name for name in given if name not in needed]:
        wrong.append(f"it has {_some(unknown)}, which the network has not")
    for name, value in given.items():
        if name not in needed:
            continue
        if value.shape != needed[name].shape:
            wrong.append(f"{name} is {list(value.shape)}, but must be {list(needed[name].shape)}")
        elif not value.is_floating_point() or not bool(value.isfinite().all()):
            wrong.append(f"{name} must hold finite floating-point numbers, but is {value.dtype} or has others")
    if wrong:
        raise ValueError(_some(wrong, "; "))
    with torch.no_grad():
        for name, place in needed.items():
            place.copy_(given[name] if name in given else torch.ones_like(place))


def _some(names: list[str], separator: str = ", ") -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return separator.join(names[:4]) + more

"""Loading the weights of a network from a file, with strict names and shapes."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from nystream.lab.tasks.archive import read_archive

COUNTER = "num_batches_tracked"  # not a weight


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a .safetensors or .npz file."""
    if path.suffix not in (".safetensors", ".npz"):
        raise ValueError(
            f"{path} must be a .safetensors or .npz file; convert a PyTorch checkpoint with "
            "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file; weights are not downloaded, so give the path of your copy")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return {name: torch.from_numpy(array) for name, array in read_archive(path).items()}
    except (SafetensorError, ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def assign(network: nn.Module, weights: dict[str, Tensor], unneeded: tuple[str, ...], ones: tuple[str, ...]) -> None:
    """Copy weights by name into the network, or raise an error that lists wrong names and shapes.

    Names that start with one of `unneeded` are ignored; those that end with one of `ones` default to ones.
    """
    needed = {name: value for name, value in network.state_dict().items() if not name.endswith(COUNTER)}
    given = {
        name: value for name, value in weights.items() if not name.endswith(COUNTER) and not name.startswith(unneeded)
    }
    wrong = []
    if missing := [name for name in needed if name not in given and not (ones and name.endswith(ones))]:
        wrong.append(f"it lacks {_some(missing)}")
    if unknown := [name for name in given if name not in needed]:
        wrong.append(f"it has {_some(unknown)}, which the network does not have")
    for name, value in given.items():
        if name not in needed:
            continue
        if value.shape != needed[name].shape:
            wrong.append(f"{name} is {list(value.shape)}, but must be {list(needed[name].shape)}")
        elif not value.is_floating_point() or not bool(value.isfinite().all()):
            wrong.append(f"{name} must have finite floating-point numbers, but is {value.dtype} or has others")
    if wrong:
        raise ValueError(_some(wrong, "; "))
    with torch.no_grad():
        for name, parameter in needed.items():
            parameter.copy_(given[name] if name in given else torch.ones_like(parameter))


def _some(names: list[str], separator: str = ", ") -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return separator.join(names[:4]) + more

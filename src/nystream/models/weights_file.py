"""Reading the weights of a model from an untrusted safetensors file.

The header of the file has the names, shapes and dtypes of all tensors. It is compared with the config before any tensor
is read or any module is created. The values of the tensors are checked afterwards.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nystream.config import ModelConfig
from nystream.config.checks import listed
from nystream.config.json_text import parse

DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
BLOCK = re.compile(r"encoder\.blocks\.(\d{1,9})\.")
LANDMARKS = (".q_tilde", ".k_tilde")

Size = tuple[str, int]  # the field of the config that determines it, and its value


class TensorInfo(NamedTuple):
    """The entry of one tensor in the header."""

    dtype: str
    shape: list[int]


def load(
    path: Path, config: ModelConfig, source: Path, device: torch.device | str
) -> tuple[dict[str, Tensor], torch.dtype]:
    """Read the tensors of a model.

    Args:
        path: The safetensors file.
        config: The config of the model.
        source: The file that the config was read from, for error messages.
        device: Where to put the tensors.

    Returns:
        The tensors by name, and the dtype of the model: that of the weights or, if they differ, the narrowest dtype
        that can represent all of them.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt", device=str(device)) as file:
            header = _header(path)
            dtype = _dtype(header, path)
            _check_header(header, config, f"{path} does not match {source}")
            tensors = {name: file.get_tensor(name) for name in header}
    except SafetensorError as error:
        raise ValueError(f"{path} cannot be read as a safetensors file: {error}") from error
    check_values(tensors, os.fspath(path))
    return tensors, dtype


def fill(model: nn.Module, tensors: dict[str, Tensor], path: Path, source: Path) -> None:
    """Load the tensors into a model. Tensors that the model does not have are errors."""
    if extra := tensors.keys() - model.state_dict().keys():
        raise ValueError(
            f"{path} does not match {source}: it has {listed(extra)}, which a model with this config lacks"
        )
    model.load_state_dict(tensors)


def check_values(tensors: dict[str, Tensor], where: str) -> None:
    """Raise if a weight is not finite, or a scale is not positive. Landmarks of a block may all be NaN: not yet set."""
    unset = {name for name, x in tensors.items() if name.endswith(LANDMARKS) and bool(x.isnan().all())}
    for name, x in tensors.items():
        if {name.replace("k_tilde", "q_tilde"), name.replace("q_tilde", "k_tilde")} <= unset:
            continue
        if not bool(x.isfinite().all()):
            raise ValueError(f"{where}: {name} has values that are NaN or infinite")
        if name.endswith("_scaler.scale") and not bool((x > 0).all()):
            raise ValueError(f"{where}: {name} has a value of {float(x.min())}; all must be greater than 0")


def shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[Size, ...]]]:
    """Yield the name and shape of every tensor that a `StreamModel` saves, without creating the model."""
    assert config.ff_dim is not None
    assert config.num_positions is not None
    width, inner = ("embed_dim", config.embed_dim), ("ff_dim", config.ff_dim)
    inputs, outputs = ("input_dim", config.input_dim), ("output_dim", config.output_dim)
    for name, size in (("input_scaler", inputs), ("output_scaler", outputs)):
        yield from ((f"{name}.mean", (size,)), (f"{name}.scale", (size,)))
    yield from _linear("input_proj", inputs, width)
    if config.positions == "learned":
        yield "positions.table", (("num_positions", config.num_positions), width)
    for place, block in enumerate(config.blocks):
        prefix = f"encoder.blocks.{place}."
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _linear(f"{prefix}attention.{name}", width, width, block.bias)
        if block.fixed:
            sizes = ("num_heads", block.num_heads), ("landmarks", block.m), ("embed_dim / num_heads", block.head_dim)
            yield from ((f"{prefix}attention{name}", sizes) for name in LANDMARKS)
        yield from _linear(f"{prefix}linear1", width, inner)
        yield from _linear(f"{prefix}linear2", inner, width)
        for name in ("norm1", "norm2"):
            yield from _norm(prefix + name, width)
    if config.final_norm:
        yield from _norm("encoder.norm", width)
    yield from _linear("head", width, outputs)
    if config.linear is not None:
        yield "linear.weight", (outputs, ("the features of linear", config.linear.features(config.input_dim)))
        if config.linear.embedded:
            yield from _linear("linear_embed", outputs, width, bias=False)


def _linear(name: str, inputs: Size, outputs: Size, bias: bool = True) -> Iterator[tuple[str, tuple[Size, ...]]]:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _norm(name: str, width: Size) -> Iterator[tuple[str, tuple[Size, ...]]]:
    yield from ((f"{name}.weight", (width,)), (f"{name}.bias", (width,)))


def _header(path: Path) -> dict[str, TensorInfo]:
    """Read the header of a file that safetensors has accepted; safetensors does not reject duplicate names."""
    with path.open("rb") as file:
        text = file.read(int.from_bytes(file.read(8), "little"))
    try:
        header = parse(text.decode())
    except ValueError as error:
        raise ValueError(f"{path} has a header that cannot be read: {error}") from error
    header.pop("__metadata__", None)
    return {name: TensorInfo(entry["dtype"], entry["shape"]) for name, entry in header.items()}


def _dtype(header: dict[str, TensorInfo], path: Path) -> torch.dtype:
    for name, entry in header.items():
        if entry.dtype not in DTYPES:
            raise ValueError(f"{path}: {name} is {entry.dtype}, but weights must be {', '.join(DTYPES)}")
    return reduce(torch.promote_types, {DTYPES[entry.dtype] for entry in header.values()} or {torch.float32})


def _check_header(header: dict[str, TensorInfo], config: ModelConfig, problem: str) -> None:
    """Raise if a tensor is missing or has the wrong shape. A subclass of the model may have more tensors."""
    blocks = {int(match[1]) for match in map(BLOCK.match, header) if match}
    for place in sorted(blocks ^ set(range(len(config.blocks)))):
        has = "has" if place in blocks else "has no"
        raise ValueError(f"{problem}: config.layers is {config.layers}, but it {has} encoder.blocks.{place}.")
    needed = dict(shapes(config))
    if missing := needed.keys() - header:
        raise ValueError(f"{problem}: it lacks {listed(missing)}")
    for name, sizes in needed.items():
        shape = [size for _, size in sizes]
        if header[name].shape != shape:
            fields = ", ".join(field for field, _ in sizes)
            raise ValueError(f"{problem}: {name} is {header[name].shape}, but the config needs {shape} ({fields})")

"""The weights of a model as a safetensors file, which is believed only after it was compared with the config.

A file may claim anything. Its header is small and says the names, shapes and dtypes of all tensors, so it is compared
with the config before any tensor is read and any module is built; what the tensors hold is checked after.
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

Size = tuple[str, int]  # the field of the config that says it, and what it says


class Claim(NamedTuple):
    """What a header says of one tensor."""

    dtype: str
    shape: list[int]


def load(
    path: Path, config: ModelConfig, source: Path, device: torch.device | str
) -> tuple[dict[str, Tensor], torch.dtype]:
    """The tensors of the model that `config`, read from `source`, describes, and the dtype to build it with.

    The dtype is the weights' own; where they differ, the narrowest that holds them all.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt", device=str(device)) as file:
            claims = _claims(path)
            dtype = _dtype(claims, path)
            _check_claims(claims, config, f"{path} does not hold the weights of {source}")
            tensors = {name: file.get_tensor(name) for name in claims}
    except SafetensorError as error:
        raise ValueError(f"{path} cannot be read as a safetensors file: {error}") from error
    check_values(tensors, os.fspath(path))
    return tensors, dtype


def fill(model: nn.Module, tensors: dict[str, Tensor], path: Path, source: Path) -> None:
    """Give a model its weights; tensors that it has no place for are refused."""
    if extra := tensors.keys() - model.state_dict().keys():
        raise ValueError(
            f"{path} does not hold the weights of {source}: it has {listed(extra)}, which the config has no place for"
        )
    model.load_state_dict(tensors)


def check_values(tensors: dict[str, Tensor], where: str) -> None:
    """Refuse weights that no model computes with. Landmarks may be NaN, all of a block's: they are still to be set."""
    unset = {name for name, x in tensors.items() if name.endswith(LANDMARKS) and bool(x.isnan().all())}
    for name, x in tensors.items():
        if {name.replace("k_tilde", "q_tilde"), name.replace("q_tilde", "k_tilde")} <= unset:
            continue
        if not bool(x.isfinite().all()):
            raise ValueError(f"{where}: {name} has values that are NaN or infinite")
        if name.endswith("_scaler.scale") and not bool((x > 0).all()):
            raise ValueError(f"{where}: {name} has a value of {float(x.min())}; every one must be greater than 0")


def shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[Size, ...]]]:
    """Name and shape of every tensor that a StreamModel saves, without building it."""
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


def _linear(name: str, inputs: Size, outputs: Size, bias: bool = True) -> Iterator[tuple[str, tuple[Size, ...]]]:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _norm(name: str, width: Size) -> Iterator[tuple[str, tuple[Size, ...]]]:
    yield from ((f"{name}.weight", (width,)), (f"{name}.bias", (width,)))


def _claims(path: Path) -> dict[str, Claim]:
    """The header of a file that safetensors has accepted, which lets a name be there twice."""
    with path.open("rb") as file:
        text = file.read(int.from_bytes(file.read(8), "little"))
    try:
        header = parse(text.decode())
    except ValueError as error:
        raise ValueError(f"{path} has a header that cannot be read: {error}") from error
    header.pop("__metadata__", None)
    return {name: Claim(said["dtype"], said["shape"]) for name, said in header.items()}


def _dtype(claims: dict[str, Claim], path: Path) -> torch.dtype:
    for name, claim in claims.items():
        if claim.dtype not in DTYPES:
            raise ValueError(f"{path}: {name} is {claim.dtype}, but weights must be {', '.join(DTYPES)}")
    return reduce(torch.promote_types, {DTYPES[claim.dtype] for claim in claims.values()} or {torch.float32})


def _check_claims(claims: dict[str, Claim], config: ModelConfig, refusal: str) -> None:
    """Refuse a file that lacks what the config needs; a model may have more than what is known here."""
    there = {int(match[1]) for match in map(BLOCK.match, claims) if match}
    for place in sorted(there ^ set(range(len(config.blocks)))):
        has = "has" if place in there else "has no"
        raise ValueError(f"{refusal}: config.layers is {config.layers}, but it {has} encoder.blocks.{place}.")
    needed = dict(shapes(config))
    if missing := needed.keys() - claims:
        raise ValueError(f"{refusal}: it lacks {listed(missing)}")
    for name, sizes in needed.items():
        shape = [size for _, size in sizes]
        if claims[name].shape != shape:
            fields = ", ".join(field for field, _ in sizes)
            raise ValueError(
                f"{refusal}: {name} is {claims[name].shape} there, but the config needs {shape} ({fields})"
            )

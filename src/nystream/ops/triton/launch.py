"""How kernels are launched: sizes of tiles, precision of products, device."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nystream.ops import ring
from nystream.ops.precision import rounded

SMALLEST = 16  # of any side of a tile that enters a matrix product
HOPPER = (9, 0)  # the compute capability of an H200


class Tile(NamedTuple):
    """How a kernel is cut: queries and keys of a tile, the warps that compute it, and loads in flight."""

    block_q: int
    block_k: int
    warps: int
    stages: int = 3

    def options(self) -> dict[str, int]:
        sizes = {"BLOCK_Q": self.block_q, "BLOCK_K": self.block_k}
        return {**sizes, "num_warps": self.warps, "num_stages": self.stages}


def padded(size: int) -> int:
    """The side of a tile that has room for `size` numbers."""
    return max(SMALLEST, 1 << (size - 1).bit_length())


def precision(x: Tensor) -> str:
    """How products of float32 numbers are computed where one factor comes from `x`.

    In three TensorFloat-32 products, which loses next to nothing, unless torch's own settings allow one. One is enough
    where the other factor has fewer digits anyway: in bfloat16, and in projections that autocast has computed in it.
    """
    exact = x.dtype == torch.float32 and not _allows_tf32() and not rounded()
    return "tf32x3" if exact else "tf32"


def _allows_tf32() -> bool:
    """Whether torch may compute matrix products in TensorFloat-32, set in either of two ways."""
    setting = getattr(torch.backends.cuda.matmul, "fp32_precision", None)  # since torch 2.9
    if setting is None:
        return torch.get_float32_matmul_precision() != "highest"
    return setting == "tf32"


def on(x: Tensor) -> AbstractContextManager[Any]:
    """Select the device of `x`, on which kernels are launched."""
    return torch.cuda.device_of(x)


def is_hopper(x: Tensor) -> bool:
    """Whether `x` is on a GPU for which large tiles were measured; others may have less shared memory for them."""
    return x.is_cuda and _capability(x.device) == HOPPER


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def programs(length: int, block: int, rows: int) -> tuple[int]:
    """The grid: one program for each tile of `block` places of each row."""
    return (-(-length // block) * rows,)


def halves(gradient: Tensor, n: int, time: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """The gradients of a ring of n tokens at `time`, None if n is 0, and of the piece after it, along dimension 1."""
    if not n:
        return None, gradient
    before = gradient[:, :n]
    return before if time is None else ring.rolled(before, time), gradient[:, n:]

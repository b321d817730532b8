"""One step of many rows, as the kernels take it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from nystream.stream.gpu.blocks import Blocks
from nystream.stream.gpu.kernels import plan as kernels

DEPENDENT = (9, 0)  # the first compute capability with programmatic dependent launches
ROWS = 128  # of a program that works on rows alone
PROGRAMS = 16  # of a multiprocessor, for a kernel that takes the rows of a list


@lru_cache(maxsize=16)
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


class Call(NamedTuple):
    """The rows of a step."""

    slots: Tensor  # int64 [rows], −1 for rows that are skipped
    time: Tensor  # int64 [capacity], of all slots
    refused: Tensor  # int32 []; all rows are skipped if it is not 0


class Plan(NamedTuple):
    """Where the rows of a step write into a window, and which of them need more work: see `kernels.plan`."""

    places: Tensor
    filled: Tensor
    entering: Tensor
    due: Tensor
    counts: Tensor  # of the two lists


def plan(call: Call, cut: Blocks, landmarks: bool, completes: Tensor | None, *, advance: bool) -> Plan:
    """The plan of a step for windows with this cut; `completes` is that of continual landmarks.

    With `advance`, the time of the streams is advanced, so no other plan of the step can follow.
    """
    rows = len(call.slots)
    places, filled, entering, due = torch.empty(4, rows, dtype=torch.int32, device=call.slots.device)
    made = Plan(places, filled, entering, due, places.new_zeros(2))
    kernels.plan[(triton.cdiv(rows, ROWS),)](
        call.slots,
        call.time,
        call.refused,
        *made,
        made.counts if completes is None else completes,
        rows,
        N=cut.n,
        R=cut.r,
        EDGES=cut.edges,
        LANDMARKS=landmarks,
        CONTINUAL=completes is not None,
        ADVANCE=advance,
        EARLY=early(call.slots.device)["EARLY"],
        ROWS_=ROWS,
    )
    return made


@lru_cache(maxsize=16)
def early(device: torch.device) -> dict[str, bool]:
    """Options of a kernel that may be launched while the kernel before it ends, where the GPU can do that."""
    able = device.type == "cuda" and torch.cuda.get_device_capability(device) >= DEPENDENT
    return {"EARLY": True, "launch_pdl": True} if able else {"EARLY": False}


def programs(device: torch.device, most: int, each: int = PROGRAMS) -> int:
    """Number of programs of a kernel that takes the rows of a list, of which there are at most `most` pieces.

    At most `each` for every multiprocessor.
    """
    return max(1, min(most, each * _multiprocessors(device)))

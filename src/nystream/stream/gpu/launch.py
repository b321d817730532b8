"""One step of many rows, as the kernels take it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from nystream.stream.gpu.blocks import Blocks, power_of_two
from nystream.stream.gpu.kernels import plan as kernels

LEAST, MOST = 128, 4096  # rows of a list: long ones differ less in how many streams they have
PROGRAMS_PER_PROCESSOR = 16  # of a kernel that takes the rows of a list


@lru_cache(maxsize=16)
def _processors(device: torch.device) -> int:
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
    entering: Tensor  # lists of rows
    due: Tensor
    entering_counts: Tensor  # and how many each list has
    due_counts: Tensor


def plan(call: Call, cut: Blocks, landmarks: bool, completes: Tensor | None, *, advance: bool) -> Plan:
    """The plan of a step for windows with this cut; `completes` is that of continual landmarks.

    With `advance`, the time of the streams is counted on, so no other plan of the step can follow.
    """
    rows, (count, size) = len(call.slots), lists(len(call.slots))
    numbers = torch.empty(4 * rows + 2 * count, dtype=torch.int32, device=call.slots.device)
    made = Plan(*numbers.split([rows] * 4 + [count] * 2))
    kernels.plan[(count,)](
        call.slots,
        call.time,
        call.refused,
        *made,
        made.due if completes is None else completes,
        rows,
        N=cut.n,
        R=cut.r,
        EDGES=cut.edges,
        LANDMARKS=landmarks,
        CONTINUAL=completes is not None,
        ADVANCE=advance,
        ROWS=size,
        num_warps=max(4, size // 128),
    )
    return made


def lists(rows: int) -> tuple[int, int]:
    """Number of lists that a plan of so many rows has, and the rows that each is made of."""
    size = min(MOST, max(LEAST, power_of_two(rows)))
    return triton.cdiv(rows, size), size


def programs(device: torch.device, most: int, rows: int, each: int = PROGRAMS_PER_PROCESSOR) -> int:
    """Number of programs that take pieces of the lists of a plan, of which there are at most `most`.

    At most `each` for every processor, but a multiple of the number of lists.
    """
    count, _ = lists(rows)
    return count * triton.cdiv(min(most, each * _processors(device)), count)

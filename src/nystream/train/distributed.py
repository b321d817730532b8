"""Several processes, started by torchrun: each takes a share of every batch."""

from __future__ import annotations

import atexit
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch import distributed as dist

from nystream import files


class World(NamedTuple):
    """The rank of this process and the number of processes."""

    rank: int = 0
    size: int = 1

    def total(self, x: Tensor) -> Tensor:
        """The sum of x over all processes."""
        if self.size > 1:
            x = x.clone()
            dist.all_reduce(x)
        return x

    def gather(self, x: Tensor, device: torch.device) -> Tensor:
        """The rows [., ...] of all processes, in order of rank, on the CPU."""
        counts = torch.zeros(self.size, dtype=torch.long, device=device)
        counts[self.rank] = len(x)
        counts = self.total(counts)
        padded = x.new_zeros(int(counts.max()), *x.shape[1:]).to(device)
        padded[: len(x)] = x.to(device)
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts.tolist(), strict=True)]).cpu()

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


def rank() -> int:
    """The rank of this process; 0 without torchrun."""
    return int(os.environ.get("RANK", "0"))


def started() -> int:
    """The number of processes; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1")) if dist.is_available() else 1


def alone_in(folder: str | os.PathLike[str] | None) -> AbstractContextManager[None]:
    """Lock a folder against other runs. With torchrun, the process of rank 0 locks it for all."""
    return nullcontext() if folder is None or rank() else files.alone_in(Path(folder))


def world(model: nn.Module) -> World:
    """Join the processes that torchrun started, if any; a model on a GPU moves to this process's GPU."""
    if started() == 1:
        return World()
    on_gpu = next(model.parameters()).device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        model.to(torch.device("cuda", torch.cuda.current_device()))
    if not dist.is_initialized():
        dist.init_process_group("nccl" if on_gpu else "gloo")
        # At exit and not after every run, because a group cannot be joined twice. NCCL requires it; gloo's threads
        # may still hold a tensor when the interpreter is gone, and the process would abort after its work is done.
        atexit.register(dist.destroy_process_group)
    return World(dist.get_rank(), dist.get_world_size())

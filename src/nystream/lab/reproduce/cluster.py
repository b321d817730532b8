"""Cells on a Ray cluster: each is one task, on whichever machine has room for it.

Every machine needs nystream, the data sets in the same folder, and a folder for work that all of them share.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.job import Job
from nystream.lab.reproduce.run import Outcome, Outcomes, attempt

LOCAL = "local"
STORE = 128 * 2**20  # bytes for what passes between processes on one machine: records are small
PATIENCE = 10.0  # seconds until a machine that does not answer is given up


def on_ray(jobs: Sequence[Job], address: str, gpus: float = 1.0) -> Outcomes:
    """Send every job to the cluster and give the outcomes as they come; one that fails takes no other with it.

    Args:
        address: as in `ray.init`; "local" starts a cluster on this machine, for as long as the jobs take.
        gpus: how much of a GPU a job takes where its device is cuda; 0.25 lets four share one.
    """
    with _connected(address) as ray:
        remote = ray.remote(max_retries=0)(attempt)
        room = ray.cluster_resources()
        waiting = [(job, *_placed(job, room, gpus)) for job in jobs]
        pending: dict[Any, Job] = {}
        known: set[Cell] = set()
        try:
            while waiting or pending:
                for one in list(waiting):
                    job, placed, needs = one
                    if _may_start(job, pending.values(), known):
                        pending[remote.options(name=job.name, **needs).remote(placed)] = job
                        waiting.remove(one)
                (ended,), _ = ray.wait(list(pending), num_returns=1)
                job = pending.pop(ended)
                known |= _trainings(job)
                yield job, _outcome(ray, job, ended)
        finally:
            for task in pending:  # somebody else's cluster would work on
                ray.cancel(task, force=True)


def _may_start(job: Job, running: Iterable[Job], known: set[Cell]) -> bool:
    """Whether a job would not only wait for a training that another is at, in a place where a third could run."""
    needed = _trainings(job) - known
    return not any(needed & _trainings(other) for other in running)


def _trainings(job: Job) -> set[Cell]:
    """What is trained for a job, as the cells that share it; first phases are as long as what follows leaves them."""
    cell = job.cell
    first = dataclasses.replace(cell.phase_one, task=f"{cell.task}, first phase") if cell.fixed else cell.phase_one
    return {first, cell.twin, *([cell.teacher] if cell.distilled else [])}


def _placed(job: Job, room: dict[str, float], gpus: float) -> tuple[Job, dict[str, float]]:
    """The job on a device that the cluster has, and what it needs; waiting for what nobody has would never end."""
    if job.device == "auto":
        job = dataclasses.replace(job, device="cuda" if room.get("GPU", 0) >= gpus else "cpu")
    elif job.device.startswith("cuda:"):  # a worker sees the GPU that it was given, and no other
        job = dataclasses.replace(job, device="cuda")
    needs: dict[str, float] = {"num_cpus": max(1, job.threads), "num_gpus": gpus if job.device == "cuda" else 0}
    for name, option, asked in (("CPU", "num_cpus", f"threads={job.threads}"), ("GPU", "num_gpus", "device='cuda'")):
        if needs[option] > room.get(name, 0):
            held = f"{room.get(name, 0):g} {name}s in all"
            raise ValueError(f"{asked} takes {needs[option]:g} {name}s a cell, but the Ray cluster has {held}")
    return job, needs


def _outcome(ray: Any, job: Job, ended: Any) -> Outcome:
    try:
        found: Outcome = ray.get(ended)
    except Exception as error:  # the worker or its machine is gone, or what it sent cannot be read
        # What was raised in a worker comes with its traceback before it.
        lines = [line for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
        return Outcome(job.name, None, f"{type(error).__name__}: {(lines or ['no reason'])[0]}", str(error))
    return found


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")  # the user's print stays the user's
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("ray= needs Ray: pip install 'nystream[ray]'", name="ray") from error
    if ray.is_initialized():  # whoever has done so will also end it
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        options |= {"include_dashboard": False, "object_store_memory": STORE}
    hint = ""
    try:
        if _answers(address):
            hint = "; if it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        ray.init(address=address, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConnectionError(f"ray={address!r} cannot be reached: {error}{hint}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _answers(address: str) -> bool:
    """Whether somebody is there, where a machine is named; an error if not: Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return False
    socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    return True

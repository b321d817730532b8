"""Cells on a Ray cluster: each is one Ray task, on any machine with free resources.

Every machine needs nystream, the data sets in the same folder, and a work folder that all machines share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from nystream import clusters
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.job import Job
from nystream.lab.reproduce.run import Outcome, Outcomes, attempt


def on_ray(jobs: Sequence[Job], address: str, gpus: float = 1.0) -> Outcomes:
    """Send every job to the cluster and yield the outcomes as they arrive; a failure does not stop the others.

    Args:
        address: As in `ray.init`; "local" starts a cluster on this machine until the jobs are done.
        gpus: GPUs per job if its device is cuda; with 0.25, four jobs share a GPU.
    """
    with clusters.connected(address) as ray:
        remote = ray.remote(max_retries=0)(attempt)
        resources = ray.cluster_resources()
        waiting = [(job, *_placed(job, resources, gpus)) for job in jobs]
        pending: dict[Any, Job] = {}
        trained: set[Cell] = set()
        try:
            while waiting or pending:
                for entry in list(waiting):
                    job, placed, needs = entry
                    if _may_start(job, pending.values(), trained):
                        pending[remote.options(name=job.name, **needs).remote(placed)] = job
                        waiting.remove(entry)
                (ended,), _ = ray.wait(list(pending), num_returns=1)
                job = pending.pop(ended)
                trained |= _trainings(job)
                yield job, _outcome(ray, job, ended)
        finally:
            for task in pending:  # a cluster that was not started here would keep running them
                ray.cancel(task, force=True)


def _may_start(job: Job, running: Iterable[Job], trained: set[Cell]) -> bool:
    """Whether none of the job's trainings is running already: the job would only wait, while another could run."""
    needed = _trainings(job) - trained
    return not any(needed & _trainings(other) for other in running)


def _trainings(job: Job) -> set[Cell]:
    """The trainings of a job, as cells; a first phase differs from a cell's own training in its number of epochs."""
    cell = job.cell
    first = dataclasses.replace(cell.phase_one, task=f"{cell.task}, first phase") if cell.fixed else cell.phase_one
    return {first, cell.twin, *([cell.teacher] if cell.distilled else [])}


def _placed(job: Job, resources: dict[str, float], gpus: float) -> tuple[Job, dict[str, float]]:
    """The job on a device that the cluster has, and the resources it needs; raise if the cluster lacks them."""
    if job.device == "auto":
        job = dataclasses.replace(job, device="cuda" if resources.get("GPU", 0) >= gpus else "cpu")
    elif job.device.startswith("cuda:"):  # a worker sees only the GPU that it was given
        job = dataclasses.replace(job, device="cuda")
    needs: dict[str, float] = {"num_cpus": max(1, job.threads), "num_gpus": gpus if job.device == "cuda" else 0}
    for name, option, asked in (("CPU", "num_cpus", f"threads={job.threads}"), ("GPU", "num_gpus", "device='cuda'")):
        if needs[option] > resources.get(name, 0):
            raise ValueError(
                f"{asked} needs {needs[option]:g} {name}s per cell, but the Ray cluster has {resources.get(name, 0):g}"
            )
    return job, needs


def _outcome(ray: Any, job: Job, ended: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(ended)
    except Exception as error:  # the worker or its machine has died, or its result cannot be read
        # The message of an error in a worker begins with its traceback.
        lines = [line for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
        return Outcome(job.name, None, f"{type(error).__name__}: {(lines or ['no reason'])[0]}", str(error))
    return outcome

"""Cells on a Ray cluster: each is one task, on whichever machine has room for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nystream.reproduce.job import Job
from nystream.reproduce.run import Outcome, attempt

LOCAL = "local"


def on_ray(jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, Outcome]]:
    """Send every job to the cluster and give the outcomes as they come; one that fails takes no other with it."""
    with _connected(address) as ray:
        remote = ray.remote(max_retries=0)(attempt)
        pending: dict[Any, Job] = {}
        for job in jobs:
            needs = {"num_cpus": 1, "num_gpus": 1 if job.device.startswith("cuda") else 0, "name": job.name}
            pending[remote.options(**needs).remote(job)] = job
        while pending:
            (ended,), _ = ray.wait(list(pending), num_returns=1)
            job = pending.pop(ended)
            try:
                outcome = ray.get(ended)
            except ray.exceptions.RayError as error:  # the worker or its machine is gone
                outcome = Outcome(job.name, None, f"{type(error).__name__}: {str(error).splitlines()[0]}", str(error))
            yield job, outcome


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("ray= needs Ray: pip install 'nystream[ray]'", name="ray") from error
    where = {} if address == LOCAL else {"address": address}
    try:
        ray.init(
            **where, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False if not where else None
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConnectionError(f"ray={address!r} cannot be reached: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()

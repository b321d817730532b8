"""Many cells: finished ones are skipped, and a failure does not stop the others."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from nystream.lab.reproduce import store
from nystream.lab.reproduce.job import Job, run_baseline, wanted_baseline
from nystream.lab.reproduce.store import RecordDict
from nystream.progress import naming, track


class Outcome(NamedTuple):
    """The outcome of a job: its record, or the error that stopped it."""

    name: str
    record: RecordDict | None
    error: str = ""
    trace: str = ""


Outcomes = Generator[tuple[Job, Outcome], None, None]
Runner = Callable[[Sequence[Job]], Outcomes]  # yields outcomes in the order in which jobs end


def left(jobs: Iterable[Job], results: Path, again: bool = False) -> list[Job]:
    """The jobs that have no record yet; raise, before anything is run, if one of them cannot be run."""
    wanted = [(job, job.wanted()) for job in jobs]
    return [job for job, record in wanted if again or store.finished(results, record) is None]


def run(
    jobs: Sequence[Job],
    results: Path,
    runner: Runner,
    report: Callable[[Outcome], None] = lambda outcome: None,
    show: bool | None = None,
) -> list[Outcome]:
    """Run the jobs and write each record when it is finished."""
    outcomes: list[Outcome] = []
    work = {job.name: _work(job) for job in jobs}
    start, done = time.monotonic(), 0.0
    # The runner is closed in any case, so that nothing keeps running on a cluster.
    with track("cells", len(jobs), show) as advance, closing(runner(jobs)) as ended:
        for job, outcome in ended:
            outcome = _written(outcome, results)
            outcomes.append(outcome)
            report(outcome)
            done += work[job.name]
            remaining = (sum(work.values()) - done) * (time.monotonic() - start) / done
            advance(1, f"{job.name} {'failed' if outcome.record is None else 'done'}", remaining)
    return outcomes


def _written(outcome: Outcome, results: Path) -> Outcome:
    """The outcome, after writing its record; a failure if the record cannot be written, as with a score of NaN."""
    if outcome.record is None:
        return outcome
    try:
        store.write(results, outcome.record)
    except (ValueError, OSError) as error:
        return _failure(outcome.name, error)
    return outcome


def one_by_one(jobs: Sequence[Job]) -> Outcomes:
    """Run the jobs in this process."""
    for job in jobs:
        with naming(job.name):
            outcome = attempt(job)
        yield job, outcome


def attempt(job: Job) -> Outcome:
    """Run a job; an error becomes its outcome."""
    try:
        return Outcome(job.name, job.run())
    except Exception as error:
        return _failure(job.name, error)


def _failure(name: str, error: Exception) -> Outcome:
    return Outcome(name, None, f"{type(error).__name__}: {error}", traceback.format_exc())


def baselines(job: Job, results: Path, again: bool = False) -> None:
    """Compute the baselines of a job's task that have no record yet."""
    missing = [
        name for name in job.problem.baselines if again or store.finished(results, wanted_baseline(job, name)) is None
    ]
    with track("baselines", len(missing), job.show if missing else False) as advance:
        for name in missing:
            store.write(results, run_baseline(job, name))
            advance(1, name)


def _work(job: Job) -> float:
    """An estimate of the time of a job, in any unit."""
    return job.cell.layers * job.config.epochs * (3 if job.cell.fixed else 2)

"""Many cells: those that are done are left alone, one that fails takes no other with it."""

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
    """What became of a cell: its record, or the error that stopped it."""

    name: str
    record: RecordDict | None
    error: str = ""
    trace: str = ""


Outcomes = Generator[tuple[Job, Outcome], None, None]
Runner = Callable[[Sequence[Job]], Outcomes]  # in the order in which they end


def left(jobs: Iterable[Job], results: Path, again: bool = False) -> list[Job]:
    """The jobs whose records are not there yet. Whatever stands in the way is found here, before anything is run."""
    wanted = [(job, job.wanted()) for job in jobs]
    return [job for job, one in wanted if again or store.finished(results, one) is None]


def run(
    jobs: Sequence[Job],
    results: Path,
    runner: Runner,
    say: Callable[[Outcome], None] = lambda outcome: None,
    show: bool | None = None,
) -> list[Outcome]:
    """Run the jobs and write each record as it comes."""
    found: list[Outcome] = []
    weights = {job.name: _weight(job) for job in jobs}
    began, done = time.monotonic(), 0.0
    # The runner is closed whatever happens here, so that nothing goes on elsewhere.
    with track("cells", len(jobs), show) as advance, closing(runner(jobs)) as outcomes:
        for job, ended in outcomes:
            outcome = _written(ended, results)
            found.append(outcome)
            say(outcome)
            done += weights[job.name]
            ahead = (sum(weights.values()) - done) * (time.monotonic() - began) / done
            advance(1, f"{job.name} {'failed' if outcome.record is None else 'done'}", ahead)
    return found


def _written(outcome: Outcome, results: Path) -> Outcome:
    """The outcome, its record on disk; one that cannot be written, such as a score that is no number, has failed."""
    if outcome.record is None:
        return outcome
    try:
        store.write(results, outcome.record)
    except (ValueError, OSError) as error:
        return Outcome(outcome.name, None, f"{type(error).__name__}: {error}", traceback.format_exc())
    return outcome


def one_by_one(jobs: Sequence[Job]) -> Outcomes:
    """In this process."""
    for job in jobs:
        with naming(job.name):
            outcome = attempt(job)
        yield job, outcome


def attempt(job: Job) -> Outcome:
    """Run a job; its failure is its own."""
    try:
        return Outcome(job.name, job.run())
    except Exception as error:
        return Outcome(job.name, None, f"{type(error).__name__}: {error}", traceback.format_exc())


def baselines(job: Job, results: Path, again: bool = False) -> None:
    """The baselines beside the cells of a job, computed unless they are there."""
    missing = [
        name for name in job.problem.baselines if again or store.finished(results, wanted_baseline(job, name)) is None
    ]
    with track("baselines", len(missing), job.show if missing else False) as advance:
        for name in missing:
            store.write(results, run_baseline(job, name))
            advance(1, name)


def _weight(job: Job) -> float:
    """About how long a job takes beside others: blocks and epochs."""
    return job.cell.layers * job.config.epochs * (3 if job.cell.fixed else 2)

"""Threads that share the chunks of a job.

These are Python threads, which run kernels in parallel because kernels release the GIL. Numba's own threading layers
are not used: the only one that is always available aborts the process when two threads use it at once.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread

Work = Callable[[int], object]
Jobs = SimpleQueue[Callable[[], None] | None]


class Crew:
    """Threads that wait for jobs. More are started when a job needs them, as long as the system allows."""

    def __init__(self) -> None:
        self._start()

    def share(self, workers: Sequence[Work], chunks: Iterator[int]) -> None:
        """Give every chunk to one of the workers. The first runs in this thread, the others in threads of the crew.

        If the system cannot start more threads, fewer workers do the work. After an error or an interrupt, no new chunk
        is started, and all started chunks have ended when this returns.
        """
        threads = self._threads_for(len(workers) - 1)
        results: list[BaseException | None] = []
        bell: SimpleQueue[None] = SimpleQueue()
        jobs = [partial(_work, worker, chunks, results, bell) for worker in workers[1 : 1 + threads]]
        sent = 0
        try:
            for job in jobs:
                sent += 1
                self._jobs.put(job)
            _drain(workers[0], chunks)
        except BaseException:
            for _ in chunks:  # leave none for the others
                pass
            raise
        finally:
            _wait(results, sent, bell)
        for error in results:
            if error is not None:
                raise error

    def _start(self) -> None:
        self._process = os.getpid()
        self._jobs: Jobs = SimpleQueue()
        self._threads: list[Thread] = []
        self._stop = weakref.finalize(self, _stop, self._jobs, self._threads)
        self._stop.atexit = False  # the threads are daemons

    def _threads_for(self, jobs: int) -> int:
        """Start threads for a number of jobs; return how many of the jobs have one."""
        if self._process != os.getpid():  # a forked child does not have the threads of its parent
            self._stop.detach()
            self._start()
        while len(self._threads) < jobs:
            thread = Thread(target=_serve, args=(self._jobs,), name="nystream", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system cannot start another thread
                break
            self._threads.append(thread)
        return min(jobs, len(self._threads))


def _serve(jobs: Jobs) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # otherwise its arrays would stay alive until the next job


def _stop(jobs: Jobs, threads: list[Thread]) -> None:
    for _ in threads:
        jobs.put(None)


def _drain(worker: Work, chunks: Iterator[int]) -> None:
    for chunk in chunks:
        worker(chunk)


def _work(worker: Work, chunks: Iterator[int], results: list[BaseException | None], bell: SimpleQueue[None]) -> None:
    result: BaseException | None = None
    try:
        _drain(worker, chunks)
    except BaseException as error:
        result = error
    results.append(result)
    bell.put(None)


def _wait(results: list[BaseException | None], count: int, bell: SimpleQueue[None]) -> None:
    """Wait until all jobs have ended, despite interrupts: they write to memory that the caller is going to release."""
    interrupt: BaseException | None = None
    while len(results) < count:  # the bell only wakes this thread up
        try:
            bell.get(timeout=0.05)
        except Empty:
            pass
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt

"""Threads that share out the pieces of a job.

They are Python's own: a kernel that runs without Python's lock keeps a core busy from any thread. So nothing depends on
Numba's threading layers, of which the one that is always there ends the process when two threads use it at once.
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
    """Helpers that wait for work; there are as many as were ever asked for, and could be had."""

    def __init__(self) -> None:
        self._engage()

    def share(self, workers: Sequence[Work], pieces: Iterator[int]) -> None:
        """Hand every piece to one of the workers: the first runs in this thread, each of the others in a helper.

        Where the system gives no more threads, fewer workers do it all. If anything fails or interrupts, no new piece
        is begun, and those that were begun have ended when this returns.
        """
        helpers = self._hired(len(workers) - 1)
        ends: list[BaseException | None] = []
        bell: SimpleQueue[None] = SimpleQueue()
        jobs = [partial(_help, worker, pieces, ends, bell) for worker in workers[1 : 1 + helpers]]
        sent = 0
        try:
            for job in jobs:
                sent += 1
                self._jobs.put(job)
            _drain(workers[0], pieces)
        except BaseException:
            for _ in pieces:  # none are left for the others
                pass
            raise
        finally:
            _wait(ends, sent, bell)
        for end in ends:
            if end is not None:
                raise end

    def _engage(self) -> None:
        self._process = os.getpid()
        self._jobs: Jobs = SimpleQueue()
        self._threads: list[Thread] = []
        self._dismiss = weakref.finalize(self, _dismiss, self._jobs, self._threads)
        self._dismiss.atexit = False  # they are daemons

    def _hired(self, wanted: int) -> int:
        """How many helpers there are for so many jobs."""
        if self._process != os.getpid():  # a child that was forked: its parent's threads are not here
            self._dismiss.detach()
            self._engage()
        while len(self._threads) < wanted:
            helper = Thread(target=_serve, args=(self._jobs,), name="nystream", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # no more threads to be had
                break
            self._threads.append(helper)
        return min(wanted, len(self._threads))


def _serve(jobs: Jobs) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # or it would hold its arrays until the next one comes


def _dismiss(jobs: Jobs, threads: list[Thread]) -> None:
    for _ in threads:
        jobs.put(None)


def _drain(worker: Work, pieces: Iterator[int]) -> None:
    for piece in pieces:
        worker(piece)


def _help(worker: Work, pieces: Iterator[int], ends: list[BaseException | None], bell: SimpleQueue[None]) -> None:
    end: BaseException | None = None
    try:
        _drain(worker, pieces)
    except BaseException as error:
        end = error
    ends.append(end)
    bell.put(None)


def _wait(ends: list[BaseException | None], count: int, bell: SimpleQueue[None]) -> None:
    """Until all have ended, whatever interrupts: they write to memory that the caller will give away."""
    interrupt: BaseException | None = None
    while len(ends) < count:  # what counts; the bell only wakes
        try:
            bell.get(timeout=0.05)
        except Empty:
            pass
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt

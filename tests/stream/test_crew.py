"""Threads that share a job: every chunk runs once, and nothing is left running after an error."""

import gc
import threading
import time

import pytest

from nystream.stream import crew as crews
from nystream.stream.crew import Crew


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_chunk_is_taken_once(count):
    crew, taken = Crew(), []
    for _ in range(20):
        taken.clear()
        crew.share([taken.append] * count, iter(range(100)))
        assert sorted(taken) == list(range(100))


def test_other_threads_do_help():
    crew, names = Crew(), set()
    gate = threading.Barrier(3, timeout=10)

    def work(chunk):
        gate.wait()  # passes only if three threads wait at the same time
        names.add(threading.current_thread().name)

    crew.share([work] * 3, iter(range(3)))
    assert len(names) == 2  # this thread's name, and that of the crew's threads


def test_a_failure_here_ends_the_others_first():
    crew, running, ended = Crew(), threading.Event(), []

    def slow(chunk):
        running.set()
        time.sleep(0.05)
        ended.append(chunk)

    def fail(chunk):
        running.wait(10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crew.share([fail, slow], iter(range(1000)))
    before = list(ended)
    time.sleep(0.2)
    assert ended == before
    assert len(ended) <= 2  # no new chunk was started


def test_a_failure_of_a_helper_is_raised_here():
    crew, failed = Crew(), threading.Event()

    def fail(chunk):
        failed.set()
        raise MemoryError("no room")

    def work(chunk):
        failed.wait(10)

    with pytest.raises(MemoryError, match="no room"):
        crew.share([work, fail], iter(range(4)))
    crew.share([work, work], iter(range(4)))  # the crew still works


def test_without_more_threads_this_one_does_it_all(monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread")

    crew, taken = Crew(), []
    with monkeypatch.context() as patch:
        patch.setattr(crews.Thread, "start", fail)
        crew.share([taken.append] * 3, iter(range(50)))
    assert taken == list(range(50))
    crew.share([taken.append] * 3, iter(range(50, 60)))
    assert sorted(taken) == list(range(60))


def test_an_interrupt_while_waiting_waits_all_the_same():
    ends = []

    class Bell:
        rung = 0

        def get(self, timeout):
            Bell.rung += 1
            if Bell.rung == 1:
                raise KeyboardInterrupt
            ends.append(None)

    with pytest.raises(KeyboardInterrupt):
        crews._wait(ends, 2, Bell())
    assert len(ends) == 2


def test_helpers_leave_with_their_crew():
    crew = Crew()
    crew.share([time.sleep, time.sleep], iter([0, 0, 0]))
    (mine,) = crew._threads
    assert mine.is_alive()
    del crew
    gc.collect()
    mine.join(10)
    assert not mine.is_alive()

"""Pushes from several threads are safe, keep the order of each stream, and leave the pool usable after errors."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nystream as ns

THREADS = 6

# Forks while threads push; every child must find each stream as it is after a whole number of pushes, and continue.
FORKS = """
import os, signal, sys, threading, traceback
import numpy as np, torch
import nystream as ns

torch.set_num_threads(1)
cfg = ns.AttentionConfig("co-full-single", embed_dim=32, num_heads=4, window=40)
model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, ff_dim=32, attention=cfg))
pools = [ns.StreamPool(model, 8, sys.argv[1]) for _ in range(2)]
sids, x, over = list(range(8)), np.ones((8, 5), np.float32), threading.Event()
for streams in pools:
    for _ in sids:
        streams.open()

def work(streams):
    while not over.is_set():
        streams.push_many(sids, x)
        if streams.time(0) > 90:
            for sid in sids:
                streams.reset(sid)

def child():
    signal.alarm(30)
    for streams in pools:
        for sid in (0, 7):
            like = streams.open()
            for _ in range(streams.time(sid)):
                streams.push(like, x[0])
            held, wanted = (ns.state.unpack(streams.snapshot(one), model) for one in (sid, like))
            ns.state.map_state(torch.testing.assert_close, held, wanted)
        streams.push_many(sids, x)
        ns.StreamPool(model, 1, sys.argv[1]).open()

threads = [threading.Thread(target=work, args=(streams,)) for streams in pools]
for thread in threads:
    thread.start()
failed = 0
for _ in range(5):
    pid = os.fork()
    if not pid:
        try:
            child()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(pid, 0)[1] != 0
over.set()
for thread in threads:
    thread.join()
sys.exit(failed)
"""


def at_once(*jobs):
    """Run every job in its own thread, all started at the same time."""
    gate = threading.Barrier(len(jobs))

    def run(job):
        gate.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as executor:
        return [future.result(timeout=60) for future in [executor.submit(run, job) for job in jobs]]


@pytest.fixture
def model(build):
    return build("co-cont-single")


def test_every_thread_with_a_stream_of_its_own(backend, model, alone, tokens):
    streams, x = ns.StreamPool(model, 1, backend), tokens(THREADS, 20, 5)

    def stream(row):
        sid = streams.open()  # the pool grows meanwhile
        return [streams.push(sid, token) for token in x[row]]

    outs = at_once(*(lambda row=row: stream(row) for row in range(THREADS)))
    for row, out in enumerate(outs):
        np.testing.assert_allclose(out, alone(model, x[row]), atol=1e-5)


def test_many_threads_on_one_stream(backend, model, tokens):
    streams, x = ns.StreamPool(model, 1, backend), tokens(5)
    sid = streams.open()
    outs = at_once(*(lambda: [streams.push(sid, x) for _ in range(15)] for _ in range(THREADS)))
    assert streams.time(sid) == 15 * THREADS
    other = streams.open()  # all tokens are equal, so the order of the threads does not matter
    expected = {streams.push(other, x).tobytes() for _ in range(15 * THREADS)}
    assert {y.tobytes() for out in outs for y in out} == expected
    assert streams.snapshot(sid) == streams.snapshot(other)


def test_one_streams_order_is_kept(backend, model, alone, tokens):
    """Two threads take turns with a stream, which gets its tokens in order."""
    streams, x = ns.StreamPool(model, 1, backend), tokens(40, 5)
    sid, outs, turn = streams.open(), {}, threading.Condition()

    def stream(mine):
        for place in range(mine, len(x), 2):
            with turn:
                turn.wait_for(lambda place=place: len(outs) == place, timeout=30)
                outs[place] = streams.push(sid, x[place])
                turn.notify_all()

    at_once(lambda: stream(0), lambda: stream(1))
    np.testing.assert_allclose([outs[place] for place in range(len(x))], alone(model, x), atol=1e-5)


def test_one_by_one_and_together_at_once(backend, model, alone, tokens):
    streams, x = ns.StreamPool(model, 4, backend), tokens(6, 20, 5)
    sids = [streams.open() for _ in range(6)]
    halves = sids[:3], sids[3:]

    def many(some):
        return np.stack([streams.push_many(some, x[some, turn]) for turn in range(20)], 1)

    def noise():
        for _ in range(20):
            sid = streams.open()
            streams.push(sid, x[0, 0])
            blob = streams.snapshot(sid)
            streams.close(sid)
            streams.close(streams.restore(blob))
            assert set(sids) <= set(streams.ids)

    first, second, _ = at_once(lambda: many(halves[0]), lambda: many(halves[1]), noise)
    for sid, out in zip(sids, (*first, *second), strict=True):
        np.testing.assert_allclose(out, alone(model, x[sid]), atol=1e-5)
    assert streams.ids == tuple(sids)


def test_refusals_and_failures_leave_the_lock_open(backend, model, tokens, monkeypatch):
    streams = ns.StreamPool(model, 1, backend)
    sid, other = streams.open(), streams.open()
    before = streams.snapshot(sid)

    def fail(*_):
        raise RuntimeError("out of luck")

    for name in ("push", "push_many", "read", "clear", "time"):
        with monkeypatch.context() as patch:
            patch.setattr(streams._backend, name, fail)
            call = {
                "push": lambda: streams.push(sid, tokens(5)),
                "push_many": lambda: streams.push_many([sid, other], tokens(2, 5)),
                "read": lambda: streams.snapshot(sid),
                "clear": lambda: streams.reset(sid),
                "time": lambda: streams.time(sid),
            }[name]
            with pytest.raises(RuntimeError, match="out of luck"):
                call()
        with pytest.raises(ValueError, match="NaN"):
            streams.push(sid, [np.nan] * 5)
        assert at_once(lambda: streams.snapshot(sid)) == [before]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_of_a_fork_while_others_push_has_whole_streams_and_no_lock_that_is_held(backend):
    done = subprocess.run([sys.executable, "-c", FORKS, backend], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr

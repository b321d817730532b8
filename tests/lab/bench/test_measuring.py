"""Timing, the floor, and the header of a record. No test here depends on the speed of the machine."""

import gc
import subprocess
import sys

import pytest
import torch

from nystream.lab.bench import floor, timing
from nystream.lab.bench.sizes import ModelSizes, build_model
from nystream.stream import StreamPool


def test_jobs_take_turns():
    calls = []
    jobs = {name: timing.TimedCall(lambda x, name=name: calls.append((name, x)), [(0,), (1,), (2,)]) for name in "ab"}
    took = timing.collect(jobs, rounds=2, block=2)
    assert calls == [(name, x % 3) for turn in range(3) for name in "ab" for x in (2 * turn, 2 * turn + 1)]
    assert {name: [len(turn) for turn in turns] for name, turns in took.items()} == {"a": [2, 2], "b": [2, 2]}


def test_a_slow_job_sits_out_some_rounds(monkeypatch):
    now = 0.0

    def wait(seconds):
        nonlocal now
        now += seconds

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now)
    jobs = {"slow": timing.TimedCall(wait, [(1.0,)]), "fast": timing.TimedCall(wait, [(1e-3,)])}
    times = timing.measure(jobs, rounds=30, seconds=6.0)
    assert times["slow"].steps == 3
    assert times["slow"].median == pytest.approx(1.0)
    assert times["fast"].steps == 60
    assert timing.measure({"slow": jobs["slow"]}, rounds=1, seconds=0.1)["slow"].steps == 1


def test_median_p99_and_worst():
    times = timing.Times.of([float(i) for i in range(1000, 0, -1)])
    assert times == (500.5, 991.0, 1000.0, 1000)
    assert timing.Times.of([2.0]) == (2.0, 2.0, 2.0, 1)


def test_garbage_and_threads_are_as_before():
    seen = []
    before = torch.get_num_threads()
    with timing.threads(2):
        timing.collect({"a": timing.TimedCall(lambda: seen.append((gc.isenabled(), torch.get_num_threads())))}, 1, 1)
    assert seen == [(False, 2)] * 2
    assert gc.isenabled()
    assert torch.get_num_threads() == before


def test_the_floor_is_positive_and_grows_with_what_is_read():
    small, large = (timing.measure(floor.read_jobs({"read": size}), 5)["read"].median for size in (1 << 14, 1 << 24))
    assert 0 < small < large


def test_what_a_step_reads():
    sizes = ModelSizes()
    d, ff, m, heads = sizes.embed_dim, sizes.ff_dim, sizes.landmarks, sizes.num_heads
    projections = 4 * d * (d + 1) + sizes.input_dim * d + d + (d + 1) * sizes.output_dim
    block = d * ff + ff + ff * d + d + 3 * 2 * d
    landmarks = 2 * m * d + heads * m * m
    model, held = build_model(sizes), 4 * (projections + block + landmarks + d)
    assert floor.weights(model, object()) == ("the weights of the model", held)
    pool = StreamPool(model, 1, "numba")
    what, packed = floor.weights(model, pool._backend)
    assert what == "the packed weights of the kernel"
    assert packed == pool._backend.weight_bytes < held  # landmarks are folded into the queries and keys


def test_importing_nystream_brings_none_of_it():
    heavy = "{'numba', 'matplotlib', 'rich', 'nystream.lab.bench'}"
    code = f"import sys, nystream; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"

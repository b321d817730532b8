"""Slow steps and their causes, on durations that are made up; nothing here depends on the speed of the machine."""

import gc
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from nystream.cli import bench_tables, screen
from nystream.lab.bench import causes, loops, quiet, watch
from nystream.lab.bench.run import run
from nystream.lab.bench.settings import BenchSettings
from nystream.lab.bench.sizes import ModelSizes, build_model
from nystream.lab.bench.timing import TimedCall
from nystream.stream import StreamPool

ROOT = Path(__file__).parents[3]
TINY = ModelSizes(window=6, embed_dim=8, num_heads=2, landmarks=3, ff_dim=12, input_dim=5, output_dim=3)


def steps(slow=(), count=1000, median=100, took=300, **seen):
    """Steps of `median` nanoseconds, except for the places in `slow`; `seen` are the places of each counter."""
    nanoseconds = np.full(count, median)
    nanoseconds[list(slow)] = took
    happened = {name: np.zeros(count, bool) for name in ("switches", "faults", "collections")}
    for name, places in seen.items():
        happened[name][list(places)] = True
    return watch.Steps(np.arange(count), nanoseconds, **happened)


def both(computing, reading):
    return {loops.COMPUTING: computing, loops.READING: reading}


def counts(found):
    return {row["name"]: row["steps"] for row in found if row["steps"]}


def test_percentiles_and_the_share_of_slow_steps():
    found = causes.figures(steps(range(20)))
    assert found["median_microseconds"] == 0.1
    assert found["p99_microseconds"] == found["p999_microseconds"] == found["worst_microseconds"] == 0.3
    assert found["p99_over_median"] == pytest.approx(3)
    assert (found["steps"], found["slow_steps"], found["slow_share"]) == (1000, 20, 0.02)
    assert causes.figures(steps(range(5)))["p99_over_median"] == 1
    assert causes.figures(steps(range(20), took=200))["slow_steps"] == 0  # exactly twice the median is not slow


def test_a_slow_step_counts_for_one_cause():
    taken = steps(range(10), collections=[0, 500], switches=[0, 1, 2], faults=[2, 3, 600])
    found = causes.causes(taken, 100, both(steps(), steps()))
    assert counts(found) == {causes.COLLECTOR: 1, causes.SWITCH: 2, causes.FAULT: 1, causes.UNEXPLAINED: 6}
    assert sum(row["of_slow"] for row in found) == pytest.approx(1)
    assert sum(row["of_all"] for row in found) == pytest.approx(0.01)
    assert causes.own_share(found) == pytest.approx(0.008)  # all but the switches


def test_the_machine_has_as_many_as_the_loops():
    taken = steps(range(30))
    found = causes.causes(taken, 100, both(steps(range(10)), steps(range(24), switches=range(8))))
    assert counts(found) == {causes.INTERRUPTED: 10, causes.CACHES: 6, causes.UNEXPLAINED: 14}
    assert counts(causes.causes(taken, 100, both(steps(range(50)), steps(range(20))))) == {causes.INTERRUPTED: 30}
    assert causes.chance(taken, both(steps(range(10)), steps(range(34)))) == 16  # 2 sqrt(30 + 34)
    # A longer loop has had the same delay although it took less than twice its own median.
    longer = steps(range(10), median=250, took=400)
    assert causes.figures(longer)["slow_steps"] == 0
    assert counts(causes.causes(taken, 100, both(longer, steps())))[causes.INTERRUPTED] == 10


def test_a_phase_that_is_always_slow_is_the_algorithm():
    late = range(7, 1000, 100)
    taken = steps([*late, 11], switches=[7, 11])
    assert causes.slow_phases(taken, 100) == [7]
    found = causes.causes(taken, 100, both(steps(), steps()))
    assert counts(found) == {causes.ALGORITHM: 10, causes.SWITCH: 1}
    assert causes.slow_phases(taken, 500) is None  # two steps of each phase say nothing
    assert counts(causes.causes(taken, 500, both(steps(), steps()))) == {causes.SWITCH: 2, causes.UNEXPLAINED: 9}


def test_what_the_machine_does_to_steps_that_are_all_alike():
    found = causes.machine(steps(), both(steps(range(20), median=200, took=350), steps(range(5))))
    assert found["p99_over_median"] == pytest.approx(2.5)  # 150 more than the median of the loop
    assert found["delay_microseconds"] == 0.1
    assert found["delays_per_second"] == pytest.approx(20 / 203e-6)
    assert causes.machine(steps(), both(steps(), steps()))["p99_over_median"] == 1


def test_jobs_take_turns_and_collections_are_seen():
    calls = []

    def job(name, x):
        calls.append((name, x))
        if (name, x) == ("a", 4):
            gc.collect(0)

    jobs = {name: TimedCall(job, [(name, x) for x in range(6)]) for name in "ab"}
    before, rounds = list(gc.callbacks), []
    found = watch.watched(jobs, rounds=2, turn=2, advance=lambda: rounds.append(1))
    # The first step of a turn is not counted, and the first turn of each job warms up.
    assert calls == [(name, x) for start in (None, 0, 3) for name in "ab" for x in range(start or 0, (start or 0) + 3)]
    assert found["a"].places.tolist() == found["b"].places.tolist() == [1, 2, 4, 5]
    assert found["a"].collections.tolist()[2]
    assert (found["a"].nanoseconds > 0).all()
    assert len(rounds) == 2
    assert gc.callbacks == before


def test_a_system_that_does_not_count(monkeypatch):
    monkeypatch.setattr(watch.importlib.util, "find_spec", lambda name: None)
    assert not watch.counts_switches()
    assert watch._usage()() == (0, 0)


def test_turns_of_a_loop_follow_its_time(monkeypatch):
    monkeypatch.setattr(loops, "_seconds", lambda call, turns: call(turns))
    assert loops.turns_for(lambda turns: 2e-6 + 1e-9 * turns, 12e-6) == 10_000
    assert loops.turns_for(lambda turns: 2e-6 + 1e-9 * turns, 1e-6) == 0


def test_pushes_make_no_work_for_the_garbage_collector():
    pool = StreamPool(build_model(TINY), 1, "numba")
    sid, x = pool.open(), np.zeros(TINY.input_dim, np.float32)
    kept = [pool.push(sid, x)] * 3000
    gc.collect()
    with watch.counting_collections() as collections:
        for place in range(len(kept)):
            kept[place] = pool.push(sid, x)
        assert collections == [0]


@pytest.fixture(scope="module")
def record():
    return run(BenchSettings(TINY, parts=("quiet",), rounds=3, backend="torch"))


def test_the_record_has_every_figure(record):
    part = record["quiet"]
    assert [row["name"] for row in part["rows"]] == [quiet.PUSH, loops.COMPUTING, loops.READING]
    for row in part["rows"]:
        assert row["steps"] == part["rows"][0]["steps"]
        times = [row[f"{name}_microseconds"] for name in ("median", "p99", "p999", "worst")]
        assert times[0] > 0
        assert times == sorted(times)
    assert sum(row["steps"] for row in part["causes"]) == part["rows"][0]["slow_steps"]
    assert record["targets"] == []  # they are for the compiled pool


@pytest.mark.parametrize(("noisy", "own", "mark"), [(True, 0.0, "NOISY"), (True, 0.02, "MISSED"), (False, 0, "MISSED")])
def test_a_noisy_machine_excuses_only_its_own_slow_steps(monkeypatch, noisy, own, mark):
    few = both(steps(range(30 if noisy else 0)), steps())
    mine = steps(range(30), faults=range(round(1000 * own)))
    monkeypatch.setattr(quiet, "watched", lambda *_: {quiet.PUSH: mine, **few})
    monkeypatch.setattr(quiet, "causes", lambda taken, cycle, others: causes.causes(taken, 100, others))
    monkeypatch.setattr(BenchSettings, "has_targets", True)
    found = run(BenchSettings(TINY, parts=("quiet",), rounds=1, backend="numba"))
    target = found["targets"][0]
    assert not target["met"]
    assert target["value"] == pytest.approx(3)
    assert found["quiet"]["machine"]["noisy"] == noisy
    text = shown(found)
    assert f"{mark} p99 of a step against the median, fixed landmarks 3 x ≤ 2 x" in text
    assert "p99 of a step against the median, fixed landmarks: for an idle core." in text
    assert any(line.startswith("This machine is noisy") for line in text) == noisy


def test_what_was_not_seen_is_told(record):
    part = record["quiet"] | {"counts_switches": False, "slow_phases": None}
    text = " ".join(shown(record | {"quiet": part}))
    assert "This system does not tell when a thread lost the core" in text
    assert "Too few steps to tell slow ones from slow phases: the window has 12 phases." in text


def test_the_page_has_the_same_figures(record, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import _quiet

    part = record["quiet"]
    for noisy in (True, False):
        text = "\n\n".join(_quiet.quiet(part | {"machine": part["machine"] | {"noisy": noisy}}))
        assert ("This machine is noisy" in text) == noisy
        assert "| `pool.push` |" in text
        for row in part["causes"]:
            assert f"| {row['name']} | {row['steps']:,} |" in text
    for name in ("_quiet", "_source"):
        sys.modules.pop(name, None)


def shown(record):
    """The lines of the tables, with single spaces."""
    console = Console(width=80, color_system=None, file=io.StringIO())
    screen.print_blocks(console, bench_tables.blocks(record))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    return [" ".join(line.split()) for line in lines]

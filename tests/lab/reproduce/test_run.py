"""Many cells, one after another."""

import pytest

from nystream.lab.reproduce import run as running
from nystream.lab.reproduce import store
from nystream.lab.reproduce.job import Job
from nystream.lab.reproduce.run import attempt, baselines, left, one_by_one, run


@pytest.fixture
def fake_runs(monkeypatch):
    """Jobs that end at once: with a record, or with the entry of `endings` for their name."""
    ran, endings = [], {}

    def one(self):
        ran.append(self.name)
        ending = endings.get(self.name)
        if isinstance(ending, BaseException):
            raise ending
        return {**self.wanted(), "metric": "accuracy", "metrics": {"accuracy": {"mean": ending or 0.5}}}

    monkeypatch.setattr(Job, "run", one)
    return ran, endings


@pytest.fixture
def jobs(job):
    return [job(model) for model in ("full", "co-full-single", "nystrom")]


def test_one_that_fails_takes_no_other_with_it(jobs, fake_runs, tmp_path):
    ran, endings = fake_runs
    endings["gtzan-1-co-full"] = RuntimeError("out of memory")
    said = []
    outcomes = run(jobs, tmp_path / "results", one_by_one, said.append, show=False)
    assert said == outcomes
    assert ran == [outcome.name for outcome in outcomes] == [job.name for job in jobs]
    assert [outcome.record is None for outcome in outcomes] == [False, True, False]
    assert outcomes[1].error == "RuntimeError: out of memory"
    assert "in one\n" in outcomes[1].trace
    names = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert names == ["gtzan-1-full.json", "gtzan-1-nystrom.json"]
    assert [job.name for job in left(jobs, tmp_path / "results")] == ["gtzan-1-co-full"]


def test_a_record_that_cannot_be_written_has_failed(jobs, fake_runs, tmp_path):
    fake_runs[1]["gtzan-1-full"] = float("nan")
    outcomes = run(jobs, tmp_path, one_by_one, show=False)
    assert [outcome.record is None for outcome in outcomes] == [True, False, False]
    assert "JSON" in outcomes[0].error
    assert not (tmp_path / "gtzan-1-full.json").exists()


def test_whoever_stops_it_stops_it(jobs, fake_runs, tmp_path):
    ran, endings = fake_runs
    endings["gtzan-1-co-full"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(jobs, tmp_path, one_by_one, show=False)
    assert ran == ["gtzan-1-full", "gtzan-1-co-full"]
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["gtzan-1-full.json"]


def test_the_runner_is_closed_when_it_is_stopped_elsewhere(jobs, fake_runs, tmp_path):
    closed = []

    def runner(jobs):
        try:
            yield from one_by_one(jobs)
        finally:
            closed.append(True)

    def say(outcome):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        run(jobs, tmp_path, runner, say, show=False)
    assert closed, stopped


def test_what_is_done_is_left_alone(jobs, fake_runs, tmp_path):
    assert left(jobs, tmp_path) == jobs
    run(jobs, tmp_path, one_by_one, show=False)
    assert left(jobs, tmp_path) == []
    assert left(jobs, tmp_path, again=True) == jobs


def test_what_stands_in_the_way_is_found_first(job, fake_runs, tmp_path):
    store.write(tmp_path, {**job("nystrom").wanted(), "budget": {}})
    with pytest.raises(ValueError, match=r"gtzan-1-nystrom\.json is of another experiment"):
        left([job("full"), job("nystrom")], tmp_path)
    for again in (False, True):
        with pytest.raises(ValueError, match="splits=11"):
            left([job("full"), job("co-full-single", splits=11)], tmp_path, again)
    assert not fake_runs[0]


def test_a_failure_has_its_traceback(job, fake_runs):
    fake_runs[1]["gtzan-1-full"] = FloatingPointError("the loss\nis not finite")
    outcome = attempt(job("full"))
    assert outcome.record is None
    assert outcome.error.startswith("FloatingPointError: the loss")
    assert outcome.trace.startswith("Traceback")


def test_baselines_are_computed_once(job, tmp_path, monkeypatch):
    baselines(job(), tmp_path)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    monkeypatch.setattr(running, "run_baseline", None)
    baselines(job(), tmp_path)
    assert path.read_bytes() == before

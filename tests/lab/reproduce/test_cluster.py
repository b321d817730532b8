"""Cells on a Ray cluster of this machine."""

import itertools
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nystream.lab.reproduce.cluster import _may_start, _placed, _trainings, on_ray
from nystream.lab.reproduce.job import Job
from nystream.lab.reproduce.problems import problem
from nystream.lab.reproduce.run import run

# The clusters of these tests have a token of their own; Ray would else keep one in the home folder.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
ray = pytest.importorskip("ray")
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

FULL = problem("gtzan").usual()
BUILTIN = print


class Broken:
    """An object that cannot be unpickled."""

    def __reduce__(self):
        return int, ("broken",)


@dataclass(frozen=True)
class Fake(Job):
    """A job that ends as its command says, after writing a file with its name to the work folder."""

    @property
    def name(self):
        return self.command

    def run(self):
        (self.work / self.command).touch()
        kind = self.command.rstrip("0123456789")
        if kind == "raises":
            raise RuntimeError("out of memory")
        if kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "sleeps":
            time.sleep(600)
        record = {"name": self.name, "pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}
        return record | ({"broken": Broken()} if kind == "broken" else {})


def jobs(work, *commands, **options):
    fields = {"splits": 1, "seeds": 1, "data": work, "work": work, "device": "cpu", **options}
    # Cells of other depths, which share no training.
    return [Fake(replace(FULL, layers=1 + i), command=command, **fields) for i, command in enumerate(commands)]


@pytest.fixture(scope="module")
def cluster():
    """A cluster of another process, to which this process is not connected."""
    code = (
        "import ray, sys\n"
        "ray.init('local', num_cpus=2, num_gpus=0, include_dashboard=False, object_store_memory=80 * 2**20)\n"
        "print(ray.get_runtime_context().gcs_address, flush=True)\n"
        "sys.stdin.read()\n"
    )
    # Ray sets the threads of its workers, unless whoever starts it has.
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    pipes = {
        "env": env,
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "text": True,
    }
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(60)


@pytest.fixture(autouse=True)
def _disconnected():
    yield
    assert not ray.is_initialized()
    assert print is BUILTIN  # Ray would put one of its own there


@pytest.mark.deploy
def test_one_that_fails_takes_no_other_with_it(cluster, tmp_path):
    commands = ["a1", "raises2", "dies3", "broken4", "a5", "a6"]
    said = []
    outcomes = run(jobs(tmp_path, *commands), tmp_path / "results", lambda j: on_ray(j, cluster), said.append, False)
    assert said == outcomes
    found = {outcome.name: outcome for outcome in outcomes}
    assert sorted(found) == sorted(commands)
    assert sorted(path.stem for path in (tmp_path / "results").iterdir()) == ["a1", "a5", "a6"]
    assert found["raises2"].error == "RuntimeError: out of memory"
    assert "in run\n" in found["raises2"].trace
    assert "WorkerCrashedError: The worker died unexpectedly" in found["dies3"].error
    assert found["broken4"].error.startswith("RaySystemError: ")
    assert "invalid literal for int()" in found["broken4"].error
    for outcome in outcomes:
        assert "\n" not in outcome.error
        assert outcome.record is None or (outcome.record["pid"], outcome.record["threads"]) != (os.getpid(), "0")


@pytest.mark.deploy
def test_outcomes_come_as_they_end(cluster, tmp_path):
    found = on_ray(jobs(tmp_path, "sleeps1", "a2"), cluster)
    job, outcome = next(found)
    assert (job.name, outcome.name) == ("a2", "a2")
    assert outcome.record["threads"] == "1"
    found.close()


@pytest.mark.deploy
def test_whoever_stops_it_stops_what_is_under_way(cluster, tmp_path):
    def say(outcome):
        while not (tmp_path / "sleeps2").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(jobs(tmp_path, "a1", "sleeps2", "sleeps3", "b4"), tmp_path, lambda j: on_ray(j, cluster), say, False)
    # Both places are free again, so that two at once can run; the cluster is still there.
    names = [job.name for job, _ in on_ray(jobs(tmp_path, "a5", "a6", threads=1), cluster)]
    assert sorted(names) == ["a5", "a6"]
    assert not (tmp_path / "b4").exists()


@pytest.mark.deploy
def test_a_connection_that_is_there_is_used_and_kept(cluster, tmp_path):
    ray.init(cluster, log_to_driver=False)
    try:
        (job,) = jobs(tmp_path, "a1")
        twins = [replace(job, command=f"a{i}") for i in range(4)]  # of which one is run first
        names = [outcome.name for _, outcome in on_ray(twins, "auto")]
        assert names[0] == "a0"
        assert sorted(names) == ["a0", "a1", "a2", "a3"]
        assert ray.is_initialized()
    finally:
        ray.shutdown()


@pytest.mark.deploy
def test_what_the_cluster_has_not_is_refused(cluster, tmp_path):
    for options, named in (
        ({"device": "cuda"}, "device='cuda' needs 1 GPUs per cell, but the Ray cluster has 0"),
        ({"threads": 3}, "threads=3 needs 3 CPUs per cell, but the Ray cluster has 2"),
    ):
        with pytest.raises(ValueError, match=named):
            list(on_ray(jobs(tmp_path, "a1", **options), cluster))


@pytest.mark.parametrize(
    ("device", "room", "gpus", "placed", "needs"),
    [
        ("auto", {"CPU": 4.0}, 1.0, "cpu", {"num_cpus": 1, "num_gpus": 0}),
        ("auto", {"CPU": 4.0, "GPU": 1.0}, 0.25, "cuda", {"num_cpus": 1, "num_gpus": 0.25}),
        ("cuda:1", {"CPU": 4.0, "GPU": 2.0}, 1.0, "cuda", {"num_cpus": 1, "num_gpus": 1.0}),
        ("cpu", {"CPU": 4.0, "GPU": 2.0}, 1.0, "cpu", {"num_cpus": 1, "num_gpus": 0}),
    ],
)
def test_the_device_is_one_that_the_cluster_has(device, room, gpus, placed, needs):
    (job,) = jobs(Path(), "a1", device=device)
    found, asked = _placed(job, room, gpus)
    assert (found.device, asked) == (placed, needs)


def test_nobody_waits_where_another_could_work():
    few = {"landmarks": 4}
    cells = {
        "full": FULL,
        "co-full": replace(FULL, model="co-full-single"),
        "full of two": replace(FULL, layers=2),
        "co-cont": replace(FULL, model="co-cont-single", **few),
        "fixed": replace(FULL, model="co-fixed-single", **few),
        "plain fixed": replace(FULL, model="nystrom-fixed", **few),
        "learned": replace(FULL, model="co-fixed-single", learned=True, **few),
        "taught": replace(FULL, model="co-cont-single", distilled=True, **few),
    }
    (job,) = jobs(Path(), "a1")
    made = {name: replace(job, cell=cell) for name, cell in cells.items()}
    families = [{"full", "co-full", "taught"}, {"fixed", "plain fixed", "learned"}]  # what shares a training
    for one, two in itertools.permutations(made, 2):
        shared = any({one, two} <= family for family in families)
        assert _may_start(made[one], [made[two]], set()) != shared
    assert _may_start(made["learned"], [made["fixed"]], _trainings(made["fixed"]))  # the first phase is there


@pytest.mark.deploy
def test_a_cluster_of_its_own_is_started_and_ended(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    found = on_ray(jobs(tmp_path, "a1", "raises2"), "local")
    assert sorted(outcome.name for _, outcome in found) == ["a1", "raises2"]
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not ray.is_initialized()


@pytest.mark.deploy
def test_an_address_where_nobody_is(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "nonsense"):
            with pytest.raises(ConnectionError, match=f"ray='{address}' cannot be reached: "):
                list(on_ray(jobs(tmp_path, "a1"), address))


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install -c constraints.txt '\.\[ray\]'"):
        list(on_ray(jobs(tmp_path, "a1"), "local"))

"""Jobs that are killed while they write, and run again: nothing is lost, and nothing is left lying about."""

import os
import runpy
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nystream import files

SCRIPT = Path(__file__).parent / "killed_writer.py"
JOBS = runpy.run_path(str(SCRIPT))["JOBS"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}

KILLS = [
    ("state", "a.state"),
    ("pretrained", "model.safetensors"),
    ("pretrained", "config.json"),
    ("pretrained", "README.md"),
    ("fit", "metrics.jsonl"),
    ("fit", "checkpoint.safetensors"),
    ("fit", "config.json"),
    ("two_phase", "checkpoint.safetensors"),
    ("session", "session"),
    ("record", "cell.json"),
    ("bench", "bench.json"),
    ("run", "config.toml"),
    ("run", "checkpoint.safetensors"),
    ("run", "scores.json"),
]


def remnants(folder):
    return [path.name for path in folder.rglob("*") if files.is_remnant(path) or path.name.startswith(".tmp")]


@pytest.mark.parametrize(("job", "file"), KILLS)
def test_a_job_that_was_killed_leaves_nothing_when_it_runs_again(tmp_path, job, file):
    done = subprocess.run([sys.executable, SCRIPT, job, tmp_path, file], env=ENV, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert remnants(tmp_path)
    JOBS[job](tmp_path)
    assert remnants(tmp_path) == []
    assert list(tmp_path.rglob(file))


@pytest.mark.parametrize("job", JOBS)
def test_all_that_a_job_writes_has_the_mode_of_a_plain_file(tmp_path, job):
    before = os.umask(0o026)  # one that is nobody's default
    try:
        JOBS[job](tmp_path)
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.rglob("*") if path.is_file()}
    assert modes
    assert modes == dict.fromkeys(modes, "0o640")

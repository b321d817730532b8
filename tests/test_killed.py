"""Jobs that are killed while writing, and run again: nothing is lost, and no partial file is left."""

import json
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
WRITER = runpy.run_path(str(SCRIPT))
JOBS, KILLS = WRITER["JOBS"], WRITER["KILLS"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def remnants(folder):
    return [path.name for path in folder.rglob("*") if files.is_remnant(path) or path.name.startswith(".tmp")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folders that the killed jobs left, and how each job ended; one process, which forks, imports torch once."""
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run([sys.executable, SCRIPT, folder], env=ENV, capture_output=True, timeout=300, text=True)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.parametrize(("job", "file"), KILLS)
def test_a_job_that_was_killed_leaves_nothing_when_it_runs_again(killed, job, file):
    folder, endings, said = killed
    assert endings[f"{job}-{file}"] == -signal.SIGKILL, said
    folder /= f"{job}-{file}"
    assert remnants(folder)
    JOBS[job](folder)
    assert remnants(folder) == []
    assert list(folder.rglob(file))


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

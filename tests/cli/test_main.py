"""Common to all commands: version, exit codes, missing packages, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nystream
from nystream.cli import EXTRAS, main
from nystream.cli.commands import COMMANDS


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nystream {nystream.__version__}\n"


def test_bad_input_is_one_line_and_a_traceback_on_demand(capsys, tmp_path):
    words = ["report", str(tmp_path / "nothing")]
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*words, "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("No module named 'sklearn'", "No module named 'sklearn': pip install -c constraints.txt '.[train]'"),
        (
            "fitting needs it: pip install -c constraints.txt '.[train]'",
            "fitting needs it: pip install -c constraints.txt '.[train]'",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_extra_once(capsys, monkeypatch, message, said):
    def missing(args):
        raise ModuleNotFoundError(message, name="sklearn.cluster")

    monkeypatch.setattr("nystream.cli._chosen", missing)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == f"nystream: error: {said}\n"


def test_every_extra_is_one_of_the_package():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for extra in EXTRAS.values():
        assert f"\n{extra} = [" in project


# Runs the command and does something to it when torch is about to be imported.
HOOKED = """
import sys

class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            {does}

sys.meta_path.insert(0, Hook())
from nystream.cli import main
sys.exit(main({words}))
"""


def hooked(does: str, *words: str) -> subprocess.CompletedProcess[str]:
    source = HOOKED.format(does=does, words=list(words))
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("does", "code", "said"),
    [
        ("raise KeyboardInterrupt", 130, "stopped"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 130, "stopped"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, "stopped by SIGTERM"),
    ],
)
def test_stopped_while_torch_is_imported(does, code, said):
    done = hooked(does, "bench")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"nystream: {said}\n")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_that_is_asked_to_end_says_so(capsys, monkeypatch, name):
    monkeypatch.setattr("nystream.cli._chosen", lambda args: lambda: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    assert main([name]) == 143
    assert capsys.readouterr().err == "nystream: stopped by SIGTERM\n"
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_threads_of_torch_do_not_spin_while_they_wait(monkeypatch, given):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    done = hooked("import os; os.write(1, os.environ['OMP_WAIT_POLICY'].encode()); raise KeyboardInterrupt", "bench")
    assert (done.returncode, done.stdout) == (130, given or "PASSIVE")


def test_importing_the_package_changes_no_environment():
    source = "import os; before = dict(os.environ); import nystream.cli, nystream.train; assert os.environ == before"
    subprocess.run([sys.executable, "-c", source], check=True, timeout=120)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["--completion", "--help"]])
def test_a_quick_answer_needs_no_torch(words):
    done = hooked("raise AssertionError", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_is_not_there_needs_no_torch():
    done = hooked("raise AssertionError", "dmeo")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_reader_that_leaves():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "nystream", "--help"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=120)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")

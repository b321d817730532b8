"""What all commands share: help, version, completion, exit codes."""

from __future__ import annotations

import subprocess

import pytest

import nystream
from nystream.cli import _commands, main


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nystream {nystream.__version__}\n"


@pytest.mark.parametrize("command", sorted(_commands()))
def test_every_command_has_help_with_an_example(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"nystream {command}" in said.split("xample", 1)[1]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_is_a_script(capsys, tmp_path, shell):
    with pytest.raises(SystemExit) as stop:
        main(["--completion", shell])
    assert not stop.value.code
    script = capsys.readouterr().out
    assert "nystream" in script
    assert "reproduce" in script
    if shell == "bash":
        (tmp_path / "completion").write_text(script)
        done = subprocess.run(["bash", "-c", "source ./completion && complete -p nystream"], cwd=tmp_path, check=False)
        assert done.returncode == 0


@pytest.mark.parametrize("words", [["--completion"], ["--completion", "fish"], ["--completion", "bash", "more"]])
def test_a_shell_that_is_not_known_is_refused(capsys, words):
    assert main(words) == 2
    assert "bash or zsh" in capsys.readouterr().err


def test_bad_input_is_one_line_and_a_traceback_on_demand(capsys, tmp_path):
    words = ["report", str(tmp_path / "nothing")]
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*words, "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err

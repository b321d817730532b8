"""`--help` of `nystream` and of every command."""

from __future__ import annotations

import io

import pytest

from nystream.cli import main
from nystream.cli.commands import COMMANDS
from nystream.cli.options import options_of


def printed(capsys, *words):
    assert main([*words, "--help"]) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def test_of_the_command_a_line_each(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = printed(capsys)
    lines = out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for name, command in COMMANDS.items():
        assert [line for line in lines if line.split()[:1] == [name]] == [f"  {name:<13}  {command.summary}"]
    for option in ("--version", "--completion", "--debug", "--help"):
        assert f"  {option} " in out
    assert main([]) == 0
    assert capsys.readouterr().out == out
    assert main(["-h"]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_of_a_part_everything(capsys, monkeypatch, name, width):
    monkeypatch.setenv("COLUMNS", str(width))
    out = printed(capsys, name)
    prose, options = out.split("\noptions:\n")
    assert f"nystream {name}" in prose.split("xample", 1)[1]
    lines = [line for line in out.splitlines() if "nystream" not in line]  # an example is not broken
    assert max(map(len, lines)) <= min(width, 100)
    words = out.split()
    for option in options_of(COMMANDS[name].load()):
        assert f"  {option.usage}" in out
        for word in option.help.split():  # whole: nothing is broken in the middle of a word
            assert word in words
    for jargon in ("None}", "default: None", "default: False", "default: True", "default: ''", "\N{NO-BREAK SPACE}"):
        assert jargon not in out
    assert all(line.startswith("  ") for line in options.splitlines())


def test_help_wherever_it_stands(capsys):
    whole = printed(capsys, "costs")
    assert printed(capsys, "costs", "--table", "foo") == whole
    assert main(["costs", "-h", "--window"]) == 0
    assert capsys.readouterr().out == whole


@pytest.mark.parametrize("words", [["--completion"], ["--completion", "bash"]])
def test_of_completion_how_to_use_it(capsys, words):
    out = printed(capsys, *words)
    assert "source <(nystream --completion bash)" in out
    assert "/_nystream" in out


def test_a_word_that_is_no_command_has_no_help(capsys):
    assert main(["serv", "--help"]) == 2
    assert capsys.readouterr().err.startswith("nystream: error: unknown command 'serv'")


def test_in_a_pipe_that_knows_only_ascii(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    assert main(["reproduce", "--help"]) == 0
    assert b"inverses of ? for" in out.buffer.getvalue()

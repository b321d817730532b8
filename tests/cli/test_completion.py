"""The completion scripts, run in bash and zsh."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from nystream.cli import main
from nystream.cli.commands import COMMANDS
from nystream.cli.completion import SCRIPTS
from nystream.cli.options import options_of

# As bash calls it: the words of the line, the last of which is to be completed. FILES if it is left to the shell.
ASK = """
source ./script
compopt() { files=; }
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); files=FILES
    _nystream
    echo "$files" "${COMPREPLY[@]}"
}
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    folder = tmp_path_factory.mktemp("bash")
    (folder / "script").write_text(SCRIPTS["bash"](), encoding="utf-8")
    return folder


def ask(folder, *lines):
    """Candidates for each of the lines; a space at the end begins a new word."""
    asked = "".join(f"ask {shlex.join([*line.split(), *([''] if line.endswith(' ') else [])])}\n" for line in lines)
    done = subprocess.run(["bash", "-c", ASK + asked], cwd=folder, capture_output=True, text=True, check=True)
    assert not done.stderr
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("nystream ", list(COMMANDS)),
        ("nystream re", ["reproduce", "report"]),
        ("nystream --debug co", ["costs"]),
        ("nystream -", ["--completion", "--debug", "--help", "--version"]),
        ("nystream --completion ", ["bash", "zsh"]),
        ("nystream train --vari", ["--variant"]),
        ("nystream train --variant ", ["co-fixed", "co-cont", "co-full"]),
        ("nystream train --device c", ["cpu", "cuda"]),
        ("nystream train data.csv --variant co-c", ["co-cont"]),
        ("nystream costs --table = th", ["thumos14"]),
        ("nystream costs --table =", ["gtzan", "thumos14", "electricity"]),
        ("nystream costs -n 3 --sums p", ["partials"]),
        ("nystream costs --hel", ["--help"]),
        ("nystream reproduce ", ["gtzan", "thumos14", "electricity"]),
        ("nystream reproduce --plain --seeds 5 e", ["electricity"]),
        ("nystream reproduce gtzan ", []),
        ("nystream reproduce --models ", []),
        ("nystream demo --weeks ", []),
        ("nystream frobnicate ", []),
        ("nystream train da", ["FILES"]),
        ("nystream train --out ", ["FILES"]),
        ("nystream stream demand ", ["FILES"]),
        ("nystream stream demand sample ", []),
        ("nystream report ", ["FILES"]),
        ("nystream costs --json = co", ["FILES"]),
    ],
)
def test_bash(script, line, candidates):
    assert ask(script, line) == [candidates]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_bash_has_every_option_and_every_choice(script, name):
    options = options_of(COMMANDS[name].load())
    (found,) = ask(script, f"nystream {name} -")
    assert found == [*(flag for option in options for flag in option.flags), "--help", "--debug"]
    chosen = [option for option in options if option.flags and option.choices]
    assert ask(script, *(f"nystream {name} {option.flags[-1]} " for option in chosen)) == [
        list(option.choices) for option in chosen
    ]


def test_bash_takes_it(script):
    command = ["bash", "-c", "source ./script && complete -p nystream"]
    done = subprocess.run(command, cwd=script, capture_output=True, text=True, check=True)
    assert "-o default" in done.stdout
    assert not done.stderr


ZSH = """
fpath=(. $fpath); autoload -Uz compinit && compinit -D -u
source ./_nystream && echo ${_comps[nystream]}
"""


def test_zsh_takes_it(tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    (tmp_path / "_nystream").write_text(SCRIPTS["zsh"](), encoding="utf-8")
    for source in ("zsh -n _nystream", ZSH):
        done = subprocess.run(["zsh", "-f", "-c", source], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert not done.stderr
    assert done.stdout == "_nystream\n"
    done = subprocess.run(
        ["zsh", "-f", "-c", "source ./_nystream"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "compinit" in done.stderr


def test_zsh_has_every_option_with_one_line_of_help():
    script = SCRIPTS["zsh"]()
    for name, command in COMMANDS.items():
        part = script.split(f"\n        {name}) _arguments \\\n")[1].split(" ;;\n")[0].splitlines()
        for option in options_of(command.load()):
            for flag in option.flags:
                assert sum(re.match(rf"\s+'{flag}[=+[]", line) is not None for line in part) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_it_is_printed_and_says_how_it_is_used(capsys, monkeypatch, shell):
    assert main(["--completion", shell]) == 0
    out, err = capsys.readouterr()
    assert f"# To use this: source <(nystream --completion {shell})\n" in out
    assert not err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["--completion", shell]) == 0
    assert capsys.readouterr().err == f"nystream: to use this script: source <(nystream --completion {shell})\n"

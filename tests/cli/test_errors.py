"""Every error in a command line gives one line that names it."""

from __future__ import annotations

import sys

import pytest

from nystream.cli import main
from nystream.cli.commands import COMMANDS
from nystream.cli.errors import as_options, condensed

GENERAL, COMPLETION, DEMO, COSTS = "nystream", "nystream --completion", "nystream demo", "nystream costs"


@pytest.mark.parametrize(
    ("typed", "program", "said"),
    [
        ("dmeo", GENERAL, "unknown command 'dmeo'; did you mean demo?"),
        ("frobnicate", GENERAL, f"unknown command 'frobnicate'; the commands are {', '.join(COMMANDS)}"),
        ("--verison", GENERAL, "unknown option --verison; did you mean --version?"),
        ("--version foo", GENERAL, "unexpected argument 'foo' after --version"),
        ("--help foo", GENERAL, "unexpected argument 'foo' after --help"),
        ("--completion", COMPLETION, "needs bash or zsh"),
        ("--completion fish", COMPLETION, "needs bash or zsh"),
        ("--completion bash more", COMPLETION, "needs bash or zsh"),
        ("demo --weeks x", DEMO, "--weeks needs a whole number, not 'x'"),
        ("demo --weeks 1.5", DEMO, "--weeks needs a whole number, not '1.5'"),
        ("demo --weeks=", DEMO, "--weeks needs a whole number, not ''"),
        ("demo --seconds x", DEMO, "--seconds needs a number, not 'x'"),
        ("demo --weeks", DEMO, "--weeks needs a whole number"),
        ("demo --weeks --plain", DEMO, "--weeks needs a whole number"),
        ("demo --out", DEMO, "--out needs FOLDER"),
        ("demo --plain=yes", DEMO, "--plain takes no value, but got 'yes'"),
        ("demo more", DEMO, "unexpected argument 'more'"),
        ("demo --plain -- more", DEMO, "unexpected argument 'more'"),
        ("costs -n x", COSTS, "--window needs a whole number, not 'x'"),
        ("costs --table foo", COSTS, "--table needs gtzan, thumos14 or electricity, not 'foo'"),
        ("costs --table", COSTS, "--table needs gtzan, thumos14 or electricity"),
        ("costs --tabel gtzan", COSTS, "unknown option --tabel; did you mean --table?"),
        ("costs --num_head 3", COSTS, "unknown option --num-head; did you mean --num-heads?"),
        ("costs -x", COSTS, "unknown option -x"),
        ("reproduce", "nystream reproduce", "TASK (gtzan, thumos14 or electricity) is missing"),
        (
            "reproduce gtzn",
            "nystream reproduce",
            "TASK needs gtzan, thumos14 or electricity, not 'gtzn'; did you mean gtzan?",
        ),
        ("eval", "nystream eval", "MODEL and SOURCE are missing"),
        ("eval runs/a --plain", "nystream eval", "SOURCE is missing"),
        ("fit-landmarks a b", "nystream fit-landmarks", "--out FOLDER is missing"),
        ("train a.csv --variant no", "nystream train", "--variant needs co-fixed, co-cont or co-full, not 'no'"),
        (
            "train a.csv --variant co-fixd",
            "nystream train",
            "--variant needs co-fixed, co-cont or co-full, not 'co-fixd'; did you mean co-fixed?",
        ),
    ],
)
def test_one_line(capsys, typed, program, said):
    assert main(typed.split()) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err == f"{program}: error: {said} ({program} --help)\n"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_same_of_every_command(capsys, name):
    assert main([name, "--qqqqqq"]) == 2
    assert capsys.readouterr().err == (f"nystream {name}: error: unknown option --qqqqqq (nystream {name} --help)\n")


def test_what_nobody_foresaw_is_one_line_too(capsys, monkeypatch):
    def refuses(*args, **options):
        sys.stderr.write("╭─ Value error ─╮\n│ a thing \x1b[1mis\x1b[0m   │\n│ wrong         │\n╰───────────────╯\n")
        raise SystemExit(2)

    monkeypatch.setattr("tyro.cli", refuses)
    assert main(["costs"]) == 2
    assert capsys.readouterr().err == "nystream costs: error: Value error a thing is wrong (nystream costs --help)\n"


def test_a_box_as_one_line():
    assert condensed("╭─ a ─╮\n│ b │\n├───┤\n│ c-d │\n╰───╯\n") == "a b c-d"


def test_numbers_below_zero_and_a_lone_minus_are_values(capsys, monkeypatch):
    monkeypatch.setattr("nystream.cli.costs.Costs.run", lambda self: sys.stdout.write(f"{self.window} {self.json}"))
    assert main(["costs", "-n", "-3", "--json", "-"]) == 0
    assert capsys.readouterr().out == "-3 -"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("`missing='skip'` drops the record", "--missing skip drops the record"),
        ("give `decimal='.'` or `decimal=','`", "give --decimal . or --decimal ,"),
        ("after `skip_lines=3`; `columns` keeps it", "after --skip-lines 3; --columns keeps it"),
        ("give `time_format='%d.%m.%Y %H:%M'`", "give --time-format '%d.%m.%Y %H:%M'"),
        ("`time='Date,Time of day'`", "--time 'Date,Time of day'"),
        ("give `y` in every .npz", "give `y` in every .npz"),
        ("window=8 is too long", "window=8 is too long"),
    ],
)
def test_messages_of_the_library_name_options(message, said):
    assert as_options(message) == said

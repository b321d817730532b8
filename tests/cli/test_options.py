"""What is read from the fields of a command is what tyro makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import tyro
from tyro.conf import Positional, arg

from nystream.cli.commands import COMMANDS
from nystream.cli.options import Option, options_of, usual


@dataclass
class Some:
    """A command."""

    source: Annotated[Positional[Path | None], arg(metavar="SOURCE")] = None
    """A file, said in
    two lines."""
    kind: Annotated[Literal["a", "b"] | None, usual("found")] = None
    """Which."""
    rate: Annotated[float, arg(aliases=["-r"])] = 2.0
    """How fast."""
    steps: bool = True
    """Do without."""


def test_fields_of_all_kinds():
    assert options_of(Some) == [
        Option((), Path, (), "SOURCE", False, "", "A file, said in two lines."),
        Option(("--kind",), str, ("a", "b"), "a|b", False, "(default: found)", "Which."),
        Option(("-r", "--rate"), float, (), "NUMBER", False, "(default: 2)", "How fast."),
        Option(("--no-steps",), bool, (), "", False, "", "Do without."),
    ]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_tyro_takes_every_flag(name):
    command = COMMANDS[name].load()
    options = options_of(command)

    def typed(option: Option, flag: str = "") -> list[str]:
        value = [option.choices[0] if option.choices else "7"] if option.takes_value else []
        return [flag, *value] if flag else value

    needed = [word for one in options if one.required for word in typed(one, one.flags[-1] if one.flags else "")]
    usual_values = parsed(command, needed)
    for option in options:
        for flag in option.flags:
            parsed(command, [*needed, *typed(option, flag)])
        if option.kind is bool:
            assert parsed(command, [*needed, option.flags[-1]]) != usual_values


def parsed(command, words):
    return tyro.cli(command, args=words, config=(tyro.conf.FlagCreatePairsOff,))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_everything_is_explained(name):
    for option in options_of(COMMANDS[name].load()):
        assert option.doc.endswith(".")
        assert option.metavar or not option.takes_value

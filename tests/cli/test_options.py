"""The options that are read from the fields of a command are those that tyro parses."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import tyro
from tyro.conf import Positional, arg

from nystream.cli.commands import COMMANDS
from nystream.cli.options import Option, options_of, overriding, plain_option, typed
from nystream.config.option import option, option_of
from nystream.data.defaults import EPOCHS, LANDMARKS
from nystream.data.settings import Settings
from nystream.lab.bench.sizes import ModelSizes

HEADS = "Number of heads, each embed_dim / num_heads wide."


@dataclass
@overriding(ModelSizes)
class Some:
    """A command."""

    window: Path | None = option_of(ModelSizes, "window")
    source: Positional[Path | None] = option(None, "A file.", "SOURCE")
    kind: Literal["a", "b"] | None = option(None, "Which.", shown="auto-detected")
    rate: Annotated[float, arg(aliases=["-r"])] = option(2.0, "How fast.")
    steps: bool = option(True, "Do without.")
    plain: bool = plain_option()
    heads: int | None = option_of(ModelSizes, "num_heads", shown="as before")


def test_fields_of_all_kinds():
    options = {option.label: option for option in options_of(Some)}
    assert next(iter(options)) == "SOURCE"
    assert list(options)[-1] == "--plain"
    for expected in (
        Option((), Path, (), "SOURCE", False, "", "A file."),
        Option(("--kind",), str, ("a", "b"), "a|b", False, "(default: auto-detected)", "Which."),
        Option(("-r", "--rate"), float, (), "NUMBER", False, "(default: 2)", "How fast."),
        Option(("--no-steps",), bool, (), "", False, "", "Do without."),
        Option(("--heads",), int, (), "N", False, "(default: as before)", HEADS),
        Option(("--num-heads",), int, (), "N", False, "(default: 16)", HEADS),
        Option(("--window",), Path, (), "PATH", False, "(default: 120)", "Window length n, in tokens."),
    ):
        assert options[expected.label] == expected


def test_options_of_another_dataclass_are_none_unless_given():
    assert parsed(Some, ["--landmarks", "3"]) == Some(landmarks=3)
    assert (Some().landmarks, Some().window) == (None, None)


def test_every_setting_of_a_run_is_an_option_with_the_defaults_that_are_used():
    options = {option.label.lstrip("-"): option for option in options_of(COMMANDS["train"].load())}
    for field in dataclasses.fields(Settings):
        assert options["SOURCE" if field.name == "source" else field.name.replace("_", "-")].help
    assert options["epochs"].default == f"(default: {EPOCHS})"
    assert options["landmarks"].default.startswith(f"(default: {LANDMARKS}, ")


def test_the_command_line_of_a_command():
    some = Some(kind="a", rate=0.5, steps=False, plain=True, num_heads=2)
    assert (
        typed(["nystream", "some"], some, skip=("plain",))
        == "nystream some --num-heads 2 --kind a --rate 0.5 --no-steps"
    )
    assert typed(["nystream", "some"], Some()) == "nystream some"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_tyro_takes_every_flag(name):
    command = COMMANDS[name].load()
    options = options_of(command)

    def typed(option: Option, flag: str = "") -> list[str]:
        value = [option.choices[0] if option.choices else "7"] if option.takes_value else []
        return [flag, *value] if flag else value

    needed = [word for one in options if one.required for word in typed(one, one.flags[-1] if one.flags else "")]
    usual_values = parsed(command, needed)
    for each in options:
        for flag in each.flags:
            parsed(command, [*needed, *typed(each, flag)])
        if each.kind is bool:
            assert parsed(command, [*needed, each.flags[-1]]) != usual_values


def parsed(command, words):
    return tyro.cli(command, args=words, config=(tyro.conf.FlagCreatePairsOff,))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_everything_is_explained(name):
    for each in options_of(COMMANDS[name].load()):
        assert each.help.endswith(".")
        assert each.metavar or not each.takes_value

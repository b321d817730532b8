"""The options of a command, read from the fields of its dataclass: help, completion and errors are built from them."""

from __future__ import annotations

import dataclasses
import shlex
import types
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from nystream.config.option import option, option_of, shown_default

AS_TRAINED = "as in training"
METAVARS = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}


@dataclasses.dataclass(frozen=True)
class Option:
    """A field as the command line sees it. One without flags is a positional argument."""

    flags: tuple[str, ...]
    kind: type  # bool takes no value
    choices: tuple[str, ...]
    metavar: str
    required: bool
    default: str  # as the help prints it; may be empty
    help: str
    several: bool = False  # a positional argument that takes one value or more

    @property
    def takes_value(self) -> bool:
        return self.kind is not bool

    @property
    def label(self) -> str:
        """The name that errors use."""
        return self.flags[-1] if self.flags else self.metavar

    @property
    def usage(self) -> str:
        """Flags and value, as they are typed."""
        return " ".join(filter(None, (", ".join(self.flags), self.metavar)))

    @property
    def explained(self) -> str:
        """The help and the default, which is not broken over two lines if it is short."""
        default = self.default if len(self.default) > 30 else self.default.replace(" ", "\N{NO-BREAK SPACE}")
        return " ".join(filter(None, (self.help, default)))

    @property
    def words(self) -> tuple[str, ...]:
        """Values to choose from, even if others are accepted too."""
        return self.choices or (tuple(self.metavar.split("|")) if "|" in self.metavar else ())

    @property
    def needs(self) -> str:
        """The kind of value, for errors: 'a, b or c', or 'a whole number'."""
        if self.words:
            return " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))
        return {int: "a whole number", float: "a number"}.get(self.kind, self.metavar)

    def accepts(self, value: str) -> bool:
        if self.kind in (int, float):
            try:
                self.kind(value)
            except ValueError:
                return False
        return not self.choices or value in self.choices


def plain_option() -> Any:
    return option(False, "Print without colours and progress bars, as in a pipe.")


def overriding(config: type) -> Callable[[type], type]:
    """Class decorator: add the options of `config`, each None unless it is given on the command line.

    Fields that the command already has stay as they are. Of a type such as str | tuple[str, ...], the first is read.
    """

    def add(command: type) -> type:
        own = command.__annotations__
        added = {name: hint for name, hint in typing.get_type_hints(config).items() if name not in own}
        for name, hint in added.items():
            added[name] = (typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint) | None
            setattr(command, name, option_of(config, name))
        command.__annotations__ = added | own
        return command

    return add


def typed(words: Sequence[str], command: Any, skip: Collection[str] = ()) -> str:
    """The command line of a command, without options that have their defaults and without those in `skip`."""

    def flags(part: Any) -> Iterator[str]:
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if dataclasses.is_dataclass(value):
                yield from flags(value)
            elif field.name not in skip and value != field.default:
                yield f"--{'no-' if value is False else ''}{field.name.replace('_', '-')}"
                yield from () if isinstance(value, bool) else (str(value),)

    return shlex.join([*words, *flags(command)])


def options_of(command: type) -> list[Option]:
    """All options of a command: positional arguments, then required options, then the others; --plain is the last."""

    def rank(option: Option) -> int:
        return 0 if not option.flags else 1 if option.required else 2 + (option.label == "--plain")

    return sorted(_read(command), key=rank)


def _read(command: type) -> Iterator[Option]:
    hints = typing.get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        kind, extras = _bare(hints[field.name])
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield from _read(kind)
        else:
            yield _option(field, kind, extras)


def _option(field: dataclasses.Field[Any], kind: Any, extras: list[Any]) -> Option:
    choices = tuple(typing.get_args(kind)) if typing.get_origin(kind) is Literal else ()
    several = typing.get_origin(kind) is tuple
    kind = str if choices else typing.get_args(kind)[0] if several else kind
    flag = "--" + ("no-" if field.default is True else "") + field.name.replace("_", "-")
    aliases = [alias for extra in extras for alias in getattr(extra, "aliases", None) or ()]
    positional = Positional in extras
    required = field.default is dataclasses.MISSING
    metavar = field.metadata.get("metavar") or (field.name.upper() if positional else "|".join(choices))
    shown = shown_default(field)
    default = f"(default: {shown})" if shown else "(required)" if required and not positional else ""
    return Option(
        flags=() if positional else (*aliases, flag),
        kind=kind,
        choices=choices,
        metavar=metavar or METAVARS.get(kind, ""),
        required=required,
        default=default,
        help=field.metadata.get("help", ""),
        several=several,
    )


def _bare(hint: Any) -> tuple[Any, list[Any]]:
    """A type without its annotations and without None, and those annotations."""
    extras: list[Any] = []
    while typing.get_origin(hint) is typing.Annotated:
        hint, *more = typing.get_args(hint)
        extras += more
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))  # of several, the first is read
    return hint, extras

"""The options of a command, read from the fields of its dataclass: help, completion and errors are made of them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional, arg

METAVARS = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}


@dataclasses.dataclass(frozen=True)
class Option:
    """What a field is on the command line. Without flags, it is told by its place."""

    flags: tuple[str, ...]
    kind: type  # bool takes no value
    choices: tuple[str, ...]
    metavar: str
    required: bool
    default: str  # as the help says it; empty if it does not
    doc: str

    @property
    def takes_value(self) -> bool:
        return self.kind is not bool

    @property
    def label(self) -> str:
        """What an error calls it."""
        return self.flags[-1] if self.flags else self.metavar

    @property
    def usage(self) -> str:
        """As it is typed."""
        return " ".join(filter(None, (", ".join(self.flags), self.metavar)))

    @property
    def explained(self) -> str:
        """What it is and what holds without it, which stays in one line if it is short."""
        default = self.default if len(self.default) > 30 else self.default.replace(" ", "\N{NO-BREAK SPACE}")
        return " ".join(filter(None, (self.doc, default)))

    @property
    def words(self) -> tuple[str, ...]:
        """Values to choose from, also where others are possible."""
        return self.choices or (tuple(self.metavar.split("|")) if "|" in self.metavar else ())

    @property
    def needs(self) -> str:
        """What must be given."""
        return _either(self.words) or {int: "a whole number", float: "a number"}.get(self.kind, self.metavar)

    def accepts(self, value: str) -> bool:
        if self.kind in (int, float):
            try:
                self.kind(value)
            except ValueError:
                return False
        return not self.choices or value in self.choices


def usual(what: Any, metavar: str | None = None) -> Any:
    """An option that nobody has to give: what holds without it, as the help says it."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {what})")


def options_of(command: type) -> list[Option]:
    """All of a command, those without flags first."""
    return sorted(_read(command, {}), key=lambda option: bool(option.flags))


def _read(command: type, defaults: dict[str, Any]) -> Iterator[Option]:
    hints, docs = typing.get_type_hints(command, include_extras=True), _docs(command)
    for field in dataclasses.fields(command):
        kind, extras = _bare(hints[field.name])
        default = defaults.get(field.name, field.default)
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield from _read(kind, vars(default))
        else:
            yield _option(field.name, kind, extras, default, docs.get(field.name, ""))


def _option(name: str, kind: Any, extras: list[Any], default: Any, doc: str) -> Option:
    told: Any = next((extra for extra in extras if hasattr(extra, "help_behavior_hint")), arg())
    choices = tuple(typing.get_args(kind)) if typing.get_origin(kind) is Literal else ()
    kind = str if choices else kind
    flag = "--" + ("no-" if default is True else "") + name.replace("_", "-")
    place = Positional in extras
    required = default is dataclasses.MISSING
    hint = told.help_behavior_hint
    if hint is None:
        hint = "(required)" * (not place) if required else _default(default)
    return Option(
        flags=() if place else (*(told.aliases or ()), flag),
        kind=kind,
        choices=choices,
        metavar=told.metavar or (name.upper() if place else "|".join(choices) or METAVARS.get(kind, "")),
        required=required,
        default=hint,
        doc=doc,
    )


def _default(value: Any) -> str:
    """What holds if nothing is said, where that is worth a word."""
    if value is None or value == "" or isinstance(value, bool):
        return ""
    return f"(default: {f'{value:g}' if isinstance(value, float) else value})"


def _bare(hint: Any) -> tuple[Any, list[Any]]:
    """A type without its annotations and without None, and those annotations."""
    extras: list[Any] = []
    while typing.get_origin(hint) is typing.Annotated:
        hint, *more = typing.get_args(hint)
        extras += more
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (one for one in typing.get_args(hint) if one is not type(None))
    return hint, extras


def _docs(command: type) -> dict[str, str]:
    """The string below every field."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(command))).body
    assert isinstance(tree, ast.ClassDef)
    docs = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            docs[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return docs


def _either(words: tuple[str, ...]) -> str:
    """'a, b or c'."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))

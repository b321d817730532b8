"""Dataclass fields that are also options of the command: the field itself carries its help."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from typing import Any


def option(default: Any = dataclasses.MISSING, help: str = "", metavar: str = "", shown: str = "") -> Any:
    """A dataclass field with the help of its option.

    Args:
        default: The field's default; a field without one is a required option.
        help: What the option means, in sentences.
        metavar: The value's name, or choices such as `fail|fill`; derived from the type by default.
        shown: The default as the help shows it, where that is not the value itself.
    """
    return dataclasses.field(default=default, metadata={"help": help, "metavar": metavar, "shown": shown})


def option_of(config: type, name: str, default: Any = None, **changes: str) -> Any:
    """The option of another dataclass, with another default, and `help`, `metavar` or `shown` changed if given."""
    (field,) = (field for field in dataclasses.fields(config) if field.name == name)
    return option(default, **({**field.metadata, "shown": shown_default(field)} | changes))


def shown_default(field: dataclasses.Field[Any]) -> str:
    """The default of an option as the help shows it; empty if it is not worth showing."""
    value, shown = field.default, field.metadata.get("shown", "")
    if shown or value in (None, "", (), dataclasses.MISSING) or isinstance(value, bool):
        return shown
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def add_args(config: type) -> None:
    """List the options of a dataclass and what they mean in its docstring, for `help`."""
    text, example, rest = inspect.cleandoc(config.__doc__ or "").partition("\nExample:")
    text = f"{text.rstrip()}\n\nArgs:\n"
    for field in dataclasses.fields(config):
        default = f" (default: {shown})" if (shown := shown_default(field)) else ""
        said = re.sub(r"--(\w+) ([\w-]+)", r"`\1='\2'`", field.metadata["help"] + default)  # as in Python
        text += textwrap.indent(textwrap.fill(f"{field.name}: {said}", 112, subsequent_indent="    "), "    ") + "\n"
    config.__doc__ = text + example + rest

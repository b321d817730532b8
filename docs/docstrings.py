"""How the API pages read docstrings; mkdocs.yml refers to this file."""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Show an `Example:` that is a doctest as code; the parser knows only `Examples:`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:(?=\n +>>>)", "Examples:", obj.docstring.value, flags=re.M)


class Options(griffe.Extension):
    """Show options as `help` does: plain defaults, and what they mean in the docstring, where they are parameters."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function) == "option":
            attr.value = next((one for one in attr.value.arguments if not isinstance(one, griffe.ExprKeyword)), None)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring and cls.path.startswith(("nystream.estimators.", "nystream.serve.settings.")):
            cls.docstring.value = inspect.getdoc(pydoc.locate(cls.path)) or ""


class Fields(griffe.Extension):
    """Show the fields of dataclasses and NamedTuples: the comment at the end of its line describes each.

    A NamedTuple gets the signature that it is made with, as a dataclass has one.
    """

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        named = any(str(base) == "NamedTuple" for base in cls.bases)
        if not cls.docstring or not (named or "dataclass" in cls.labels):
            return
        fields = [one for one in cls.attributes.values() if one.annotation is not None and "property" not in one.labels]
        said = [(one.name, re.search(r"  # (.+)$", one.lines[0])) for one in fields]
        lines = [f"    {name}: {comment[1]}" for name, comment in said if comment]
        if lines and not re.search(r"^(Args|Attributes):$", cls.docstring.value, re.M):
            text, example, rest = cls.docstring.value.partition("\nExample")
            cls.docstring.value = "\n".join([f"{text.rstrip()}\n", "Args:", *lines, example + rest])
        if named:
            kind = griffe.ParameterKind.positional_or_keyword
            made_with = [
                griffe.Parameter(one.name, annotation=one.annotation, kind=kind, default=one.value) for one in fields
            ]
            cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*made_with)))

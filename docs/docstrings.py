"""How the API pages read docstrings; mkdocs.yml names this file."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Show an `Example:` that is a doctest as code; the parser knows only `Examples:`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:(?=\n +>>>)", "Examples:", obj.docstring.value, flags=re.M)

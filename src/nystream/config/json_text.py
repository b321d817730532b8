"""JSON from files that anybody may have written: stricter than Python's own reader, and its errors are ValueErrors."""

from __future__ import annotations

import json
from typing import Any


def parse(text: str) -> Any:
    """What the text says; a field that is there twice, NaN, and nesting too deep to follow are refused."""
    try:
        return json.loads(text, object_pairs_hook=_fields, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r:.80} is there twice")
    return fields


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON has")

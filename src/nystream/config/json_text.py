"""JSON from files that anybody may have written: stricter than Python's own reader, and its errors are ValueErrors."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100  # levels of nesting; what copies and writes them again recurses
TOO_DEEP = "it is nested too deeply"


def parse(text: str, levels: int = DEEPEST) -> Any:
    """What the text says; a field that is there twice, NaN, and nesting beyond some levels are refused."""
    try:
        value = json.loads(text, object_pairs_hook=_fields, parse_constant=_no_number)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    level = [value]
    for _ in range(levels):
        parts = (list(x.values()) if isinstance(x, dict) else x for x in level if isinstance(x, dict | list))
        level = [part for inner in parts for part in inner]
    if any(isinstance(x, dict | list) for x in level):
        raise ValueError(TOO_DEEP)
    return value


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"the field {name!r:.80} is there twice")
        fields[name] = value
    return fields


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON has")

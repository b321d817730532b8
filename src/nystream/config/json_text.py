"""Strict parsing of JSON from untrusted files."""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 100  # copying and writing the values recurses
TOO_DEEP = "it is nested too deeply"


def parse(text: str, levels: int = MAX_DEPTH) -> Any:
    """Parse JSON, and raise ValueError for duplicate fields, NaN or infinity, and more than `levels` of nesting."""
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
            raise ValueError(f"the field {name!r:.80} appears twice")
        fields[name] = value
    return fields


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")

"""Where the numbers on the pages come from, and how they are shown; for `render.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def results(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def source(record: Any) -> str:
    """Where the numbers come from."""
    machine = record["hardware"]
    return f"`{record['command']}` on {machine['cores']} cores of an {machine['cpu']}, torch {machine['torch']}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def us(value: float) -> str:
    return f"{value:,.0f} µs" if value >= 100 else f"{value:.1f} µs"

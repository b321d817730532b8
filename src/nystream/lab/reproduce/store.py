"""Records on disk: one file a cell, written whole, so that a run that was killed can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nystream import files
from nystream.config import json_text

RecordDict = dict[str, Any]


def write(folder: Path, record: Mapping[str, Any]) -> Path:
    """As results/<name>.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['name']}.json"
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    files.write_text(path, text)
    return path


def read(folder: Path, name: str) -> RecordDict | None:
    """The record of that name, or None."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    try:
        found: RecordDict = json_text.parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}; delete it to run its cell again") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a record: it holds no fields; delete it to run its cell again")
    return found


def finished(folder: Path, wanted: Mapping[str, Any]) -> RecordDict | None:
    """The record that `wanted` would become, if it is there with all its runs, or more.

    `wanted` has a name, what the experiment is ("cell" or "baseline", "budget", "data") and "runs". A record of another
    experiment under the same name is refused, and so is one with runs that `wanted` has not: they would be lost.
    """
    found = read(folder, wanted["name"])
    if found is None:
        return None
    for part in ("cell", "baseline", "budget", "data"):
        theirs, ours = found.get(part), wanted.get(part)
        if theirs != ours:
            raise ValueError(
                f"{folder / wanted['name']}.json is of another experiment: {_difference(part, theirs, ours)}; give "
                f"another folder with --results, or --again to replace it"
            )
    held, needed = (_runs(folder, one) for one in (found, wanted))
    if needed <= held:
        return found
    if not held <= needed:
        raise ValueError(
            f"{folder / wanted['name']}.json has runs that are not asked for, and lacks some that are: it is of "
            f"{_counts(held)}, and this is of {_counts(needed)}; ask for more, or give --again to replace it"
        )
    return None


def _runs(folder: Path, record: Mapping[str, Any]) -> set[tuple[int, int | None]]:
    try:
        return {(run["split"], run["seed"]) for run in record["runs"]}
    except (KeyError, TypeError) as error:
        name = f"{folder / record['name']}.json"
        raise ValueError(f"{name} is not a record: its runs cannot be read; delete it to run its cell again") from error


def _counts(runs: set[tuple[int, int | None]]) -> str:
    splits, seeds = (len({run[i] for run in runs}) for i in (0, 1))
    return f"{splits} splits x {seeds} seeds"


def _difference(part: str, theirs: Any, ours: Any) -> str:
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return f"it has no {part}" if theirs is None else f"its {part} is none that this command writes"
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    return ", ".join(f"{name} is {theirs.get(name)!r} there and {ours.get(name)!r} here" for name in names)

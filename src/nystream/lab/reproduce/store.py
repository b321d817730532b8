"""Records on disk: one file per cell, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nystream import files
from nystream.config import json_text

RecordDict = dict[str, Any]


def write(folder: Path, record: Mapping[str, Any]) -> Path:
    """Write a record to NAME.json in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['name']}.json"
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    files.write_text(path, text)
    return path


def read(folder: Path, name: str) -> RecordDict | None:
    """The record of that name; None if there is none."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    try:
        record: RecordDict = json_text.parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}; delete it to run its cell again") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path} is not a record: it has no fields; delete it to run its cell again")
    return record


def finished(folder: Path, wanted: Mapping[str, Any]) -> RecordDict | None:
    """The record of a finished experiment, with all wanted runs or more; None if it is not finished.

    `wanted` has a name, the experiment ("cell" or "baseline", "budget", "data") and "runs". A record of another
    experiment with the same name is an error, and so is one with other runs, which would be lost.
    """
    record = read(folder, wanted["name"])
    if record is None:
        return None
    for part in ("cell", "baseline", "budget", "data"):
        theirs, ours = record.get(part), wanted.get(part)
        if theirs != ours:
            raise ValueError(
                f"{folder / wanted['name']}.json is of another experiment: {_difference(part, theirs, ours)}; give "
                f"another folder with --results, or --again to replace it"
            )
    done, needed = _runs(folder, record), _runs(folder, wanted)
    if needed <= done:
        return record
    if not done <= needed:
        raise ValueError(
            f"{folder / wanted['name']}.json has {_counts(done)}, but {_counts(needed)} were requested, and neither "
            f"includes the other; request more, or give --again to replace it"
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
        return f"it has no {part}" if theirs is None else f"its {part} is not one that this command writes"
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    return ", ".join(f"{name} is {theirs.get(name)!r} there and {ours.get(name)!r} here" for name in names)

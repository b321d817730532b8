"""The labels.csv of a folder: one row per file, with its label, and the groups that it belongs to."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from nystream.data.table import listed

NAME = "labels.csv"
FILE, LABEL = "file", "label"  # columns


def read_labels(folder: Path, column: str = LABEL) -> dict[str, str]:
    """A column of labels.csv by file: a path within the folder, a name, or a name without its suffix.

    It is empty if there is no labels.csv, or if that has other columns than the label.
    """
    path = folder / NAME
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [name for name in rows[0] if name] if rows else []
    if FILE not in columns or len(columns) < 2:
        raise ValueError(f"{path} must have the columns file and label, and at least one row")
    if column not in columns:
        if column == LABEL:  # it has groups only
            return {}
        raise ValueError(f"{path} has no column {column!r}; it has {listed(columns)}")
    values: dict[str, str] = {}
    for row in rows:
        name, value = (row[FILE] or "").strip(), (row[column] or "").strip()
        if values.setdefault(name, value) != value:
            what = "labels" if column == LABEL else f"values of {column!r}"
            raise ValueError(f"{path} has two {what} for {name!r}: {values[name]!r} and {value!r}")
    return values


def value_of(values: dict[str, str], name: str) -> str | None:
    """The value of a file, given its path within the folder; None if it has none."""
    return next(filter(None, (values.get(key) for key in keys_of(name))), None)


def keys_of(name: str) -> Iterable[str]:
    """The names under which a file can be listed."""
    return name, Path(name).name, Path(name).stem

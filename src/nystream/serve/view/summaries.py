"""What a page shows of records and answers: the truth that a record has, and the first value of an answer."""

from __future__ import annotations

import math
from typing import Any

from nystream.config import ModelInfo
from nystream.data.columns import Column
from nystream.data.reader import reader_from_dict
from nystream.data.table_reader import TableReader
from nystream.serve.protocol import Message


class Truths:
    """Finds, in records, the values of what a model forecasts.

    Args:
        info: That of the model.
    """

    def __init__(self, info: ModelInfo) -> None:
        self._columns: dict[str, Column] = {}  # by the name of the target
        self._places: dict[str, int] = {}  # likewise, in records that are arrays
        self._decimal = "."
        if info.task != "forecasting":
            return
        reader = None if info.reader is None else reader_from_dict(info.reader)
        if isinstance(reader, TableReader):
            self._decimal = reader.decimal
            self._columns = {name: reader.columns[reader.column_names.index(name)] for name in reader.targets}
        elif reader is None:
            self._columns = {name: Column(name) for name in info.labels if name in info.inputs}
            self._places = {name: info.inputs.index(name) for name in self._columns}

    def __call__(self, record: Any) -> dict[str, float]:
        """Return the values of the targets that a record has."""
        found = {}
        for name, column in self._columns.items():
            try:
                field = record.get(name) if isinstance(record, dict) else record[self._places[name]]
                value = column.value(field, self._decimal)
            except (ValueError, TypeError, LookupError):  # the answer to the record says what is wrong with it
                continue
            if math.isfinite(value):
                found[name] = value
        return found


def brief(result: Message) -> Message | None:
    """Return the last answer of a result in one value: a class and its probability, or the first number."""
    if not result.get("answers"):
        return None
    answer = result["answers"][-1]
    short = {name: answer[name] for name in ("token", "time") if name in answer}
    if "probabilities" in answer:
        shares = {name: share for name, share in answer["probabilities"].items() if share is not None}
        name = max(shares, key=lambda label: shares[label], default=None)
        return {**short, "name": name, "value": shares.get(name), "share": True}
    values = answer["forecast"] if "forecast" in answer else answer["output"]
    name, value = next(iter(values.items())) if isinstance(values, dict) else ("", values[0] if values else None)
    units = answer.get("units")
    unit = (units.get(name) if isinstance(units, dict) else units[0]) if units else None
    return {**short, "name": name, "value": _first(value), "unit": unit}


def _first(value: Any) -> Any:
    """The number of the first horizon, and of the middle quantile."""
    if isinstance(value, list):
        return _first(value[0]) if value else None
    if isinstance(value, dict):
        return list(value.values())[len(value) // 2] if value else None
    return value

"""The fields of a record, and their kinds: a type, several types, or several words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nystream.lab.reproduce import paper

PROTOCOLS = {"splits": "", "seeds": "", "filtered": "fault-filtered split"}
TOKENS = {"paper": "", "lags": "tokens with lags"}
PROVENANCE: Mapping[str, Any] = {"command": str, "commit": str, "hardware": dict}
COMMON: Mapping[str, Any] = {
    "name": str, "metric": tuple(paper.METRICS), "metrics": dict, "runs": list, "data": dict, **PROVENANCE,
}  # fmt: skip
BASELINE: Mapping[str, Any] = {"task": tuple(paper.TASKS), "name": str, "protocol": tuple(PROTOCOLS)}
# What the cell of a rival has. Fields that are about attention may be missing, or null.
RIVAL: Mapping[str, Any] = {
    "task": tuple(paper.TASKS), "model": (*paper.MODELS, *paper.RIVALS), "layers": int, "embed_dim": int,
    "protocol": tuple(PROTOCOLS), "tokens": tuple(TOKENS),
}  # fmt: skip
CELL: Mapping[str, Any] = {
    **RIVAL,
    "landmarks": (int, None), "window": int, "num_heads": int, "pinv": str, "pinv_ridge": float, "method": str,
    "learned": bool, "distilled": bool, "stack": ("paper", "deep"),
}  # fmt: skip
# Settings that are missing, or null, where they are the default.
SETTINGS: Mapping[str, Any] = {
    "decay": bool, "at_once": bool, "transferred": bool, "windows": list, "dropout": float, "one_scale": bool,
}  # fmt: skip
OPERATIONS: Mapping[str, Any] = dict.fromkeys(("paper", "corrected", "relative_paper", "relative_corrected"), float)
TIMES: Mapping[str, Any] = {"median_microseconds": float, "backend": str, **PROVENANCE}
STEP: Mapping[str, Any] = {**TIMES, "relative": (float, None), "bytes_per_stream": int}


def check_baseline(raw: Any, where: str) -> None:
    """Raise unless this is the record of a baseline."""
    check(raw, {"baseline": dict, **COMMON}, where)
    check(raw["baseline"], BASELINE, f"{where}: baseline")


def check_cell(raw: Any, where: str) -> None:
    """Raise unless this is the record of a cell, of one of the paper's models or of a rival."""
    check(raw, {"cell": dict, **COMMON, "valid": dict, "operations": dict, "training": dict}, where)
    check(raw, {"bytes_per_stream": (int, None), "step": (dict, None)}, where)
    cell, count, training, step = raw["cell"], raw["operations"], raw["training"], raw["step"]
    check(cell, {"model": RIVAL["model"]}, f"{where}: cell")
    rival = cell["model"] in paper.RIVALS
    check(cell, RIVAL if rival else CELL, f"{where}: cell")
    _check_given(cell, {**CELL, **SETTINGS}, f"{where}: cell")
    if rival and cell.get("landmarks") is not None:
        raise ValueError(f"{where}: cell: landmarks must be null for {cell['model']!r}, got {cell['landmarks']!r}")
    windows = cell.get("windows")
    if windows is not None and not (windows and all(_is(n, int) for n in windows)):
        raise ValueError(f"{where}: cell: windows must be a list of whole numbers, one per block, got {windows!r}")
    check(count, {"model": float} if rival else OPERATIONS, f"{where}: operations")
    _check_given(count, {"model": float}, f"{where}: operations")
    check(training, {"epochs": int, "phases": list}, f"{where}: training")
    _check_given(training, {"parameters": int, "seconds": float}, f"{where}: training")
    for phase in training["phases"]:
        check(phase, {}, f"{where}: training: a phase")
    if step is not None:
        check(step, TIMES if rival else STEP, f"{where}: step")
        _check_given(step, {**STEP, "torch": dict}, f"{where}: step")
        if step.get("torch") is not None:
            check(step["torch"], {"median_microseconds": float}, f"{where}: step: torch")


def check(fields: Any, wanted: Mapping[str, Any], where: str) -> None:
    """Raise unless every wanted field exists and is of its kind: a type, one of several types, or one of some words."""
    if not isinstance(fields, dict):
        raise ValueError(f"{where} must be an object, got {fields!r}")
    for name, kind in wanted.items():
        if name not in fields:
            raise ValueError(f"{where} has no {name!r}")
        value = fields[name]
        if isinstance(kind, tuple) and isinstance(kind[0], str):
            if value not in kind:
                raise ValueError(f"{where}: {name} must be one of {', '.join(kind)}, got {value!r}")
            continue
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if value is None and None in kinds:
            continue
        if not any(_is(value, kind) for kind in kinds if kind is not None):
            names = " or ".join("null" if kind is None else kind.__name__ for kind in kinds)
            raise ValueError(f"{where}: {name} must be {names}, got {value!r}")


def _check_given(fields: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> None:
    """Raise unless every field that is neither missing nor null is of its kind."""
    check(fields, {name: kind for name, kind in kinds.items() if fields.get(name) is not None}, where)


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)

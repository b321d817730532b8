"""The card of an exported model: everything that a client needs to know, as JSON, in the file and beside it."""

from __future__ import annotations

import json
from typing import Any

from nystream import state as state_files
from nystream.data.reader import Reader, reader_from_dict
from nystream.data.table_reader import TableReader
from nystream.data.token_rules import token_rules
from nystream.export.client import FORMAT, KEY, VERSION, digest
from nystream.export.states import STREAMS, State
from nystream.stream.snapshot import fingerprint
from nystream.version import __version__


def card(
    model: Any, states: list[State], files: dict[str, str], weights: str, in_place: bool, max_chunk: int | None
) -> dict[str, Any]:
    """The card of a `StreamModel` whose graphs have these states."""
    config, info = model.config, model.info
    reader = None if info.reader is None else reader_from_dict(info.reader)
    group = [] if config.update_size == 1 else [config.update_size]
    content = {
        "format": FORMAT,
        "version": VERSION,
        "nystream": __version__,
        "files": files,
        "x": {"name": "x", "dtype": "float32", "shape": [STREAMS, *group, config.input_dim]},
        "y": {"name": "y", "dtype": "float32", "shape": [STREAMS, *group, config.output_dim]},
        "states": [
            {
                "input": state.input,
                "output": state.output,
                "dtype": state.dtype,
                "shape": [STREAMS, *state.shape],
                "initial": _number(state),
            }
            for state in states
        ],
        "in_place": in_place,
        "window": config.window,
        "receptive_field": config.receptive_field,
        "update_size": config.update_size,
        "max_chunk": max_chunk,
        "weights": weights,
        "info": info.to_dict(),
        "token": None if reader is None else token_rules(reader),
        "answer": _answer(model, reader),
        "snapshot": _snapshot(model, states),
    }
    content = json.loads(json.dumps(content))  # as a client reads it: lists instead of tuples
    return content | {"sha256": digest(content)}


def metadata(content: dict[str, Any]) -> dict[str, str]:
    """The metadata of an ONNX file."""
    return {KEY: json.dumps(content)}


def _number(state: State) -> float | int | str:
    """The initial value as JSON, which has no infinity."""
    if state.dtype != "float32":
        return int(state.initial)
    return str(state.initial) if abs(state.initial) == float("inf") else state.initial


def _answer(model: Any, reader: Reader | None) -> dict[str, Any]:
    """How `y` becomes an answer in the user's terms."""
    info = model.info
    if info.task in ("classification", "detection"):
        return {"kind": "logits", "probabilities": "sigmoid" if info.several else "softmax"}
    each = max(1, len(info.horizons)), max(1, len(info.quantiles))
    shape = [model.config.output_dim // (each[0] * each[1]), *each]  # targets, horizons, quantiles
    if not isinstance(reader, TableReader):
        return {"kind": "value", "shape": shape}
    of_series = {"of_series": True} if reader.series is not None else {}
    return {
        "kind": "change",
        "shape": shape,
        "fields": list(reader.targets),
        "sorted": len(info.quantiles) > 1,
        "minimum": info.minimum,
        **of_series,
    }


def _snapshot(model: Any, states: list[State]) -> dict[str, Any]:
    """What snapshots of these states have in common with those of a pool of the same model."""
    leaves = dict(state_files.named_leaves(model.init_state(1)))
    time = next(state for state in states if state.name.rpartition("_")[2] == "time")
    rows: list[dict[str, Any]] = [
        {"leaf": name, "state": time.input, "shape": [], "axes": []}
        for name in leaves
        if name.rpartition(".")[2] == "time"
    ]
    for state in states:
        if state.leaf in leaves and state.leaf.rpartition(".")[2] != "time":
            shape = list(leaves[state.leaf].shape[1:])
            row = {"leaf": state.leaf, "state": state.input, "shape": shape, "axes": list(state.axes)}
            rows.append(row | {key: getattr(state, key) for key in ("rolled", "edges") if getattr(state, key)})
    return {
        "format": state_files.FORMAT,
        "config": json.dumps(model.config.to_dict(), sort_keys=True),
        "fingerprint": model.config.fingerprint,
        "weights": fingerprint(model),
        "leaves": rows,
        "totals": [{"state": state.input, **state.totals} for state in states if state.totals is not None],
    }

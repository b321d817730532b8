"""`export_onnx`: write a model as ONNX files with a card."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import torch

from nystream import extras, files
from nystream import state as state_files
from nystream.config.checks import one_of
from nystream.export import client
from nystream.export.card import card, metadata
from nystream.export.states import State
from nystream.models.stream_model import StreamModel
from nystream.stream.cpu.support import unsupported

WEIGHTS = ("float32", "int8")


def export_onnx(
    model: StreamModel,
    path: str | os.PathLike[str],
    *,
    weights: str = "float32",
    chunk: bool = True,
    client_file: bool = False,
) -> Path:
    """Write a model to ONNX files: a step with its state as inputs and outputs, and a card that describes them.

    `model.onnx` has the step, `model.chunk.onnx` the same for many tokens per call, and `model.json` the card: names,
    shapes and initial values of the states, labels, units, and how a record becomes a token. `nystream.OnnxStream` runs
    them; any other client of ONNX can, too. Inputs and outputs are in the user's units.

    Args:
        model: A trained `StreamModel`, float32. Its training mode does not matter.
        path: Where to write the step; must end in `.onnx`. The other files are written next to it.
        weights: "float32", or "int8" for the linear layers, in a quarter of the memory. Layers that would lose most,
            the input projection, queries, keys and the head, stay in float32. Outputs change by about 1 %.
        chunk: Whether to write the graph for many tokens, too.
        client_file: Whether to write `onnx_stream.py`, too: `OnnxStream` in one file, which needs only NumPy and ONNX
            Runtime.

    Returns:
        The path of the step.

    Example:
        >>> import tempfile, numpy as np, nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, attention=attention))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     stream = ns.OnnxStream(ns.export_onnx(model, f"{folder}/model.onnx"))
        >>> stream.push(np.zeros(5)).shape
        (3,)
    """
    if not isinstance(model, StreamModel):
        raise TypeError(f"model is a {type(model).__name__}, but must be a StreamModel")
    one_of("weights", weights, WEIGHTS)
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"path={os.fspath(path)!r} must end in .onnx")
    files.require_writable("path", path)
    extras.require("export_onnx", "onnx")
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        if weight.is_floating_point() and weight.dtype != torch.float32:
            raise ValueError(
                f"{name} is {str(weight.dtype).removeprefix('torch.')}, but an exported model must be float32; "
                f"convert it first: model.float()"
            )
    model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    names = {"step": path.name}
    if chunk:
        names["chunk"] = _chunk_name(path)
    graphs, content = _graphs(model, names, weights)
    if "chunk" not in names:  # that of an earlier export would be of another model
        path.with_name(_chunk_name(path)).unlink(missing_ok=True)
    for kind, name in names.items():
        serialized = graphs[kind].SerializeToString()
        files.replace(path.with_name(name), lambda partial, data=serialized: partial.write_bytes(data))  # type: ignore[misc]
    files.write_text(path.with_suffix(".json"), json.dumps(content, indent=1) + "\n")
    if client_file:
        files.write_text(path.with_name("onnx_stream.py"), Path(client.__file__).read_text(encoding="utf-8"))
    return path


def _chunk_name(path: Path) -> str:
    return f"{path.stem}.chunk.onnx"


def _graphs(model: StreamModel, names: dict[str, str], weights: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The graphs by kind, and the card."""
    why = unsupported(model)
    grouped = model.config.update_size > 1 and any(cfg.record.kernel == "continual" for cfg in model.config.blocks)
    if why is None and not grouped:
        from nystream.export.chunk import chunk_model, has_chunk, max_chunk
        from nystream.export.step import Step, step_graph

        step = Step(model, weights)
        if not has_chunk(step):
            names.pop("chunk", None)
        content = card(
            model, step.states, names, weights, in_place=True, max_chunk=max_chunk(step) if "chunk" in names else None
        )
        graphs = {"step": step_graph(step).model("step", metadata(content))}
        if "chunk" in names:
            graphs["chunk"] = chunk_model(step, metadata(content))
        return graphs, content
    if weights != "float32":
        reason = why or "its continual landmarks are updated by several tokens at a time"
        raise ValueError(f"weights={weights!r} is not supported for this model: {reason}; use weights='float32'")
    return _traced(model, names)


def _traced(model: StreamModel, names: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The graphs of a model that torch has to trace, and the card."""
    from nystream.export.repeat import repeated
    from nystream.export.traced import traced_onnx

    states = [
        State(
            name.replace(".", "_"),
            tuple(leaf.shape[1:]),
            str(leaf.dtype).removeprefix("torch."),
            _initial(name, leaf),
            name,
            tuple(range(leaf.dim() - 1)),
        )
        for name, leaf in state_files.named_leaves(model.init_state(1))
    ]
    content = card(model, states, names, "float32", in_place=False, max_chunk=None)
    graphs = {"step": traced_onnx(model)}
    if "chunk" in names:
        graphs["chunk"] = repeated(graphs["step"], model.config)
    onnx = extras.require("export_onnx", "onnx")
    for graph in graphs.values():
        onnx.helper.set_model_props(graph, metadata(content))
    return graphs, content


def _initial(name: str, leaf: torch.Tensor) -> float:
    """The number that fills a leaf of a new stream."""
    if name.rpartition(".")[2] == "gamma_pinv":  # never used before the first landmarks are complete
        return 0.0
    values = leaf.unique()
    if values.numel() > 1:
        raise ValueError(f"the initial state {name} has different numbers, which a card cannot describe")
    return float(values[0]) if values.numel() else 0.0

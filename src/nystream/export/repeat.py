"""The graph of a step, repeated over T tokens inside one graph."""

from __future__ import annotations

from typing import Any

from nystream import extras
from nystream.config import ModelConfig


def repeated(step: Any, config: ModelConfig) -> Any:
    """A model that runs the model `step` of `export_onnx` for x [streams, tokens, input_dim]."""
    onnx = extras.require("export_onnx", "onnx")
    helper, r = onnx.helper, config.update_size
    inner = onnx.GraphProto()
    inner.CopyFrom(step.graph)
    names = [value.name for value in (*inner.input, *inner.output)]
    _rename(inner, {name: f"step_{name}" for name in names})  # a name means one thing in both graphs
    constants = list(inner.initializer)
    del inner.initializer[:], inner.value_info[:]
    body_inputs = [*inner.input[1:], inner.input[0]]  # the states first
    body_outputs = [*inner.output[1:], inner.output[0]]
    del inner.input[:], inner.output[:]
    inner.input.extend(body_inputs)
    inner.output.extend(body_outputs)
    states = [value.name for value in step.graph.input[1:]]
    nexts = [value.name for value in step.graph.output[1:]]
    nodes, x, y = [], "x", "y"
    if r > 1:
        constants += [
            onnx.numpy_helper.from_array(_shape(0, -1, r, config.input_dim), "groups"),
            onnx.numpy_helper.from_array(_shape(0, -1, config.output_dim), "tokens_of_groups"),
        ]
        nodes.append(helper.make_node("Reshape", ["x", "groups"], ["x_in_groups"]))
        x, y = "x_in_groups", "y_in_groups"
    nodes.append(
        helper.make_node(
            "Scan",
            [*states, x],
            [*nexts, y],
            body=inner,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_output_axes=[1],
        )
    )
    if r > 1:
        nodes.append(helper.make_node("Reshape", [y, "tokens_of_groups"], ["y"]))
    widths = {"x": config.input_dim, "y": config.output_dim}
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["streams", "tokens", width])
        for name, width in widths.items()
    ]
    graph = helper.make_graph(
        nodes, "chunk", [ends[0], *step.graph.input[1:]], [ends[1], *step.graph.output[1:]], constants
    )
    model = onnx.ModelProto()
    model.CopyFrom(step)
    model.graph.CopyFrom(graph)
    onnx.checker.check_model(model, full_check=True)
    return model


def _shape(*sizes: int) -> Any:
    import numpy as np

    return np.array(sizes, np.int64)


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Rename values in a graph and in the graphs inside it."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for side in (node.input, node.output):
            for place, name in enumerate(side):
                side[place] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)

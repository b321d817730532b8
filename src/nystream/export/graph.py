"""An ONNX graph under construction, one method per operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nystream import extras

Array = np.ndarray[Any, Any]

Branch = Callable[["Graph"], list[str]]

FLOAT, INT32, BOOL, DOUBLE = 1, 6, 9, 11  # ONNX's numbers of types
OPSET = 18  # an old one, which runtimes on phones and in browsers can run, too
IR_VERSION = 8  # the version of the file format that belongs to it


class Graph:
    """A graph to which `g.Add(a, b)` adds a node and returns the name of its output.

    Arguments of an operator are names of values, or arrays and numbers, which become constants. `name=` names the
    output, `outputs=` is the number of them, and other keywords are attributes. A graph inside another, the body of an
    `If` or a `Scan`, may use all values of the outer one.
    """

    def __init__(self, outer: Graph | None = None) -> None:
        self.onnx = extras.require("export_onnx", "onnx")
        self.root: Graph = self if outer is None else outer.root
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: dict[tuple[Any, ...], Any] = {}
        self.domains = {""}  # of the operators
        self.count = 0

    def input(self, name: str, dtype: str, shape: Sequence[int | str] | None) -> str:
        """Declare an input; dimensions that are not fixed have names."""
        self.inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, dtype: str, shape: Sequence[int | str] | None = None) -> str:
        """Declare that the value `name` is an output."""
        self.outputs.append(self._value(name, dtype, shape))
        return name

    def constant(self, value: Any) -> str:
        """The name of a constant. Equal ones are stored once, in the outermost graph."""
        array = _as_array(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        known = self.root.constants
        if key not in known:
            known[key] = self.onnx.numpy_helper.from_array(array, f"constant_{len(known)}")
        name: str = known[key].name
        return name

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        if not operator[0].isupper():
            raise AttributeError(operator)

        return lambda *arguments, **others: self.add(operator, arguments, **others)

    def add(
        self, operator: str, arguments: Sequence[Any], outputs: int = 1, name: str | None = None, **attributes: Any
    ) -> Any:
        """Add a node, and return the names of its outputs, or the name of the only one."""
        inputs = [x if isinstance(x, str) else self.constant(x) for x in arguments]
        names = [self.fresh(operator) for _ in range(outputs)] if name is None else [name]
        # Nodes have names, because ONNX Runtime derives those of the nodes that it fuses from them.
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, names, name=names[0], **attributes))
        self.root.domains.add(attributes.get("domain", ""))
        return names[0] if outputs == 1 else tuple(names)

    def branches(self, condition: str, then: Branch, otherwise: Branch, dtypes: list[str]) -> tuple[str, ...]:
        """Values of `dtypes` that one of two branches computes: `then`, if the condition holds."""
        names = [self.fresh("If") for _ in dtypes]
        bodies = [self._body(branch, dtypes) for branch in (then, otherwise)]
        self.nodes.append(
            self.onnx.helper.make_node(
                "If", [condition], names, name=names[0], then_branch=bodies[0], else_branch=bodies[1]
            )
        )
        return tuple(names)

    def repeated(self, count: int, start: str, dtype: str, update: Callable[[Graph, str], str]) -> str:
        """The value after `count` updates of `start`."""
        body = Graph(self)
        body.input(body.fresh("turn"), "int64", [])
        going = body.input(body.fresh("going"), "bool", [])
        before = body.input(body.fresh("before"), dtype, None)
        body.output(body.Identity(going), "bool", [])
        body.output(update(body, before), dtype)
        name = self.fresh("Loop")
        inputs = [self.constant(count), self.constant(np.array(True)), start]
        self.nodes.append(self.onnx.helper.make_node("Loop", inputs, [name], name=name, body=body.body("updates")))
        return name

    def any(self, x: str) -> str:
        """Whether any of x, bool, holds."""
        return self.Cast(self.ReduceMax(self.Cast(x, to=INT32), keepdims=0), to=BOOL)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> str:
        """A tensor without numbers."""
        return self.Constant(value=self.onnx.numpy_helper.from_array(np.zeros(shape, dtype)))

    def _body(self, branch: Branch, dtypes: list[str]) -> Any:
        body = Graph(self)
        for name, dtype in zip(branch(body), dtypes, strict=True):
            body.output(name, dtype)
        return body.body("branch")

    def fresh(self, word: str) -> str:
        """A name that no other value has."""
        self.root.count += 1
        return f"{word}_{self.root.count}"

    def body(self, name: str) -> Any:
        """The graph as the body of an operator of the outer one."""
        return self.onnx.helper.make_graph(self.nodes, name, self.inputs, self.outputs)

    def model(self, name: str, metadata: dict[str, str]) -> Any:
        """The graph as a whole model, checked."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, list(self.constants.values()))
        opsets = [helper.make_opsetid(domain, 1 if domain else OPSET) for domain in sorted(self.domains)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="nystream")
        helper.set_model_props(model, metadata)
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _value(self, name: str, dtype: str, shape: Sequence[int | str] | None) -> Any:
        element = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.onnx.helper.make_tensor_value_info(name, element, None if shape is None else list(shape))


def _as_array(value: Any) -> Array:
    """Whole numbers become int64, which ONNX uses for shapes and indices; other numbers float32."""
    if isinstance(value, np.ndarray | np.generic):
        return np.ascontiguousarray(value).reshape(np.shape(value))
    array = np.asarray(value)
    return array.astype(
        np.int64 if array.dtype.kind in "iu" else np.float32 if array.dtype.kind == "f" else array.dtype
    )

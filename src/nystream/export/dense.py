"""Linear layers and norms of a graph, from the weights of torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.export.graph import Array, Graph

INT8_BLOCK = 64  # weights that share a scale


def values(x: Any) -> Array:
    """A parameter in float64, in which weights are folded into each other before they are rounded."""
    array: Array = x.detach().double().cpu().numpy()
    return array


class Layers:
    """Adds layers to a graph, with weights in float32 or int8."""

    def __init__(self, g: Graph, weights: str = "float32") -> None:
        self.g, self.weights = g, weights

    def affine(self, x: str, weight: Array, bias: Array | str, light: bool = False, name: str | None = None) -> str:
        """x [rows, in] times weight [out, in] transposed, plus a bias [out] or a value of the graph [rows, out].

        `light` says that the weights may be int8, if the graph has such weights.
        """
        named = {} if name is None else {"name": name}
        bias = bias if isinstance(bias, str) else self.g.constant(bias.astype(np.float32))
        if light and self.weights == "int8":
            return self._int8(x, weight, bias, name)
        return self.g.Gemm(x, weight.T.astype(np.float32), bias, **named)

    def linear(self, x: str, layer: Any, light: bool = False) -> str:
        """A torch.nn.Linear."""
        weight = values(layer.weight)
        bias = np.zeros(len(weight)) if layer.bias is None else values(layer.bias)
        return self.affine(x, weight, bias, light)

    def norm(self, x: str, layer: Any) -> str:
        """A torch.nn.LayerNorm over the last axis."""
        scale, bias = (values(p).astype(np.float32) for p in (layer.weight, layer.bias))
        return self.g.LayerNormalization(x, scale, bias, axis=-1, epsilon=layer.eps)

    def activation(self, x: str, name: str) -> str:
        """GELU, with the error function as in torch, or ReLU."""
        if name == "relu":
            return self.g.Relu(x)
        # The pattern that ONNX Runtime replaces by one operator; GELU itself needs a newer opset.
        half = self.g.Add(self.g.Erf(self.g.Div(x, np.float32(np.sqrt(2)))), np.float32(1))
        return self.g.Mul(self.g.Mul(x, half), np.float32(0.5))

    def _int8(self, x: str, weight: Array, bias: str, name: str | None) -> str:
        """The product with weights in 8 bits, with a scale for every block of inputs of an output.

        ONNX Runtime rounds each row of x to 8 bits as well, by itself: a stream does not depend on the others.
        """
        outputs, inputs = weight.shape
        count = -(-inputs // INT8_BLOCK)
        blocks = np.zeros((outputs, count, INT8_BLOCK))
        blocks.reshape(outputs, -1)[:, :inputs] = weight
        scale = np.maximum(np.abs(blocks).max(2), 1e-30) / 127
        rounded = (np.rint(blocks / scale[..., None]) + 128).astype(np.uint8)  # 128 stands for 0
        return self.g.add(
            "MatMulNBits",
            [x, rounded, scale.astype(np.float32).ravel(), "", "", bias],
            name=name,
            domain="com.microsoft",
            K=inputs,
            N=outputs,
            bits=8,
            block_size=INT8_BLOCK,
            accuracy_level=4,  # products of integers
        )

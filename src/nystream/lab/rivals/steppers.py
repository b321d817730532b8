"""Steps of a recurrent model outside training, as a practitioner would run it: in torch and in ONNX Runtime.

Each takes and returns a NumPy array, like `StreamPool.push`, and keeps the state of one stream.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nystream import extras
from nystream.export.quiet import quiet
from nystream.lab.rivals.recurrent import RecurrentModel, RecurrentState

FORMS = ("cells", "operators")  # matrix products and activations, or the operators GRU and LSTM of ONNX
NEEDED = ("onnx", "onnxscript", "onnxruntime")


def require() -> None:
    """Raise if steps cannot be run in ONNX Runtime; called before training."""
    for package in NEEDED:
        extras.require("timing a recurrent model", package, ", or use --no-steps")


class TorchStep:
    """`step` in eager torch, without checking its arguments."""

    def __init__(self, model: RecurrentModel) -> None:
        self.model, self.state = model.eval(), model.init_state(1)

    @torch.inference_mode()
    def push(self, x: NDArray[Any]) -> NDArray[Any]:
        y, self.state = self.model.one_step(torch.from_numpy(x)[None], self.state)
        return y[0].numpy()


class OnnxStep:
    """A step in ONNX Runtime, on one thread. The state stays in two sets of buffers that take turns."""

    def __init__(self, model: RecurrentModel, form: str) -> None:
        ort = extras.require("OnnxStep", "onnxruntime")
        model = model.eval()
        example = [torch.zeros(1, model.config.input_dim), *_leaves(model.init_state(1))]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "step.onnx"
            _export(_Graph(model, form), tuple(example), path)
            options = ort.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def buffers(tensors: list[Tensor]) -> list[Any]:
            return [ort.OrtValue.ortvalue_from_numpy(x.numpy().copy()) for x in tensors]

        (self.x,), (self.y,) = buffers(example[:1]), buffers([torch.zeros(1, model.config.output_dim)])
        one, other = buffers(example[1:]), buffers(example[1:])
        self.turns = [self._bound(one, other), self._bound(other, one)]

    def push(self, x: NDArray[Any]) -> NDArray[Any]:
        self.x.update_inplace(x[None])
        self.session.run_with_iobinding(self.turns[0])
        self.turns.reverse()
        y: NDArray[Any] = self.y.numpy()
        return y[0].copy()  # the buffer itself is overwritten by the next step

    def _bound(self, before: list[Any], after: list[Any]) -> Any:
        """A binding that reads the token and the state before it, and writes the output and the state after it."""
        binding, session = self.session.io_binding(), self.session
        for place, value in zip(session.get_inputs(), [self.x, *before], strict=True):
            binding.bind_ortvalue_input(place.name, value)
        for place, value in zip(session.get_outputs(), [self.y, *after], strict=True):
            binding.bind_ortvalue_output(place.name, value)
        return binding


class _Graph(nn.Module):
    """A step with the tensors of the state as separate arguments; a GRU has no cell."""

    def __init__(self, model: RecurrentModel, form: str) -> None:
        super().__init__()
        self.model, self.form = model, form

    def forward(self, x: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
        state = RecurrentState(leaves[0], leaves[1] if len(leaves) > 1 else leaves[0][:, :0])
        if self.form == "cells":
            y, new = self.model.one_step(x, state)
            return y, *_leaves(new)
        y, new = self.model.steps(x[:, None], state)
        return y[:, 0], *_leaves(new)


def _leaves(state: RecurrentState) -> list[Tensor]:
    return [x for x in state if x.numel()]


def _export(graph: nn.Module, example: tuple[Tensor, ...], path: Path) -> None:
    with quiet(), torch.no_grad():
        torch.onnx.export(graph.eval(), example, path, dynamo=True, verbose=False)

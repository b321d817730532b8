"""The step of any model as a graph that torch traces, for AOTInductor, ExecuTorch and ONNX.

The arguments are `x` and the tensors of the state, the results `y` and the tensors of the next state:

    y, *state = step(x, *state)

A tensor of the state has the name of its leaf: "blocks.0.ring_value" is the argument `state_blocks_0_ring_value`, and
as a result `next_state_blocks_0_ring_value`. The number of streams is dynamic, and each may be at its own phase.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import traceback
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

import nystream.state as states
from nystream import extras
from nystream.config.checks import positive_int
from nystream.export.graph import OPSET
from nystream.export.quiet import quiet
from nystream.export.states import STREAMS
from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models import StreamModel

Model = StreamModel | StreamEncoder | MultiheadAttention

TORCH = Path(torch.__file__).parent
MISSING_OPERATOR = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)'")


class Step(nn.Module):
    """`step` of a copy of the model, as a function of tensors alone."""

    def __init__(self, model: Model, streams: int, inplace: bool) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        for module in self.model.modules():
            if isinstance(module, MultiheadAttention) and module.config.fixed:
                module.hold_landmarks()  # otherwise the graph would compute Γ† at every step
        self.inplace, self.state = inplace, self.model.init_state(streams)

        def forward(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
            return self.run(*tensors)

        # torch.export takes the names of the arguments from the signature.
        named = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.inputs]
        forward.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        self.forward = forward

    @property
    def inputs(self) -> list[str]:
        """The names of the arguments."""
        return ["x", *(f"state_{name}" for name in self._leaf_names)]

    @property
    def outputs(self) -> list[str]:
        """The names of the results."""
        return ["y", *(f"next_state_{name}" for name in self._leaf_names)]

    @property
    def example(self) -> tuple[Tensor, ...]:
        """Arguments for new streams."""
        config, streams = self.model.config, self.state.time.shape[0]
        group = (config.update_size,) if config.update_size > 1 else ()
        width = config.embed_dim if not hasattr(config, "input_dim") else config.input_dim
        x = next(self.model.parameters()).new_zeros(streams, *group, width)
        return x, *(leaf for _, leaf in states.named_leaves(self.state))

    def run(self, x: Tensor, *leaves: Tensor) -> Tensor | tuple[Tensor, ...]:
        rest = iter(leaves)
        y, new = self.model.step(x, states.map_state(lambda _: next(rest), self.state), inplace=self.inplace)
        return y if self.inplace else (y, *(leaf for _, leaf in states.named_leaves(new)))

    @property
    def _leaf_names(self) -> list[str]:
        return [name.replace(".", "_") for name, _ in states.named_leaves(self.state)]


def export_program(model: Model, *, inplace: bool = False, max_streams: int | None = None) -> ExportedProgram:
    """Export `model.step` with torch.export.

    Args:
        model: A `StreamModel`, or an encoder or attention alone. The program has a copy of its weights.
        inplace: Write the next state into the arguments, and return `y` alone. No ring is then copied.
        max_streams: The largest number of streams, which ExecuTorch needs to know. Default: no limit.

    Returns:
        A program over `x` and the leaves of `init_state(streams)`, in the order of `nystream.state.named_leaves`.

    Example:
        >>> import torch, nystream as ns
        >>> from nystream.export.traced import export_program
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> config = ns.ModelConfig(input_dim=5, output_dim=3, attention=cfg)
        >>> model = ns.StreamModel(config).eval()
        >>> program = export_program(model)
        >>> program.graph_signature.user_inputs[:2]
        ('x', 'state_blocks_0_time')

        >>> step, state = program.module(), model.init_state(4)
        >>> leaves = [leaf for _, leaf in ns.state.named_leaves(state)]
        >>> y, *leaves = step(torch.randn(4, 5), *leaves)
        >>> y.shape
        torch.Size([4, 3])
    """
    return _traced(_step(model, inplace, max_streams), max_streams)


def compile_program(program: ExportedProgram, path: str | os.PathLike[str], *, threads: int = 1) -> str:
    """Compile a program with AOTInductor, which needs a C++ compiler, and return the path of the package.

    `torch._inductor.aoti_load_package(path)` loads it in Python, and `AOTIModelPackageLoader` in C++.

    Args:
        program: From `export_program`.
        path: A file that ends in .pt2.
        threads: The number of threads of a step. More than one is slower, unless the model is wide or streams are many.
    """
    package = os.fspath(path)
    if not package.endswith(".pt2"):
        raise ValueError(f"path={package!r} must end in .pt2")
    with quiet():
        return torch._inductor.aoti_compile_and_package(
            program, package_path=package, inductor_configs={"cpp.threads": threads}
        )


def traced_onnx(model: Model) -> Any:
    """Return `model.step` as an `onnx.ModelProto` that torch has traced, for models without a graph of their own.

    Its inputs are `x` and `state_…`, its outputs `y` and `next_state_…`. No state may be bound as its own next state.
    """
    for package in ("onnx", "onnxscript"):
        extras.require("an ONNX model", package)
    step = _step(model)
    for name, weight in step.model.named_parameters():
        if weight.dtype != torch.float32:
            raise ValueError(f"{name} is {weight.dtype}, but an ONNX model must be float32; convert it with float()")
    program = _traced(step)
    shapes = {name: {0: STREAMS} for name in step.inputs}
    try:
        with quiet(), torch.no_grad():
            exported = torch.onnx.export(
                program,
                input_names=step.inputs,
                output_names=step.outputs,
                opset_version=OPSET,
                dynamic_shapes=shapes,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        missing = MISSING_OPERATOR.search(str(error))
        if missing is None:
            raise
        raise ValueError(
            f"ONNX has no operator for {missing[1]}, which this step needs; landmarks that change with the stream need "
            f"pinv='newton' or 'none' (or 'ridge', for co-cont-single with update_size=1). export_program and "
            f"AOTInductor have no such limit"
        ) from error
    assert exported is not None
    return exported.model_proto


def _step(model: Model, inplace: bool = False, max_streams: int | None = None) -> Step:
    if not isinstance(model, Model):
        raise TypeError(
            f"model is a {type(model).__name__}, but must be a StreamModel, StreamEncoder or MultiheadAttention"
        )
    if max_streams is not None:
        positive_int("max_streams", max_streams)
    # A graph that is traced with one stream is for one stream only.
    return Step(model, 1 if max_streams == 1 else 2, inplace)


def _traced(step: Step, max_streams: int | None = None) -> ExportedProgram:
    streams = Dim.STATIC if max_streams == 1 else Dim(STREAMS, min=1, max=max_streams)
    shapes = {name: {0: streams} for name in step.inputs}
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(step, step.example, dynamic_shapes=shapes)
    except RuntimeError as error:
        reason = (
            "it branches on the value of a tensor" if isinstance(error, GuardOnDataDependentSymNode) else str(error)
        )
        frames = traceback.extract_tb(error.__traceback__)
        where = [frame for frame in frames if TORCH not in Path(frame.filename).parents][-1]
        raise ValueError(
            f"step cannot be exported: {reason.rstrip('.')}, in {where.filename}:{where.lineno}: {where.line}; "
            f"use torch.where, or torch.cond while nystream.ops.tracing.tracing() is true"
        ) from error

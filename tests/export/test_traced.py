"""The traced step, run by torch, by AOTInductor and by ONNX Runtime, equals `step` for rows at different phases."""

import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream import state as states
from nystream import testing
from nystream.export import traced
from nystream.ops.attention import co_full_single

PATH = ns.LinearConfig(segments=(1, 1, 2, 3), inputs=2, embedded=True)

# Single blocks, deep stacks, and the paper's stacks, whose first block returns all rows.
MODELS = [
    ("co-full-single", 1, "deep", {"decay": True}),
    ("co-cont-single", 1, "deep", {"linear": PATH, "decay": True}),
    ("co-fixed-single", 2, "deep", {"update_size": 2, "sums": "partials"}),
    ("co-fixed-single", 2, "paper", {}),
    ("co-cont-single", 2, "paper", {}),
    ("co-full-single", 3, "paper", {}),
]
SLOW = [
    ("co-cont-single", 3, "paper", {"window": 12, "landmarks": 5, "update_size": 2, "sums": "partials"}),
    ("co-cont-single", 2, "deep", {"pinv": "ridge"}),
    ("co-full-single", 2, "paper", {"sums": "recompute"}),
    ("full", 2, "paper", {}),
    ("nystrom", 2, "paper", {}),
    ("nystrom-fixed", 2, "paper", {}),
]

needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="AOTInductor needs a C++ compiler"
)


def build(variant, layers=1, stack="deep", dtype=torch.float32, linear=None, **options):
    """A small model with random landmarks."""
    sizes = {"embed_dim": 8, "num_heads": 2, "window": 6, "landmarks": 4, "pinv_iters": 2}
    attention = ns.AttentionConfig(variant, **{**sizes, **options})
    cfg = ns.ModelConfig(
        input_dim=5, output_dim=3, attention=attention, layers=layers, stack=stack, ff_dim=12, linear=linear
    )
    model = ns.StreamModel(cfg, dtype=dtype).eval()
    if linear is not None:
        torch.nn.init.normal_(model.linear.weight)
    for block in model.encoder.blocks:
        one = block.attention.config
        if one.fixed:
            shape = (one.num_heads, one.m, one.head_dim)
            block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
    return model.requires_grad_(False)


def leaves(state):
    return [leaf for _, leaf in states.named_leaves(state)]


def tokens(model, streams):
    r = model.config.update_size
    return torch.randn(streams, *([r] if r > 1 else []), model.config.input_dim, dtype=model.head.weight.dtype)


def at_phases(model, phases):
    """One state, whose rows have processed different numbers of groups."""
    r, rows = model.config.update_size, []
    for phase in phases:
        state, x = model.init_state(1), torch.randn(1, phase * r, 5, dtype=model.head.weight.dtype)
        rows.append(model.steps(x, state)[1] if phase else state)
    return states.stack(rows)


def check(model, step, inplace=False, tolerance=1e-5):
    """Compare `step` with the model's: warm-up and renewals, one stream and several at different phases."""

    def close(actual, expected):
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)

    groups = model.config.window // model.config.update_size
    for phases in ([0], [0, 1, groups - 1, groups, groups + 1]):
        state = at_phases(model, phases)
        tensors = [leaf.clone() for leaf in leaves(state)]
        for _ in range(3 * groups):
            x = tokens(model, len(phases))
            expected, state = model.step(x, state)
            if inplace:
                y = step(x, *tensors)
            else:
                y, *tensors = step(x, *tensors)
            close(y, expected)
        for leaf, expected in zip(tensors, leaves(state), strict=True):
            close(leaf, expected)


@pytest.mark.parametrize(
    ("variant", "layers", "stack", "options"),
    [*MODELS, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_the_program_is_the_step(variant, layers, stack, options):
    model = build(variant, layers, stack, torch.float64, **options)
    check(model, traced.export_program(model).module(), tolerance=1e-10)


@pytest.mark.parametrize(("variant", "stack"), [("co-fixed-single", "deep"), ("co-cont-single", "paper")])
def test_a_program_that_overwrites_the_state(variant, stack):
    model = build(variant, 2, stack, torch.float64)
    check(model, traced.export_program(model, inplace=True).module(), inplace=True, tolerance=1e-10)


def test_the_names_of_the_arguments():
    model = build("co-fixed-single", 2)
    names = [f"state_{name.replace('.', '_')}" for name, _ in states.named_leaves(model.init_state(1))]
    assert list(traced.export_program(model).graph_signature.user_inputs) == ["x", *names]
    assert "state_blocks_1_ring_value" in names


@settings(max_examples=10)
@given(st.lists(st.integers(0, 14), min_size=1, max_size=6), st.integers(0, 2**32))
def test_streams_are_independent_of_their_neighbours(saved_program, phases, seed):
    model, step = saved_program
    torch.manual_seed(seed)
    state, x = at_phases(model, phases), tokens(model, len(phases))
    together = step(x, *leaves(state))
    for row in range(len(phases)):
        alone = step(x[row : row + 1], *(leaf[row : row + 1] for leaf in leaves(state)))
        for many, one in zip(together, alone, strict=True):
            torch.testing.assert_close(many[row : row + 1], one, rtol=1e-10, atol=1e-12)


@pytest.fixture(scope="module")
def saved_program(tmp_path_factory):
    torch.manual_seed(0)
    model, path = build("co-cont-single", dtype=torch.float64), tmp_path_factory.mktemp("program") / "step.pt2"
    torch.export.save(traced.export_program(model), path)
    return model, torch.export.load(path).module()


@pytest.mark.parametrize("part", ["encoder", "attention"])
def test_parts_of_a_model(part):
    encoder = build("co-full-single", dtype=torch.float64).encoder
    module = encoder if part == "encoder" else encoder.blocks[0].attention
    step, state = traced.export_program(module).module(), module.init_state(3)
    x = torch.randn(3, 8, dtype=torch.float64)
    torch.testing.assert_close(step(x, *leaves(state))[0], module.step(x, state)[0])


def test_the_inverse_of_fixed_landmarks_is_a_constant():
    model = build("co-fixed-single", pinv_iters=50)
    short = build("co-fixed-single", pinv_iters=1)
    assert len(traced.export_program(model).graph.nodes) == len(traced.export_program(short).graph.nodes)


def test_learned_landmarks():
    model = build("co-fixed-single", dtype=torch.float64)
    attention = model.encoder.blocks[0].attention
    attention.learn_landmarks()
    check(model, traced.export_program(model).module(), tolerance=1e-10)
    assert isinstance(attention.q_tilde, torch.nn.Parameter)


def test_the_program_keeps_its_weights():
    model = build("co-full-single")
    step, x, state = traced.export_program(model).module(), torch.randn(1, 5), leaves(model.init_state(1))
    before = step(x, *state)[0]
    model.head.weight.zero_()
    torch.testing.assert_close(step(x, *state)[0], before)


def test_the_number_of_streams_may_be_limited():
    model = build("co-full-single")
    step = traced.export_program(model, max_streams=1).module()
    assert step(torch.randn(1, 5), *leaves(model.init_state(1)))[0].shape == (1, 3)
    with pytest.raises(AssertionError, match="Guard failed"):
        step(torch.randn(2, 5), *leaves(model.init_state(2)))
    with pytest.raises(ValueError, match="max_streams=0 must be at least 1"):
        traced.export_program(model, max_streams=0)


def test_a_model_without_landmarks():
    attention = ns.AttentionConfig("co-fixed-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, attention=attention))
    with pytest.raises(RuntimeError, match="has no landmarks yet"):
        traced.export_program(model)


def test_something_else():
    with pytest.raises(TypeError, match="model is a Linear, but must be a StreamModel"):
        traced.export_program(torch.nn.Linear(2, 2))


def test_a_step_that_branches_on_a_value(capfd):
    def step(q, k, v, state, cfg, fixed=None):
        if bool((v > 0).any()):
            v = v + 1
        return co_full_single.step(q, k, v, state, cfg)

    ops = SimpleNamespace(
        forward=co_full_single.forward, init_state=co_full_single.init_state, step=step, steps=co_full_single.steps
    )
    message = (
        r"branches on the value of a tensor, in .*test_traced.py:\d+: if bool\(\(v > 0\)\.any\(\)\):; use torch.where"
    )
    with testing.registered(name="branching", ops=ops, rows="newest"), pytest.raises(ValueError, match=message):
        traced.export_program(build("branching"))
    assert capfd.readouterr() == ("", "")


def onnx_step(proto):
    """A step in ONNX Runtime that takes and returns tensors."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def step(*tensors):
        feed = {name: np.ascontiguousarray(x.numpy()) for name, x in zip(names, tensors, strict=True)}
        return tuple(torch.from_numpy(y) for y in session.run(None, feed))

    return step


@pytest.mark.parametrize(
    ("variant", "layers", "stack", "options"),
    [
        ("co-fixed-single", 2, "paper", {}),
        pytest.param("co-cont-single", 2, "paper", {"sums": "partials"}, marks=pytest.mark.slow),
        pytest.param("co-full-single", 2, "paper", {}, marks=pytest.mark.slow),
        pytest.param("co-cont-single", 1, "deep", {"linear": PATH, "decay": True}, marks=pytest.mark.slow),
        pytest.param("co-fixed-single", 2, "deep", {"update_size": 2}, marks=pytest.mark.slow),
    ],
)
def test_the_onnx_model_is_the_step(variant, layers, stack, options):
    pytest.importorskip("onnxscript")
    model = build(variant, layers, stack, **options)
    check(model, onnx_step(traced.traced_onnx(model)))


def test_names_and_axes_of_the_onnx_model(capfd):
    pytest.importorskip("onnxscript")
    model = build("co-full-single")
    proto = traced.traced_onnx(model)
    names = [name.replace(".", "_") for name, _ in states.named_leaves(model.init_state(1))]
    assert [value.name for value in proto.graph.input] == ["x", *(f"state_{name}" for name in names)]
    assert [value.name for value in proto.graph.output] == ["y", *(f"next_state_{name}" for name in names)]
    for value in [*proto.graph.input, *proto.graph.output]:
        first, *others = value.type.tensor_type.shape.dim
        assert first.dim_param == "streams"
        assert all(dim.HasField("dim_value") for dim in others)
    assert [opset.version for opset in proto.opset_import if not opset.domain] == [18]
    assert capfd.readouterr() == ("", "")


def test_an_inverse_that_onnx_does_not_have():
    pytest.importorskip("onnxscript")
    with pytest.raises(ValueError, match=r"ONNX has no operator for aten\._linalg_solve_ex, .* need pinv='newton'"):
        traced.traced_onnx(build("co-cont-single", pinv="ridge"))


def test_an_onnx_model_is_float32():
    pytest.importorskip("onnxscript")
    with pytest.raises(ValueError, match=r"is torch\.float64, but an ONNX model must be float32"):
        traced.traced_onnx(build("co-full-single", dtype=torch.float64))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "layers", "stack", "inplace"),
    [
        ("co-full-single", 1, "deep", False),
        ("co-fixed-single", 1, "deep", True),
        pytest.param("co-cont-single", 1, "deep", False, marks=pytest.mark.deploy),
        pytest.param("co-cont-single", 2, "paper", True, marks=pytest.mark.deploy),
    ],
)
def test_the_compiled_program_is_the_step(tmp_path, variant, layers, stack, inplace):
    model = build(variant, layers, stack)
    path = traced.compile_program(traced.export_program(model, inplace=inplace), tmp_path / "step.pt2")
    check(model, torch._inductor.aoti_load_package(path), inplace)


def test_the_name_of_a_compiled_program(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.pt2"):
        traced.compile_program(traced.export_program(build("co-full-single")), tmp_path / "step.so")


@pytest.mark.deploy
@pytest.mark.parametrize(
    ("variant", "layers", "stack"),
    [("co-full-single", 1, "deep"), ("co-fixed-single", 2, "paper"), ("co-cont-single", 1, "deep")],
)
def test_executorch(variant, layers, stack):
    exir = pytest.importorskip("executorch.exir")
    runtime = pytest.importorskip("executorch.runtime").Runtime.get()
    model = build(variant, layers, stack)
    with traced.quiet():
        edge = exir.to_edge_transform_and_lower(traced.export_program(model, max_streams=8))
        buffer = edge.to_executorch().buffer  # the program reads it, but does not keep it alive
    method = runtime.load_program(buffer).load_method("forward")
    check(model, lambda *tensors: [y.clone() for y in method.execute(tensors)])

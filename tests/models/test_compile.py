"""Models under torch.compile and torch.export give the outputs of the eager model, at every phase.

These tests check that a model can be captured and that the generated code is right, not how fast it is.
`tests/layers/test_export.py` exports the step of every variant; here are the parts that a model adds.
"""

import os
import shutil

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import nystream as ns
from nystream import state as states

# Inductor needs a C++ compiler; without one, the graph is run as it is.
GENERATED = "inductor" if shutil.which(os.environ.get("CXX", "c++")) else "aot_eager"

# Operators of a graph in which Python has read a tensor's value, or a shape depends on one.
READS_VALUES = ("aten.item", "aten._local_scalar_dense", "aten.nonzero", "aten._assert_scalar")

# `steps` with continual landmarks branches on values to save work: it is captured in parts.
WHOLE = [
    ("full", 2, "paper", "step"),
    ("full", 2, "paper", "steps"),
    ("nystrom", 1, "paper", "steps"),
    ("nystrom-fixed", 2, "paper", "step"),
    ("co-full-single", 1, "paper", "steps"),
    ("co-full-single", 2, "deep", "step"),
    ("co-full-single", 2, "deep", "forward"),
    ("co-full-single", 2, "paper", "steps"),
    ("co-full-single", 2, "paper", "step"),
    ("co-cont-single", 2, "paper", "step"),
    ("co-cont-single", 1, "paper", "step"),
    ("co-cont-single", 2, "deep", "step"),
    ("co-cont-single", 2, "paper", "forward"),
    ("co-fixed-single", 1, "paper", "step"),
    ("co-fixed-single", 2, "paper", "step"),
    ("co-fixed-single", 2, "paper", "steps"),
    ("co-fixed-single", 2, "deep", "steps"),
    ("co-fixed-single", 3, "paper", "forward"),
]
PARTS = [
    ("co-cont-single", 1, "paper", "steps"),
]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def small(build):
    def small(variant, layers, stack, **options):
        sizes = {"window": 4, "landmarks": 2, "embed_dim": 4, "ff_dim": 4, "pinv_iters": 1}
        return build(variant, layers, stack=stack, **{**sizes, **options})

    return small


def check(model, face, compiled):
    """Compare a compiled method with the eager one, over a stream that fills the window and continues."""
    x = randn(2, 10, 5)
    if face == "forward":
        for offset in (torch.tensor([0, 0]), torch.tensor([3, 1])):
            close(compiled(x[:, :4], offset), model(x[:, :4], offset))
        return
    state = eager = model.init_state(2)
    for chunk in x.split(1 if face == "step" else 5, 1):  # all of one shape, because compiling is slow
        tokens = chunk[:, 0] if face == "step" else chunk
        y, state = compiled(tokens, state)
        expected, eager = getattr(model, face)(tokens, eager)
        close(y, expected)
    for (_, leaf), (_, other) in zip(states.named_leaves(state), states.named_leaves(eager), strict=True):
        close(leaf, other)


@pytest.mark.parametrize(("variant", "layers", "stack", "face"), WHOLE)
def test_a_face_is_one_graph(small, variant, layers, stack, face):
    model, counter = small(variant, layers, stack).requires_grad_(False), CompileCounter()
    check(model, face, torch.compile(getattr(model, face), backend=counter, fullgraph=True))
    if face == "step":
        assert counter.frame_count == 1, "a stream compiles its step once"


@pytest.mark.parametrize(("variant", "layers", "stack", "face"), PARTS)
def test_a_face_that_saves_work_is_captured_in_parts(small, variant, layers, stack, face):
    model = small(variant, layers, stack).requires_grad_(False)
    check(model, face, torch.compile(getattr(model, face), backend="eager"))


@pytest.mark.parametrize(
    ("variant", "layers", "stack", "face"),
    [
        ("co-fixed-single", 1, "paper", "step"),
        ("co-full-single", 1, "paper", "steps"),  # inductor once miscompiled its masked attention
    ],
)
def test_generated_code_gives_the_same_numbers(small, variant, layers, stack, face):
    model = small(variant, layers, stack).requires_grad_(False)
    check(model, face, torch.compile(getattr(model, face), backend=GENERATED, dynamic=False))


def test_training_through_compiled_steps(small):
    model, x = small("co-fixed-single", 1, "deep"), randn(2, 4, 5)

    def gradients(steps):
        model.zero_grad()
        steps(x, model.init_state(2))[0].square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    compiled = torch.compile(model.steps, backend="aot_eager")
    for ours, expected in zip(gradients(compiled), gradients(model.steps), strict=True):
        close(ours, expected)


@pytest.mark.parametrize(("layers", "stack"), [(2, "deep"), (2, "paper")])
def test_a_compiled_step_in_place(small, layers, stack):
    model = small("co-fixed-single", layers, stack).requires_grad_(False)
    step, state, eager = torch.compile(model.step, backend="aot_eager"), model.init_state(2), model.init_state(2)
    places = [leaf.data_ptr() for _, leaf in states.named_leaves(state)]
    for _ in range(9):
        x = randn(2, 5)
        y, state = step(x, state, inplace=True)
        want, eager = model.step(x, eager)
        close(y, want)
    assert [leaf.data_ptr() for _, leaf in states.named_leaves(state)] == places


class Step(torch.nn.Module):
    """`step` as a function of tensors alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, *leaves):
        y, new = self.model.step(x, filled(self.model, leaves))
        return (y, *(leaf for _, leaf in states.named_leaves(new)))


def filled(model, leaves):
    """Return a state with the given leaves."""
    left = iter(leaves)
    return states.map_state(lambda _: next(left), model.init_state(1))


def at_phases(model, phases):
    """Return one state whose rows have processed different numbers of groups."""
    r, rows = model.config.update_size, []
    for phase in phases:
        state = model.init_state(1)
        rows.append(model.steps(randn(1, phase * r, 5), state)[1] if phase else state)
    return states.stack(rows)


def targets(graph_module):
    """Return all operators, including those in the branches of a condition."""
    inner = [m for m in graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {str(node.target) for m in inner for node in m.graph.nodes if node.op == "call_function"}


@pytest.mark.parametrize(
    ("variant", "layers", "stack", "r", "segments"),
    [
        ("co-full-single", 1, "paper", 2, None),
        ("co-fixed-single", 2, "deep", 1, None),
        ("co-fixed-single", 1, "deep", 1, (1, 1, 2, 3)),
        ("full", 1, "paper", 1, 3),
    ],
)
def test_a_step_is_a_graph_over_tensors(small, variant, layers, stack, r, segments):
    linear = None if segments is None else ns.LinearConfig(segments=segments, inputs=2, embedded=stack == "deep")
    sizes = {"update_size": r, "num_positions": 3, "landmarks": 3}
    model = small(variant, layers, stack, linear=linear, **sizes).requires_grad_(False)
    if linear is not None:
        torch.nn.init.normal_(model.linear.weight)
    shape, batch = (5,) if r == 1 else (r, 5), torch.export.Dim("batch")
    leaves = [leaf for _, leaf in states.named_leaves(model.init_state(2))]
    shapes = ({0: batch}, tuple({0: batch} for _ in leaves))
    exported = torch.export.export(Step(model), (randn(2, *shape), *leaves), dynamic_shapes=shapes)
    called = targets(exported.graph_module)
    assert not [name for name in called if name.startswith(READS_VALUES)]
    module, groups = exported.module(), 4 // r
    for phases in ([0], [0, 1, groups - 1, groups, groups + 1]):
        state = graph_state = at_phases(model, phases)
        for _ in range(2 * groups):
            x = randn(len(phases), *shape)
            want, state = model.step(x, state)
            out, *new = module(x, *(leaf for _, leaf in states.named_leaves(graph_state)))
            graph_state = filled(model, new)
            close(out, want)
        for (_, leaf), (_, eager) in zip(states.named_leaves(graph_state), states.named_leaves(state), strict=True):
            close(leaf, eager)


PATH = ns.LinearConfig(segments=(1, 1, 2, 3), inputs=2, embedded=True)


@pytest.mark.parametrize("face", ["step", "steps", "forward"])
def test_a_linear_path_is_part_of_the_graph(small, face):
    model, counter = small("co-fixed-single", 2, "deep", linear=PATH).requires_grad_(False), CompileCounter()
    torch.nn.init.normal_(model.linear.weight)
    check(model, face, torch.compile(getattr(model, face), backend=counter, fullgraph=True))
    if face == "step":
        assert counter.frame_count == 1, "a stream compiles its step once"


def test_generated_code_of_a_linear_path(small):
    model = small("co-full-single", 1, "deep", linear=PATH).requires_grad_(False)
    torch.nn.init.normal_(model.linear.weight)
    check(model, "step", torch.compile(model.step, backend=GENERATED, dynamic=False))


def test_a_compiled_step_of_a_linear_path_in_place(small):
    model = small("co-fixed-single", 2, "deep", linear=PATH).requires_grad_(False)
    torch.nn.init.normal_(model.linear.weight)
    step, state, eager = torch.compile(model.step, backend="aot_eager"), model.init_state(2), model.init_state(2)
    for _ in range(9):
        x = randn(2, 5)
        y, state = step(x, state, inplace=True)
        want, eager = model.step(x, eager)
        close(y, want)

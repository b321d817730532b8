"""A step traces to one graph over x and the state's tensors, and the graph gives the numbers of the eager step.

Each row's phase is a number in its state, so the same graph must serve warm-up, landmark renewals and rows that are at
different phases. torch.export refuses a Python branch on a tensor's value; it sees all of a step here.
"""

import pytest
import torch

from nystream import state as states

FORMS = [
    ("co-full-single", "recompute"),
    ("co-cont-single", "recompute"),
    ("co-cont-single", "partials"),
    ("co-fixed-single", "recompute"),
    ("co-fixed-single", "partials"),
]

# What a graph calls where Python has looked at a tensor's value, or a shape depends on one.
READS_VALUES = ("aten.item", "aten._local_scalar_dense", "aten.nonzero", "aten._assert_scalar")


class Step(torch.nn.Module):
    """`step` as a function of tensors alone."""

    def __init__(self, attn, state_type):
        super().__init__()
        self.attn = attn
        self.state_type = state_type

    def forward(self, x, *state):
        y, new = self.attn.step(x, self.state_type(*state))
        return (y, *new)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def traced(attn, x, state):
    batch = torch.export.Dim("batch")
    shapes = ({0: batch}, tuple({0: batch} for _ in state))
    return torch.export.export(Step(attn, type(state)), (x, *state), dynamic_shapes=shapes)


def targets(graph_module):
    """Everything that is called, inside the branches of a condition too."""
    inner = [m for m in graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {str(node.target) for m in inner for node in m.graph.nodes if node.op == "call_function"}


def at_phases(attn, phases):
    """One state whose rows have seen so many groups each."""
    r, rows = attn.config.update_size, []
    for phase in phases:
        state = attn.init_state(1)
        rows.append(attn.steps(randn(1, phase * r, 8), state)[1] if phase else state)
    return states.stack(rows)


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize(("variant", "sums"), FORMS)
def test_the_traced_step_is_the_eager_step(build, variant, sums, r):
    n, m = (7, 3) if r == 1 else (12, 5)  # landmarks whose segments are not all of one size
    attn = build(variant, n, m, sums=sums, update_size=r, pinv_iters=2).requires_grad_(False)
    groups, shape = n // r, (8,) if r == 1 else (r, 8)
    exported = traced(attn, randn(2, *shape), attn.init_state(2))
    called = targets(exported.graph_module)
    assert not [name for name in called if name.startswith(READS_VALUES)]
    assert ("cond" in called) == (variant == "co-cont-single")  # a renewal costs only when there is one
    module = exported.module()
    for phases in ([0], [0, groups // 2, groups - 1, groups, groups + 1]):
        state = at_phases(attn, phases)
        graph_state = state
        for _ in range(2 * groups):
            x = randn(len(phases), *shape)
            want, state = attn.step(x, state)
            out, *leaves = module(x, *graph_state)
            graph_state = type(state)(*leaves)
            torch.testing.assert_close(out, want, rtol=1e-10, atol=1e-12)
        for leaf, eager in zip(graph_state, state, strict=True):
            torch.testing.assert_close(leaf, eager, rtol=1e-10, atol=1e-12)


@pytest.fixture
def compiled():
    """torch.compile without a code generator: what is tested is that a step can be captured, not how fast it gets."""
    torch.compiler.reset()
    yield lambda function, **options: torch.compile(function, **{"backend": "eager", "fullgraph": True, **options})
    torch.compiler.reset()


@pytest.mark.parametrize("variant", ["full", "co-cont-single", "co-fixed-single"])
def test_compiled_forward(build, compiled, variant):
    attn, x = build(variant), randn(2, 6, 8)
    backend = "aot_eager" if variant == "co-fixed-single" else "eager"
    forward = compiled(attn, backend=backend)
    for length in (6, 4):
        torch.testing.assert_close(forward(x[:, :length]), attn(x[:, :length]), rtol=1e-10, atol=1e-12)
    forward(x).sum().backward()
    gradient = attn.v_proj.weight.grad.clone()
    attn.zero_grad()
    attn(x).sum().backward()
    torch.testing.assert_close(gradient, attn.v_proj.weight.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "variant",
    ["full", "co-fixed-single", "co-cont-single"],
)
def test_compiled_step(build, compiled, variant):
    attn = build(variant, pinv_iters=2).requires_grad_(False)
    step, state = compiled(attn.step), at_phases(attn, [0, 4])
    eager = state
    for _ in range(9):
        x = randn(2, 8)
        out, state = step(x, state)
        want, eager = attn.step(x, eager)
        torch.testing.assert_close(out, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("variant", ["full", "co-full-single", "co-fixed-single"])
def test_compiled_steps(build, compiled, variant):
    attn, x = build(variant).requires_grad_(False), randn(2, 9, 8)
    out, _ = compiled(attn.steps)(x, attn.init_state(2))
    torch.testing.assert_close(out, attn.steps(x, attn.init_state(2))[0], rtol=1e-10, atol=1e-12)

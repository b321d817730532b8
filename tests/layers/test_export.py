"""A step can be exported as one graph over x and the tensors of the state, and the graph equals the eager step.

The phase of each row is part of its state, so the same graph must work during warm-up, when landmarks are renewed, and
for rows at different phases. torch.export rejects a Python branch on a tensor's value.

`tests/models/test_compile.py` compiles `step` and `steps` of whole models.
"""

import pytest
import torch

from nystream import state as states
from nystream import variants

# Every form of the window, and one token or several per step.
FORMS = [
    ("co-full-single", "recompute", 1),
    ("co-full-single", "recompute", 3),
    ("co-cont-single", "recompute", 1),
    ("co-cont-single", "partials", 3),
    ("co-fixed-single", "recompute", 3),
    ("co-fixed-single", "partials", 1),
]

# Operators of a graph in which Python has read a tensor's value, or a shape depends on one.
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
    """Return all operators, including those in the branches of a condition."""
    inner = [m for m in graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {str(node.target) for m in inner for node in m.graph.nodes if node.op == "call_function"}


def at_phases(attn, phases):
    """Return one state whose rows have processed different numbers of groups."""
    r, rows = attn.config.update_size, []
    for phase in phases:
        state = attn.init_state(1)
        rows.append(attn.steps(randn(1, phase * r, 8), state)[1] if phase else state)
    return states.stack(rows)


@pytest.mark.parametrize(("variant", "sums", "r"), FORMS)
def test_the_traced_step_is_the_eager_step(build, variant, sums, r):
    n, m = (7, 3) if r == 1 else (12, 5)  # segments of two sizes
    decay = r > 1 and sums != "subtract" and "decay" in variants.get(variant).options
    attn = build(variant, n, m, sums=sums, update_size=r, pinv_iters=2, decay=decay).requires_grad_(False)
    groups, shape = n // r, (8,) if r == 1 else (r, 8)
    exported = traced(attn, randn(2, *shape), attn.init_state(2))
    called = targets(exported.graph_module)
    assert not [name for name in called if name.startswith(READS_VALUES)]
    assert ("cond" in called) == (variant == "co-cont-single")  # so that a renewal costs only when there is one
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


@pytest.mark.parametrize("variant", ["full", "co-cont-single", "co-fixed-single"])
def test_compiled_forward(build, variant):
    attn, x = build(variant), randn(2, 6, 8)
    torch.compiler.reset()
    # Without a code generator: this tests that a window can be captured, not how fast it gets.
    forward = torch.compile(attn, backend="aot_eager" if variant == "co-fixed-single" else "eager", fullgraph=True)
    for length in (6, 4):
        torch.testing.assert_close(forward(x[:, :length]), attn(x[:, :length]), rtol=1e-10, atol=1e-12)
    forward(x).sum().backward()
    gradient = attn.v_proj.weight.grad.clone()
    attn.zero_grad()
    attn(x).sum().backward()
    torch.testing.assert_close(gradient, attn.v_proj.weight.grad, rtol=1e-9, atol=1e-12)
    torch.compiler.reset()


@pytest.mark.parametrize("variant", ["co-full-retro", "co-cont-retro"])
def test_compiled_retroactive_step(build, variant):
    """These branch on values to save work, but not while a graph is traced."""
    attn = build(variant, 4, 2, pinv_iters=1).requires_grad_(False)
    torch.compiler.reset()
    step, state = torch.compile(attn.step, backend="eager", fullgraph=True), attn.init_state(2)
    eager = state
    for x in randn(7, 2, 8):
        out, state = step(x, state)
        expected, eager = attn.step(x, eager)
        torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    torch.compiler.reset()

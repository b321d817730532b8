"""Values that are hard to sum, dtypes, and what the kernels do not do."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

import nystream as ns
from nystream.ops import fused
from nystream.ops.triton import launch, prepare
from nystream.testing import relative_error

compare = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("compare.py"))))
VARIANTS = ["co-fixed-single", "co-full-single"]


def config(variant, n=20, **options):
    if variant == "co-fixed-single":
        options |= {"landmarks": 3, "pinv": "ridge"}
    return ns.AttentionConfig(variant, 8, 2, n, **options)


def piece(tokens=40, batch=1, before=7):
    return compare.Piece(torch.randn(batch, tokens, 8), torch.randn(batch, before, 8))


@pytest.mark.parametrize("decay", [False, True])
@pytest.mark.parametrize("size", [100.0, -100.0, 35.0])
@pytest.mark.parametrize("variant", VARIANTS)
def test_outliers(variant, size, decay):
    # A token whose logits are about this size enters the window and leaves it again. The kernels of fixed landmarks
    # multiply factors for logits up to about 40 above the others, and compute every exponential for larger ones.
    attn, tokens = compare.build(config(variant, decay=decay)), piece()
    direction = attn.q_tilde[:, 0].flatten() if attn.config.fixed else attn.q_proj(tokens.x[0, 30])
    key = tokens.x.clone()
    with torch.no_grad():
        wanted = direction / direction.square().sum() * 2 * size / attn.config.scale
        key[0, 12] = torch.linalg.solve(attn.k_proj.weight, wanted - attn.k_proj.bias)
    # A logit of 100 is rounded by 1e-5, and so are the weights that follow from it; the gradient of the projection is
    # their differences times a token that is as large.
    compare.check(attn, tokens._replace(key=key), tolerance=3e-4)


@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:invalid value")  # NumPy's, about what is tested
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_token_that_is_not_finite_spoils_its_windows_only(variant, bad):
    attn, tokens = compare.build(config(variant)), piece(batch=2)
    tokens.x[0, 9] = bad
    y, state = attn.steps(tokens.x, attn.init_state(2))
    with fused.kernels("never"):
        double = compare.in_float64(attn)
        expected, same = double.steps(tokens.x.double(), double.init_state(2))
    assert torch.equal(y.isnan(), expected.isnan())
    assert y[0, 9:29].isnan().all()
    assert relative_error(y[1:], expected[1:]) < 1e-5
    assert relative_error(y[0, 29:], expected[0, 29:]) < 1e-5
    assert torch.equal(state.time, same.time)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_reach_the_piece_before(variant):
    attn, tokens = compare.build(config(variant, decay=True)), torch.randn(1, 30, 8)
    slopes = []
    for module, mode in ((attn, "always"), (compare.in_float64(attn), "never")):
        x = tokens.to(module.q_proj.weight.dtype, copy=True).requires_grad_()
        with fused.kernels(mode):
            state = module.steps(x[:, :13], module.init_state(1))[1]
            y, _ = module.steps(x[:, 13:], state)
        slopes.append(torch.autograd.grad(y.square().sum(), x)[0])
    assert slopes[1][:, :13].abs().max() > 1e-3
    assert relative_error(*slopes) < 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
def test_bfloat16(variant):
    attn, tokens = compare.build(config(variant, decay=True), torch.bfloat16), piece()
    slope = torch.randn_like(tokens.x)
    y, _, gradients = compare.run(attn, tokens, slope)
    with fused.kernels("never"):
        expected, _, exact = compare.run(compare.in_float64(attn), tokens, slope)
    assert y.dtype == torch.bfloat16
    assert relative_error(y, expected) < 0.03
    for name in ("x", "v_proj.weight", "q_proj.weight"):
        assert gradients[name].dtype == torch.bfloat16
        assert (gradients[name] - exact[name]).norm() / exact[name].norm() < 0.05, name


@pytest.mark.parametrize("variant", VARIANTS)
def test_autocast(variant, monkeypatch):
    asked = []
    monkeypatch.setattr(launch, "precision", lambda x, usual=launch.precision: asked.append(usual(x)) or asked[-1])
    attn, tokens = compare.build(config(variant, decay=True)), piece()
    slope = torch.randn_like(tokens.x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state, gradients = compare.run(attn, tokens, slope)
        with fused.kernels("never"):
            expected, _, exact = compare.run(attn, tokens, slope)
    assert asked == ["tf32"]  # enough for projections in bfloat16, and the backward pass uses the same
    assert state.ring_value.dtype == torch.float32
    assert relative_error(y, expected) < 0.02
    for name, gradient in gradients.items():
        assert gradient.dtype == torch.float32, name
        assert relative_error(gradient, exact[name]) < 0.05, name
    compare.run(attn, tokens, slope)
    assert asked == ["tf32", "tf32x3"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_second_derivatives_are_refused(variant):
    attn, tokens = compare.build(config(variant)), piece()
    x = tokens.x.requires_grad_()
    y = attn.steps(x, attn.init_state(1))[0]
    (slope,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivatives.*kernels\('never'\)"):
        slope.sum().backward()


@pytest.mark.parametrize("variant", VARIANTS)
def test_many_models_at_once(variant):
    class Outputs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = compare.build(config(variant, decay=True))

        def forward(self, x):
            return self.attn.outputs(x, self.attn.init_state(1))

    models, x = [Outputs() for _ in range(2)], torch.randn(2, 1, 24, 8)

    def loss(weights, x):
        return functional_call(models[0], weights, (x,)).square().sum()

    weights, _ = stack_module_state(models)
    gradients, _ = vmap(grad_and_value(loss))(weights, x)
    for number, model in enumerate(models):
        model.zero_grad()
        model(x[number]).square().sum().backward()
        for name, weight in model.named_parameters():
            assert torch.allclose(gradients[name][number], weight.grad, rtol=1e-3, atol=1e-4), name


def test_what_cannot_be_computed_is_an_error():
    wide = ns.MultiheadAttention(ns.AttentionConfig("co-full-single", 130, 1, 4))
    with pytest.raises(ValueError, match="heads are 130 wide, but the kernels take at most 128"):
        wide.steps(torch.randn(1, 4, 130), wide.init_state(1))
    double = compare.build(config("co-full-single"), torch.float64)
    with pytest.raises(ValueError, match=r"the values are torch.float64.*kernels\('auto'\)"):
        double.steps(torch.randn(1, 4, 8, dtype=torch.float64), double.init_state(1))
    with fused.kernels("auto"):
        assert double.steps(torch.randn(1, 4, 8, dtype=torch.float64), double.init_state(1))[0].isfinite().all()


@pytest.mark.parametrize(("setting", "expected"), [("tf32", "tf32"), ("ieee", "tf32x3"), ("none", "tf32x3")])
def test_precision_in_the_newer_way(setting, expected, monkeypatch):
    """Once `fp32_precision` is set, torch refuses to tell `get_float32_matmul_precision`."""
    monkeypatch.setattr(torch.backends.cuda, "matmul", SimpleNamespace(fp32_precision=setting))
    monkeypatch.delattr(torch, "get_float32_matmul_precision")
    assert launch.precision(torch.zeros(1)) == expected
    assert launch.precision(torch.zeros(1, dtype=torch.bfloat16)) == "tf32"


@pytest.mark.parametrize("offset", [1e3, -1e3])
def test_offsets_of_logits_cost_no_digits(offset):
    """All logits of a landmark are far from zero, but close together."""
    torch.manual_seed(0)
    attn = compare.build(config("co-fixed-single"))
    with torch.no_grad():
        attn.k_proj.bias += offset * attn.q_tilde[:, 0].flatten()
    compare.check(attn, piece(), tolerance=2e-4)  # the offset itself leaves a float32 logit four digits


@pytest.mark.parametrize("size", [1e4, 1e6])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_large_logit_costs_no_digits_elsewhere(variant, size):
    attn, tokens = compare.build(config(variant)), piece(80)
    tokens.x[0, 12] *= size
    slope = torch.randn_like(tokens.x)
    slope[:, :40] = 0  # of windows without the token
    y, _, gradients = compare.run(attn, tokens, slope)
    with fused.kernels("never"):
        expected, _, exact = compare.run(compare.in_float64(attn), tokens, slope)
    assert relative_error(y[:, 40:], expected[:, 40:]) < 1e-5
    assert relative_error(gradients["x"][:, 40:], exact["x"][:, 40:]) < 1e-4


@pytest.mark.filterwarnings("ignore:overflow encountered")  # NumPy's, about what is tested
def test_the_largest_logits_stay_finite():
    logit = torch.randn(1, 80, 2, 3)
    logit[0, 7] = 3e38
    ring = torch.full((1, 4, 2, 3), -3e38)
    bad = torch.zeros(1, dtype=torch.int32)
    assert prepare.logarithms(ring, logit, None, bad).max() < torch.inf
    assert not bad


@pytest.mark.parametrize("part", [slice(None, None, 2), slice(1, 2)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_states_that_are_not_contiguous(variant, part):
    """Such as a state that several streams begin with."""
    attn, rows = compare.build(config(variant)), 4
    with torch.no_grad(), fused.kernels("never"):
        lengths = torch.tensor([3, 27, 11, 40])
        before = attn.steps(torch.randn(rows, 40, 8), attn.init_state(rows), lengths=lengths)[1]
    state = type(before)(*(leaf[part].expand(2, *leaf.shape[1:]) for leaf in before))
    x = torch.randn(2, 30, 8)
    y, _ = attn.steps(x, state)
    with fused.kernels("never"):
        double = compare.in_float64(attn)
        copy = type(before)(*(leaf.clone().double() if leaf.is_floating_point() else leaf.clone() for leaf in state))
        expected, _ = double.steps(x.double(), copy)
    assert relative_error(y, expected) < 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_one_at_a_time(variant):
    attn, x = compare.build(config(variant)), torch.randn(1, 40, 8, requires_grad=True)
    y, _ = attn.steps(x, attn.init_state(1))
    with pytest.raises(RuntimeError, match=r"do not support batched gradients; .*kernels\('never'\)"):
        torch.autograd.grad(y, x, torch.randn(2, *y.shape), is_grads_batched=True)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's own
def test_forward_mode():
    attn, x = compare.build(config("co-full-single")), torch.randn(1, 40, 8)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.randn_like(x))
        with pytest.raises(ValueError, match="the kernels do not support forward-mode differentiation"):
            attn.steps(dual, attn.init_state(1))

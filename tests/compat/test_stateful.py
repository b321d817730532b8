"""Our modules with the interface of continual-inference, alone and inside its containers."""

import copy
import pickle
import sys

import continual as co
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nystream as ns
from nystream import state as states
from nystream import testing, variants
from nystream.compat import Continual, continual

TOLERANCE = testing.TOLERANCE[torch.float64]
SINGLE = [variant for variant in ns.VARIANTS if variants.get(variant).single]
ROWS = [("attention", variant) for variant in ns.VARIANTS if variant not in SINGLE]
ROWS += [("encoder", variant) for variant in ("full", "nystrom", "nystrom-fixed")]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected):
    assert testing.relative_error(actual, expected) <= TOLERANCE


def width(module):
    return 5 if isinstance(module, ns.StreamModel) else 8


def loop(module, x, held=0):
    """Outputs of the module's own `step`, x [B, T, width], without the first `held`."""
    state, outs = module.init_state(x.shape[0]), []
    for t in range(x.shape[1]):
        y, state = module.step(x[:, t], state)
        outs.append(y)
    return torch.stack(outs, 1)[:, held:]


CASES = [
    *(("attention", variant, {}) for variant in SINGLE),
    *(("encoder", variant, {}) for variant in SINGLE),
    ("encoder", "co-fixed-single", {"stack": "deep", "layers": 3}),
    ("model", "co-cont-single", {}),
    ("model", "full", {}),
    ("model", "co-fixed-single", {"stack": "deep"}),
    ("model", "co-full-single", {"stack": "deep", "linear": ns.LinearConfig(segments=(1, 2, 9), embedded=True)}),
]


@torch.no_grad()
@pytest.mark.parametrize("warmup", ["wait", "now"])
@pytest.mark.parametrize(("kind", "variant", "options"), CASES)
@settings(max_examples=3)
@given(window=st.integers(2, 5), batch=st.integers(1, 2), cut=st.integers(1, 6), more=st.integers(1, 3))
def test_steps_and_pieces_are_those_of_the_module(build, kind, variant, options, warmup, window, batch, cut, more):
    module = build(kind, variant, window=window, **options)
    face = continual(module, warmup)
    full = 1 + options.get("layers", 2) * (window - 1) if options else window
    assert face.delay == (full - 1 if warmup == "wait" else 0)
    assert face.receptive_field == module.receptive_field
    total = max(full, cut) + more
    x = randn(batch, total, width(module))
    expected = loop(module, x, face.delay).mT
    outs = [face.forward_step(x[:, t]) for t in range(total)]
    assert all(y is None for y in outs[: face.delay])
    close(torch.stack(outs[face.delay :], 2), expected)
    face.clean_state()
    pieces = [face.forward_steps(x[:, :cut].mT), face.forward_steps(x[:, cut:].mT)]
    assert (pieces[0] is None) == (cut <= face.delay)
    close(torch.cat([y for y in pieces if y is not None], 2), expected)
    close(face.forward(x.mT), expected)  # and whatever stream is under way
    close(face(x[:, :full].mT), expected[:, :, : full - face.delay])


@torch.no_grad()
@pytest.mark.parametrize(("kind", "variant"), ROWS)
def test_all_rows(build, kind, variant):
    module = build(kind, variant)
    x = randn(2, 9, 8)
    expected = loop(module, x, 3)  # [B, 6, n, E]
    face = continual(module)
    close(face(x[:, :4].mT).mT, expected[:, 0])
    assert face.forward_steps(x[:, :2].mT) is None
    close(face.forward_steps(x[:, 2:8].mT), expected[:, :5].permute(0, 3, 1, 2))
    close(face.forward_step(x[:, 8]).mT, expected[:, 5])
    with pytest.raises(ValueError, match=r"x has 5 steps, but .* window, which has 4; use forward_steps"):
        face(x[:, :5].mT)


@torch.no_grad()
@pytest.mark.parametrize("variant", ["co-full-retro", "co-full-single"])
def test_attention_is_the_packages(build, variant):
    module = build("attention", variant)
    peer = {"co-full-retro": co.RetroactiveMultiheadAttention, "co-full-single": co.SingleOutputMultiheadAttention}
    options = {"batch_first": True, "embed_dim_second": True, "forward_returns_attn_mask": False}
    theirs = peer[variant](8, 2, sequence_len=4, **options).double().eval()
    theirs.in_proj_weight.copy_(torch.cat([p.weight for p in (module.q_proj, module.k_proj, module.v_proj)]))
    theirs.in_proj_bias.copy_(torch.cat([p.bias for p in (module.q_proj, module.k_proj, module.v_proj)]))
    theirs.out_proj.load_state_dict(module.out_proj.state_dict())
    ours, x = continual(module), randn(2, 8, 10)
    close(ours.forward(x[:, :, :4]), theirs.forward(x[:, :, :4]))
    close(ours.forward_steps(x[:, :, :7]), theirs.forward_steps(x[:, :, :7]))
    for t in range(7, 10):
        close(ours.forward_step(x[:, :, t]), theirs.forward_step(x[:, :, t]))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["attention", "model"])
@pytest.mark.parametrize("variant", ["co-cont-single", "full"])
def test_tokens_that_arrive_together_are_the_space_of_a_step(build, kind, variant):
    module = build(kind, variant, update_size=2, window=6)
    face, x = continual(module), randn(2, width(module), 7, 2)
    assert (face.delay, face.receptive_field) == (2, 4 if variant == "co-cont-single" else 3)
    state, expected = module.init_state(2), []
    for t in range(7):
        y, state = module.step(x[:, :, t].mT, state)
        expected.append(y.mT)
    expected = torch.stack(expected[2:], 2)
    outs = [face.forward_step(x[:, :, t]) for t in range(7)]
    assert outs[1] is None
    close(torch.stack(outs[2:], 2), expected)
    face.clean_state()
    close(face.forward_steps(x), expected)
    close(face(x[:, :, :3]), expected[:, :, 0] if not module.config.single else expected[:, :, :1])


# Inside the package's containers.


def test_it_is_one_of_the_packages_modules(build):
    face = continual(build("attention"))
    assert isinstance(face, co.CoModule)
    assert isinstance(face, Continual)
    assert co.continual(face) is face
    assert face.stride == (1,)


@torch.no_grad()
@pytest.mark.parametrize("warmup", ["wait", "now"])
def test_inside_nested_containers(build, warmup):
    encoder, model = build("encoder"), build("model", "co-cont-single")
    first, last = co.Linear(3, 8, channel_dim=1).double(), co.Linear(8, 5, channel_dim=1).double()
    faces = [continual(encoder, warmup), continual(model, warmup)]
    net = co.Sequential(first, nn.ReLU(), co.Sequential(co.Sequential(faces[0]), last), faces[1]).eval()
    held = faces[0].delay
    x = randn(2, 3, 12)
    inner = loop(encoder, torch.relu(first(x)).mT, held)  # what is held back never reaches the second
    expected = loop(model, last(inner.mT).mT, held).mT
    assert net.delay == 2 * held
    outs = [net.forward_step(x[:, :, t]) for t in range(12)]
    assert all(y is None for y in outs[: 2 * held])
    close(torch.stack(outs[2 * held :], 2), expected)
    net.clean_state()
    first_outs, later = net.forward_steps(x[:, :, :5]), net.forward_steps(x[:, :, 5:])
    close(torch.cat([y for y in (first_outs, later) if y is not None], 2), expected)
    close(net(x), expected)
    net.clean_state()
    with co.call_mode("forward_steps"):
        close(net(x), expected)


@torch.no_grad()
@pytest.mark.parametrize("warmup", ["wait", "now"])
def test_a_residual_adds_the_newest_token(build, warmup):
    attention = build("attention", "co-fixed-single")
    net = co.Residual(continual(attention, warmup), residual_shrink="leading" if warmup == "wait" else False)
    x = randn(2, 8, 9)
    held = 3 if warmup == "wait" else 0
    expected = x[:, :, held:] + loop(attention, x.mT, held).mT
    close(net(x), expected)
    close(net.forward_steps(x[:, :, :6]), expected[:, :, : 6 - held])
    close(net.forward_step(x[:, :, 6]), expected[:, :, 6 - held])


@torch.no_grad()
def test_states_as_values_inside_containers(build):
    encoder = build("encoder")
    net, x = co.Sequential(continual(encoder), nn.ReLU()), randn(2, 8, 9)
    state, outs = None, []
    for t in range(9):
        y, state = net._forward_step(x[:, :, t], state)
        outs.append(y)
    assert outs[2] is None
    close(torch.stack(outs[3:], 2), loop(encoder, x.mT, 3).mT.relu())


# State.


@torch.no_grad()
@pytest.mark.parametrize("kind", ["attention", "encoder", "model"])
def test_state_is_kept_given_and_forgotten(build, kind):
    face = continual(build(kind))
    x = randn(2, width(face.module), 12)
    assert face.get_state() is None
    assert face.forward_steps(x, update_state=False) is not None
    assert face.forward_step(x[:, :, 0], update_state=False) is None
    assert face.get_state() is None
    face.forward_steps(x[:, :, :6])
    state = face.get_state()
    kept = states.clone(state)
    trial = face.forward_steps(x[:, :, 6:], update_state=False)
    assert torch.equal(face.forward_step(x[:, :, 6], update_state=False), face.forward_step(x[:, :, 6]))
    rest = face.forward_steps(x[:, :, 7:])
    close(rest, trial[:, :, 1:])
    for (name, leaf), (_, before) in zip(states.named_leaves(state), states.named_leaves(kept), strict=True):
        assert torch.equal(leaf.nan_to_num(), before.nan_to_num()), name
    other = continual(face.module)
    other.set_state(state)
    close(other.forward_steps(x[:, :, 6:]), trial)
    other.set_state(None)
    assert other.get_state() is None
    other.set_state(face.module.steps(x[:, :, :2].mT, face.module.init_state(2))[1])
    assert other.forward_step(x[:, :, 2]) is None
    assert other.forward_step(x[:, :, 3]) is not None


@torch.no_grad()
def test_a_module_is_warmed_up_with_zeros(build):
    face, zeros = continual(build("encoder", dtype=torch.float32)), torch.zeros(2, 8, 3)
    face.warm_up((2, 8))
    x = torch.randn(2, 8)
    y = face.forward_step(x)
    face.clean_state()
    face.forward_steps(zeros)
    assert torch.equal(face.forward_step(x), y)
    now = continual(face.module, "now")
    now.warm_up((2, 8))
    assert now.get_state() is None


def test_gradients_reach_back_to_the_beginning_of_a_call(build):
    face = continual(build("encoder"))
    x = randn(2, 8, 9).requires_grad_()
    (expected,) = torch.autograd.grad(face.module.steps(x.mT, face.module.init_state(2))[0][:, 3:].sum(), x)
    for outputs in (face(x), face.forward_steps(x)):
        close(torch.autograd.grad(outputs.sum(), x)[0], expected)
    assert not any(leaf.requires_grad for _, leaf in states.named_leaves(face.get_state()))
    (gradient,) = torch.autograd.grad(face.forward_step(x[:, :, 0]).sum(), x)
    assert bool(gradient[:, :, 0].any())
    assert not bool(gradient[:, :, 1:].any())
    assert not any(leaf.requires_grad for _, leaf in states.named_leaves(face.get_state()))


def test_a_stream_outlives_inference_mode(build):
    face, x = continual(build("encoder").requires_grad_(False)), randn(1, 8, 9)
    expected = loop(face.module, x.mT, 3).mT
    with torch.inference_mode():
        face.forward_steps(x[:, :, :4])
    with torch.no_grad():
        close(face.forward_step(x[:, :, 4]), expected[:, :, 1])
    with torch.inference_mode():
        close(face.forward_step(x[:, :, 5]), expected[:, :, 2])
    close(face.forward_steps(x[:, :, 6:]), expected[:, :, 3:])


@torch.no_grad()
def test_copies_go_on_by_themselves(build):
    face, x = continual(build("encoder")), randn(1, 8, 9)
    face.forward_steps(x[:, :, :5])
    copies = [copy.deepcopy(face), pickle.loads(pickle.dumps(face))]
    expected = face.forward_steps(x[:, :, 5:])
    for other in copies:
        assert torch.equal(other.forward_steps(x[:, :, 5:]), expected)
    assert "warmup='wait', delay=3" in repr(face)
    assert face.to("meta").get_state().time.is_meta


def test_without_the_package(build, monkeypatch):
    monkeypatch.setitem(sys.modules, "continual", None)
    monkeypatch.setitem(sys.modules, "continual.module", None)
    monkeypatch.delitem(sys.modules, "nystream.compat.co_module", raising=False)
    face, x = continual(build("encoder")), randn(2, 8, 6)
    assert type(face) is Continual
    close(face(x), loop(face.module, x.mT, 3).mT)
    close(face.forward_steps(x), loop(face.module, x.mT, 3).mT)


MISTAKES = {
    "module": (
        lambda build: continual(nn.Linear(3, 3)),
        TypeError,
        "module is a Linear, but must be a MultiheadAttention",
    ),
    "warmup": (lambda build: continual(build("attention"), "later"), ValueError, "warmup='later'"),
    "a step": (
        lambda build: continual(build("model")).forward_step(randn(2, 8)),
        ValueError,
        r"needs \[B, 5\] \(input_dim",
    ),
    "a group": (
        lambda build: continual(build("attention", update_size=2)).forward_step(randn(2, 8)),
        ValueError,
        r"x is \[2, 8\], but forward_step needs \[B, 8, 2\]",
    ),
    "time last": (
        lambda build: continual(build("attention"))(randn(2, 6, 8)),
        ValueError,
        r"x is \[2, 6, 8\].*\[B, 8, T\]",
    ),
    "not a tensor": (lambda build: continual(build("attention")).forward_step([1.0]), TypeError, "x is a list"),
    "short": (
        lambda build: continual(build("encoder"))(randn(2, 8, 3)),
        ValueError,
        "x has 3 steps, but .* at least 4, the number before the first output",
    ),
}


@pytest.mark.parametrize(("call", "error", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(build, call, error, says):
    with pytest.raises(error, match=says):
        call(build)


@torch.no_grad()
def test_streams_and_states_that_do_not_fit(build):
    face = continual(build("encoder"))
    face.forward_step(randn(2, 8))
    for call, x in ((face.forward_step, randn(3, 8)), (face.forward_steps, randn(3, 8, 4))):
        with pytest.raises(ValueError, match=r"x has 3 rows, but the current state has 2 streams; call clean"):
            call(x)
    assert face(randn(3, 8, 4)).shape == (3, 8, 1)
    face.clean_state()
    face.forward_step(randn(3, 8))
    with pytest.raises(TypeError, match="state is a list"):
        face.set_state([randn(3)])
    with pytest.raises(ValueError, match=r"state has \d+ tensors, but a state of this StreamEncoder has"):
        face.set_state(build("encoder", "co-cont-single").init_state(2))
    with pytest.raises(ValueError, match="the state belongs to another config"):
        face.set_state(build("encoder", window=6).init_state(2))
    for time in (-1, 2**53 + 1, 2**63 - 1):
        state = face.get_state()
        state.time[1] = time
        with pytest.raises(ValueError, match=rf"state has first\.time\[1\] = {time}, but a time must be between"):
            face.set_state(state)
    assert face.get_state().time.tolist() == [1, 1, 1]

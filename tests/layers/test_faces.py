"""Cross-attention, masks, dropout, factors, copies, shapes and gradients of a layer."""

import copy
import pickle

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import nystream as ns
from nystream import testing, variants
from nystream.ops.attention import reference
from nystream.ops.attention.common import gamma_pinv

FIXED = tuple(v for v in ns.VARIANTS if variants.get(v).fixed)
FULL = tuple(v for v in ns.VARIANTS if not variants.get(v).low_rank)
LOW_RANK = tuple(v for v in ns.VARIANTS if variants.get(v).low_rank)
TOLERANCE = testing.TOLERANCE[torch.float64]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected, tolerance=TOLERANCE):
    assert testing.relative_error(actual, expected) <= tolerance


def heads(attn, layer, x):
    return layer(x).unflatten(-1, (attn.config.num_heads, attn.config.head_dim)).transpose(1, 2)


def expected_outputs(attn, x, key, value):
    """The reference after every step, with queries, keys and values from three streams."""
    cfg = attn.config
    q, k, v = heads(attn, attn.q_proj, x), heads(attn, attn.k_proj, key), heads(attn, attn.v_proj, value)
    landmarks = (attn.q_tilde, attn.k_tilde) if cfg.fixed else (None, None)
    outs = []
    for t in range(1, x.shape[1] + 1):
        out = attn.out_proj(reference.attend(cfg, q, k, v, t, *landmarks).transpose(1, 2).flatten(2))
        out[:, : max(cfg.rows - t, 0) if not cfg.single else 0] = 0.0
        outs.append(out)
    return outs


@pytest.fixture(params=ns.VARIANTS)
def attn(request, build):
    return build(request.param).requires_grad_(False)


@pytest.mark.parametrize("separate", [False, True], ids=["key", "key and value"])
@pytest.mark.parametrize("landmarks", [3, 4], ids=["even segments", "uneven segments"])
@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_cross_attention(build, variant, landmarks, separate):
    attn = build(variant, landmarks=landmarks, sums="auto").requires_grad_(False)
    x, key = randn(2, 15, 8), randn(2, 15, 8)
    value = randn(2, 15, 8) if separate else key
    expected = expected_outputs(attn, x, key, value)
    given = {"key": key, "value": value} if separate else {"key": key}
    if not separate:
        whole = testing.reference_outputs(attn, x, key=key)
        close(torch.cat(expected, 1) if attn.config.single else torch.stack(expected, 1), whole)

    state = attn.init_state(2)
    for t, want in enumerate(expected):
        now = {name: stream[:, t] for name, stream in given.items()}
        y, state = attn.step(x[:, t], state, **now)
        close(y[:, None] if attn.config.single else y, want)
    out, _ = attn.steps(x, attn.init_state(2), **given)
    close(out, torch.cat(expected, 1) if attn.config.single else expected[-1])
    for length in (4, 6):
        some = {name: stream[:, :length] for name, stream in given.items()}
        close(attn(x[:, :length], **some), expected[length - 1])


@pytest.mark.parametrize("shape", [(6, 6), (2, 1, 6, 6), (2, 2, 6, 6), (2, 1, 1, 6)])
def test_full_takes_a_mask(build, shape):
    attn, x = build("full"), randn(2, 6, 8)
    mask = torch.rand(shape) < 0.5
    mask[..., 0] = True  # every query sees something
    q, k, v = (heads(attn, layer, x) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
    want = attn.out_proj(scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
    close(attn(x, attn_mask=mask), want)


@pytest.mark.parametrize("variant", FULL)
def test_dropout_drops_in_training_only(build, variant):
    attn, x = build(variant, dropout=0.5), randn(2, 6, 8)
    plain = ns.MultiheadAttention(ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=6), dtype=torch.float64)
    plain.load_state_dict(attn.state_dict())
    assert torch.equal(attn(x), plain(x))
    attn.train()
    with torch.no_grad():
        draws = torch.stack([attn(x) for _ in range(2000)])
        assert not torch.equal(draws[0], draws[1])
        close(draws.mean(0), plain(x), 0.1)  # what is left is scaled up: the mean stays


@pytest.mark.parametrize("pinv", ["newton", "exact", "ridge", "none"])
@pytest.mark.parametrize("variant", LOW_RANK)
def test_factors_multiply_out_to_the_forward(build, variant, pinv):
    attn, x, key = build(variant, landmarks=4, pinv=pinv), randn(2, 6, 8), randn(2, 6, 8)
    beta, inverse, delta = attn.factors(x, key=key)
    assert beta.shape == (2, 2, 6, 4)
    assert inverse.shape == (2, 2, 4, 4)
    assert delta.shape == (2, 2, 4, 6)
    close(beta.sum(-1), torch.ones(2, 2, 6))
    close(delta.sum(-1), torch.ones(2, 2, 4))
    out = (beta @ inverse @ delta @ heads(attn, attn.v_proj, key)).transpose(1, 2).flatten(2)
    close(attn(x, key=key), attn.out_proj(out)[:, -attn.config.rows :])


@pytest.mark.parametrize("variant", FIXED)
@pytest.mark.parametrize("assign", [False, True])
def test_loading_weights_rebuilds_the_inverse(build, variant, assign):
    attn, other, x = build(variant), build(variant, fit=False), randn(2, 6, 8)
    weights = attn.state_dict()
    assert "gamma_pinv" not in weights
    other.load_state_dict(weights, assign=assign)
    assert torch.equal(other.gamma_pinv, attn.gamma_pinv)
    assert torch.equal(other(x), attn(x))
    inside = torch.nn.Sequential(build(variant, fit=False))
    inside.load_state_dict({f"0.{name}": weight for name, weight in weights.items()})
    assert torch.equal(inside(x), attn(x))


@pytest.mark.parametrize("variant", FIXED)
def test_a_module_made_without_memory_can_be_filled(build, variant):
    attn, x = build(variant), randn(2, 6, 8)
    other = ns.MultiheadAttention(attn.config, device="meta", dtype=torch.float64).to_empty(device="cpu")
    other.load_state_dict(attn.state_dict())
    assert torch.equal(other(x), attn(x))


@pytest.mark.parametrize("variant", FIXED)
def test_a_cast_rebuilds_the_inverse_at_its_own_precision(build, variant):
    attn = build(variant, dtype=torch.float32)
    for dtype, kept in ((torch.float64, torch.float64), (torch.float32, torch.float32)):
        attn.to(dtype)
        exact = gamma_pinv(attn.q_tilde.double(), attn.k_tilde.double(), attn.config)
        assert attn.gamma_pinv.dtype == kept
        close(attn.gamma_pinv, exact, torch.finfo(kept).eps)
    for cast in (attn.bfloat16, attn.half):
        cast()
        exact = gamma_pinv(attn.q_tilde.double(), attn.k_tilde.double(), attn.config)
        assert attn.gamma_pinv.dtype == torch.float32  # an accumulator, never shorter
        close(attn.gamma_pinv, exact, torch.finfo(torch.float32).eps)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_copies_are_whole_and_independent(attn, how):
    x = randn(2, 6, 8)
    before, other = attn(x), how(attn)
    assert torch.equal(other(x), before)
    with torch.no_grad():
        other.v_proj.weight.mul_(2.0)
    if attn.config.fixed:
        other.set_landmarks(torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    assert not torch.equal(other(x), before)
    assert torch.equal(attn(x), before)


@pytest.mark.parametrize("variant", ns.VARIANTS)
@pytest.mark.parametrize("r", [1, 2, 6])
def test_shapes(build, variant, r):
    attn = build(variant, update_size=r)
    rows = r if attn.config.single else 6
    x, state = randn(3, 12, 8), attn.init_state(3)
    assert attn(x[:, :6]).shape == (3, rows, 8)
    assert attn(x[:, :r]).shape == (3, rows, 8)
    assert attn.step(x[:, :r], state)[0].shape == (3, rows, 8)
    assert attn.steps(x, state)[0].shape == (3, 12 if attn.config.single else 6, 8)
    if r == 1:
        y, _ = attn.step(x[:, 0], state)
        assert y.shape == ((3, 8) if attn.config.single else (3, 6, 8))
        z, _ = attn.step(x[:, :1], state)
        assert torch.equal(z[:, 0] if attn.config.single else z, y)


@pytest.mark.parametrize("variant", ns.VARIANTS)
@pytest.mark.parametrize("r", [1, 2])
def test_forward_of_shorter_windows_is_the_stream_after_that_many_tokens(build, variant, r):
    attn, x = build(variant, update_size=r, bias=r == 1), randn(4, 6, 8)
    lengths = torch.tensor([6, 2, 4, 6])
    out = attn(x, lengths=lengths)
    assert torch.equal(attn(x, lengths=lengths.int()), out)
    for row, length in enumerate(lengths.tolist()):
        tokens = x[row : row + 1, 6 - length :]
        stream, _ = attn.steps(tokens, attn.init_state(1))
        close(out[row : row + 1], stream[:, -attn.config.rows :])
        close(out[row : row + 1], attn(tokens))


@pytest.mark.parametrize("variant", ns.VARIANTS)
@pytest.mark.parametrize("r", [1, 2])
def test_gradients_of_forward_and_steps_against_finite_differences(build, variant, r):
    attn = build(variant, window=4, landmarks=3, embed_dim=2, num_heads=1, update_size=r, pinv_iters=2)
    x = randn(1, 10, 2).requires_grad_()
    state = attn.init_state(1)
    assert torch.autograd.gradcheck(attn, x[:, :4])
    assert torch.autograd.gradcheck(attn, x[:, :2])
    assert torch.autograd.gradcheck(lambda x: attn.steps(x, state)[0], x)
    # The state is differentiable too: a long stream can be cut into pieces.
    first, rest = x[:, :6].detach().requires_grad_(), x[:, 6:].detach()
    assert torch.autograd.gradcheck(lambda x: attn.steps(rest, attn.steps(x, state)[1])[0], first)


def test_gradients_reach_every_weight(attn):
    attn.requires_grad_(True)
    x = randn(2, 15, 8).requires_grad_()
    out = attn.steps(x, attn.init_state(2))[0]
    for outputs in (attn(x[:, :6]), out):
        weights = dict(attn.named_parameters())
        weights.pop("k_proj.bias")  # shifts all logits of a row alike, which softmax does not see
        weight = torch.linspace(-1, 1, outputs.numel()).reshape(outputs.shape)
        for name, gradient in zip(
            weights, torch.autograd.grad((outputs * weight).sum(), weights.values()), strict=True
        ):
            assert float(gradient.abs().max()) > 0, name
    if attn.config.fixed:
        assert not attn.gamma_pinv.requires_grad


def test_without_bias_there_is_none(build):
    attn = build("co-cont-single", bias=False)
    assert [name for name, _ in attn.named_parameters()] == [f"{p}_proj.weight" for p in ("q", "k", "v", "out")]

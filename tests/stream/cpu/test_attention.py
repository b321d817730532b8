"""The three compiled attentions against the float64 reference, at every phase, for many sizes and logits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream import variants
from nystream.ops.attention import reference
from nystream.stream.cpu.alone import AttentionKernel
from nystream.stream.cpu.attention import filled

COMPILED = tuple(v for v in ns.VARIANTS if variants.get(v).kernel is not None)


def against_reference(variant, n, m, heads, dim, tokens, scale=1.0, seed=0, **options):
    """Largest error of a stream, relative to its largest output."""
    torch.manual_seed(seed)
    cfg = ns.AttentionConfig(variant, embed_dim=heads * dim, num_heads=heads, window=n, landmarks=m, **options)
    attn = ns.MultiheadAttention(cfg).eval()
    fixed = [None, None]
    if cfg.fixed:
        fixed = [torch.randn(heads, m, dim) * scale for _ in range(2)]
        attn.set_landmarks(*fixed)
        fixed = [x.double() for x in fixed]
    rates = {}
    if cfg.decay:  # from hardly any to nine tenths per token
        attn.decay_logit.data.copy_(torch.rand(heads) * 8 - 6)
        rates = {"decay": attn.decay.detach().double()}
    kernel = AttentionKernel(attn)
    q, k, v = (torch.randn(1, heads, tokens, dim) for _ in range(3))
    q, k = q * scale, k * scale
    worst = largest = 0.0
    for t in range(1, tokens + 1):
        given = (kernel.lanes(x[0, :, t - 1].contiguous().numpy()) for x in (q, k, v))
        out = kernel.heads(kernel.step(*given))
        exact = reference.attend(cfg, q.double(), k.double(), v.double(), t, *fixed, **rates)
        worst = max(worst, float(np.abs(out - exact.flatten().numpy()).max()))
        largest = max(largest, float(exact.abs().max()))
    return worst / largest


@given(
    variant=st.sampled_from(COMPILED),
    n=st.integers(1, 40),
    share=st.floats(0, 1),
    heads=st.sampled_from([1, 2, 3, 4, 8, 12, 16]),
    dim=st.sampled_from([1, 3, 4, 8, 12]),
    seed=st.integers(0, 1000),
    decay=st.booleans(),
)
def test_any_size(variant, n, share, heads, dim, seed, decay):
    m = max(1, round(share * min(n, 9)))
    # ridge is bounded for all landmarks, so this measures the kernel and not the condition of Γ
    assert against_reference(variant, n, m, heads, dim, 2 * n + 7, seed=seed, pinv="ridge", decay=decay) < 1e-5


@settings(max_examples=4)
@given(n=st.integers(100, 300), m=st.integers(1, 6), seed=st.integers(0, 1000), decay=st.booleans())
def test_longer_windows(n, m, seed, decay):
    """With one tier or more, so that middles are summed from totals, too."""
    assert against_reference("co-fixed-single", n, m, 8, 4, 2 * n + 40, seed=seed, decay=decay) < 1e-5


@pytest.mark.parametrize(("n", "m", "r"), [(1500, 2, 1), (1000, 9, 1), (900, 3, 5), (64, 16, 16)])
@pytest.mark.parametrize("decay", [False, True])
def test_windows_with_several_tiers(n, m, r, decay):
    """Against `steps` in float64: the reference would take minutes."""
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(
        "co-fixed-single", embed_dim=12, num_heads=2, window=n, landmarks=m, update_size=r, pinv="ridge", decay=decay
    )
    attn = ns.MultiheadAttention(cfg).eval()
    attn.set_landmarks(torch.randn(2, m, 6), torch.randn(2, m, 6))
    pool = ns.StreamPool(attn)
    x, sid = 3 * torch.randn(1, 2 * n + 20 * r, 12), pool.open()
    groups = x[0].reshape(-1, *([r] if r > 1 else []), 12).numpy()
    y = np.stack([pool.push(sid, group) for group in groups]).reshape(-1, 12)
    with torch.no_grad():
        exact = attn.double().steps(x.double(), attn.init_state(1))[0][0].numpy()
    assert np.abs(y - exact).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("pinv", ["newton", "ridge", "none"])
def test_every_inverse(pinv):
    assert against_reference("co-cont-single", 12, 4, 4, 6, 40, pinv=pinv) < 1e-5


@pytest.mark.parametrize("variant", COMPILED)
def test_large_logits_come_and_go(variant):
    """With logits above a thousand, only the largest matters."""
    # A logit of 3,000 is rounded by 2e-4 in float32, which the exponential turns into a relative error.
    assert against_reference(variant, 30, 4, 4, 8, 100, scale=30.0, pinv="ridge") < 2e-3


def test_a_nan_inside_is_gone_after_a_window():
    """A pool does not accept NaN, but weights may produce one, which must leave with its token."""
    torch.manual_seed(0)
    cfg = ns.AttentionConfig("co-fixed-single", embed_dim=32, num_heads=8, window=50, landmarks=3)
    attn = ns.MultiheadAttention(cfg).eval()
    attn.set_landmarks(torch.randn(8, 3, 4), torch.randn(8, 3, 4))
    clean, spoiled = AttentionKernel(attn), AttentionKernel(attn)
    generator = np.random.default_rng(0)
    for t in range(170):
        token = [clean.lanes(generator.normal(size=32).astype(np.float32)) for _ in range(3)]
        expected = clean.step(*token)
        if t == 60:
            token = [np.full_like(x, np.nan) for x in token]
        y = spoiled.step(*token)
        assert np.isnan(y).all() == (60 <= t < 110)
        if not 60 <= t < 110:
            np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("r", [1, 2, 6])
def test_a_ring_holds_from_r_to_n_tokens_whatever_the_time(r):
    """Loops run over this number of slots without a check, so it must be inside the ring."""
    for time in range(0, 20, r):
        assert filled.py_func(time, r, 6) == min(time + r, 6)
    for time in (-1, -7, -(2**62), -(2**63)):
        assert filled.py_func(time, r, 6) == r
    for time in (2**53, 2**63 - 1):
        assert filled.py_func(time, r, 6) == 6

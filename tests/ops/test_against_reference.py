"""step, steps and forward against the float64 reference, at sizes and phases that hypothesis draws."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream import variants
from nystream.testing import reference_outputs, relative_error


@st.composite
def cases(draw, variant, pinvs=("newton", "exact", "ridge", "none")):
    r = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 17 // r) | st.sampled_from([1, 2, 3, 23 // r]))
    n = groups * r
    m = draw(st.integers(1, n) | st.sampled_from([1, n]))
    cfg = ns.AttentionConfig(
        variant,
        embed_dim=6,
        num_heads=2,
        window=n,
        landmarks=m,
        update_size=r,
        sums=draw(st.sampled_from([s for s in variants.get(variant).forms if s != "subtract"])),
        pinv=draw(st.sampled_from(pinvs)),
        pinv_iters=draw(st.integers(1, 6)),
        decay="decay" in variants.get(variant).options and draw(st.booleans()),
    )
    tokens = draw(st.integers(1, 3 * groups + 2)) * r
    first = draw(st.integers(0, tokens // r)) * r  # tokens that come one step at a time; the rest in one piece
    return cfg, tokens, first, draw(st.integers(0, 2**16))


def check(case, dtype, tolerance):
    cfg, tokens, first, seed = case
    torch.manual_seed(seed)
    attn = ns.MultiheadAttention(cfg, dtype=dtype).eval()
    if cfg.fixed:
        attn.set_landmarks(*(torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim) * 2).to(dtype))
    if cfg.decay:  # from hardly any to nine tenths per token
        attn.decay_logit.data.copy_(torch.rand(cfg.num_heads) * 8 - 6)
    x = torch.randn(2, tokens, cfg.embed_dim, dtype=dtype)
    with torch.no_grad():
        expected = reference_outputs(attn, x)
        state, r = attn.init_state(2), cfg.update_size
        for t in range(r, first + 1, r):
            y, state = attn.step(x[:, t - r : t], state)
            at = expected[:, t - r : t] if cfg.single else expected[:, t // r - 1]
            assert relative_error(y, at) < tolerance, f"step at {t}"
        if first < tokens:
            y, state = attn.steps(x[:, first:], state)
            at = expected[:, first:] if cfg.single else expected[:, -1]
            assert relative_error(y, at) < tolerance, "steps"
        if tokens <= cfg.window:
            at = expected[:, -r:] if cfg.single else expected[:, -1]
            assert relative_error(attn(x), at) < tolerance, "forward"


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_float64(variant):
    # 1e-9: rounding of 1e-16 times the condition of Γ, up to about 1e6 at these sizes.
    @given(cases(variant))
    def run(case):
        check(case, torch.float64, 1e-9)

    run()


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_float32(variant):
    # 1e-4: rounding of 6e-8 times what up to 6 Newton–Schulz iterations or a ridge of 0.1 amplify.
    @given(cases(variant, pinvs=("newton", "ridge", "none")))
    def run(case):
        check(case, torch.float32, 1e-4)

    run()

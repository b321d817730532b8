"""Huge logits and NaN have no effect on a stream after they have left the window."""

import pytest
import torch

import nystream as ns
from nystream import variants
from nystream.testing import relative_error


def plain(variant, n, m, dtype=torch.float32, **options):
    """An attention whose projections are the identity, so that tokens set the logits."""
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=n, landmarks=m, bias=False, **options)
    attn = ns.MultiheadAttention(cfg, dtype=dtype).eval()
    with torch.no_grad():
        for layer in (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj):
            layer.weight.copy_(torch.eye(8))
    if cfg.fixed:
        attn.set_landmarks(torch.randn(2, m, 4), torch.randn(2, m, 4))
    return attn


def outliers(attn, tokens, every, largest):
    """Ordinary tokens and keys, but every so often a key whose logits with the landmarks are up to `largest`."""
    x = torch.randn(1, tokens, 8)
    key = x.clone()
    at = torch.arange(every // 2, tokens, every)
    size = torch.logspace(1, 4, len(at)).clamp(max=largest)[torch.randperm(len(at))]
    direction = torch.randn(len(at), 8)
    if attn.config.fixed:
        # Along a landmark, so that the logit is exactly of that size, up or down.
        landmark = attn.q_tilde[:, torch.arange(len(at)) % attn.config.m].transpose(0, 1)  # [., H, D]
        unit = landmark / landmark.square().sum(-1, keepdim=True)
        sign = torch.where(torch.arange(len(at)) % 3 == 0, -1.0, 1.0)[:, None, None]
        direction = (unit * sign / attn.config.scale).flatten(1)
    key[0, at] = direction * size[:, None]
    return x, key


def in_float64(attn, x, key):
    """The outputs of `steps` in float64, which other tests compare with the reference."""
    double = ns.MultiheadAttention(attn.config, dtype=torch.float64).eval()
    double.load_state_dict(attn.state_dict())
    return double.steps(x.double(), double.init_state(1), key=key.double(), value=x.double())[0]


@pytest.mark.parametrize(
    ("variant", "sums", "total"),
    [
        ("co-fixed-single", "partials", 20_000),
        ("co-cont-single", "partials", 4_000),  # the same partials, renewed every six tokens
        ("co-fixed-single", "recompute", 2_000),  # which keep nothing but the rings
        ("co-cont-single", "recompute", 2_000),
    ],
)
def test_many_tokens_with_logits_up_to_1e4(variant, sums, total):
    n, m = 24, 4
    attn = plain(variant, n, m, sums=sums)
    x, key = outliers(attn, total, every=97, largest=1e4)
    with torch.no_grad():
        expected = in_float64(attn, x, key)
        state, outs = attn.init_state(1), []
        for t in range(total):
            y, state = attn.step(x[:, t], state, key=key[:, t], value=x[:, t], inplace=True)
            outs.append(y)
        steps, _ = attn.steps(x, attn.init_state(1), key=key, value=x)
    # Relative to the largest output. A logit that cancels to nothing out of terms of 1e4 is known to 6e-4 in float32,
    # whatever is done with it afterwards: single small outputs may be off by that much of their own size.
    assert relative_error(torch.stack(outs, 1), expected) < 1e-4
    assert relative_error(steps, expected) < 1e-4


def test_the_rows_of_full_attention_recover_from_outliers():
    # co-full-retro subtracts, so it computes a row from scratch when its sum has become small.
    n, total = 24, 2_000
    attn = plain("co-full-retro", n, None)
    x, key = outliers(attn, total, every=61, largest=1e4)
    with torch.no_grad():
        state, worst = attn.init_state(1), 0.0
        for t in range(total):
            y, state = attn.step(x[:, t], state, key=key[:, t], value=x[:, t], inplace=True)
            if t >= n and t % 5 == 0:
                now = slice(t + 1 - n, t + 1)
                expected = attn.double()(x[:, now].double(), key=key[:, now].double(), value=x[:, now].double())
                attn.float()
                worst = max(worst, relative_error(y, expected))
    assert worst < 1e-4


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if not variants.get(v).plain])
def test_a_token_that_is_not_finite_is_gone_when_it_has_left(variant, bad):
    n, m, at, total = 10, 3, 17, 60
    for sums in ("auto", "partials") if variants.get(variant).low_rank else ("auto",):
        attn = plain(variant, n, m, torch.float64, sums=sums)
        x = torch.randn(2, total, 8, dtype=torch.float64)
        spoiled = x.clone()
        spoiled[0, at] = bad
        with torch.no_grad():
            clean, dirty = attn.init_state(2), attn.init_state(2)
            for t in range(total):
                expected, clean = attn.step(x[:, t], clean)
                y, dirty = attn.step(spoiled[:, t], dirty)
                assert relative_error(y[1], expected[1]) < 1e-9, "the neighbour does not notice"
                if t < at or t >= at + attn.receptive_field:
                    assert relative_error(y[0], expected[0]) < 1e-9, t
                elif t < at + n:
                    assert not y[0].isfinite().all(), t
            for cut in (at, at + 1, at + 4, total):
                early, state = attn.steps(spoiled[:, :cut], attn.init_state(2))
                late, _ = attn.steps(spoiled[:, cut:], state) if cut < total else (early[:, total:], state)
                if attn.config.single:
                    whole = torch.cat([early, late], 1)
                    gone = at + attn.receptive_field
                    good, _ = attn.steps(x, attn.init_state(2))
                    assert relative_error(whole[0, :at], good[0, :at]) < 1e-9
                    assert relative_error(whole[0, gone:], good[0, gone:]) < 1e-9
                    assert whole[0, at : at + n].isnan().any(-1).all()
                    assert relative_error(whole[1], good[1]) < 1e-9
                elif cut < total:
                    assert relative_error(late, attn.steps(x, attn.init_state(2))[0]) < 1e-9

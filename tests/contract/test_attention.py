"""The contract suite on every variant, form of the window, inverse, group size and dtype."""

import pytest
import torch

import nystream as ns
from nystream import testing, variants
from nystream.ops import parallel


def build(variant, window, landmarks, dtype=torch.float64, **options):
    torch.manual_seed(1)
    cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=window, landmarks=landmarks, **options)
    attn = ns.MultiheadAttention(cfg, dtype=dtype).eval()
    if cfg.fixed:
        attn.set_landmarks(torch.randn(2, landmarks, 4), torch.randn(2, landmarks, 4))
    return attn


FORMS = [(v, s) for v in ns.VARIANTS for s in variants.get(v).forms if s != "auto"] + [("co-full-retro", "auto")]

# (window, landmarks, update_size): one token, segments of two sizes, of one token, and of one size.
SIZES = ((1, 1, 1), (7, 3, 1), (8, 8, 2), (20, 4, 1))


@pytest.mark.parametrize(("variant", "sums"), FORMS)
@pytest.mark.parametrize(
    ("window", "landmarks", "update_size"),
    [(12, 5, 3), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in SIZES)],
)
def test_every_form(variant, sums, window, landmarks, update_size):
    testing.check_stream_module(build(variant, window, landmarks, sums=sums, update_size=update_size))


@pytest.mark.parametrize("pinv", ["newton", "exact", "ridge", "none"])
@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if variants.get(v).low_rank])
def test_every_inverse(variant, pinv):
    testing.check_stream_module(build(variant, 10, 3, pinv=pinv))


# In float32: solved or iterated there, these would be off by far more than the tolerance, or raise.
@pytest.mark.slow
@pytest.mark.parametrize("options", [{"pinv": "ridge", "pinv_ridge": 1e-4}, {"pinv": "newton", "pinv_iters": 14}])
@pytest.mark.parametrize("variant", ["nystrom", "co-cont-single", "co-cont-retro"])
def test_inverses_that_amplify(variant, options):
    testing.check_stream_module(build(variant, 32, 16, torch.float32, **options), gradients=False)


@pytest.mark.parametrize(
    ("variant", "sums"), [(v, s) for v, s in FORMS if "decay" in variants.get(v).options and s != "subtract"]
)
def test_decay(variant, sums):
    testing.check_stream_module(build(variant, 12, 5, sums=sums, update_size=3, decay=True))


@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if variants.get(v).fixed])
def test_landmarks_that_are_learned(variant):
    attn = build(variant, 10, 3)
    attn.learn_landmarks()
    testing.check_stream_module(attn, gradients=False)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_every_dtype(variant, dtype):
    # Gradients in half precision are torch's business: what is ours is tested in float64.
    testing.check_stream_module(build(variant, 12, 3, dtype), gradients=dtype == torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "decay"), [("co-fixed-single", True), ("co-cont-single", False)])
def test_a_window_of_many_segments(variant, decay):
    testing.check_stream_module(build(variant, 101, 7, sums="partials", decay=decay), tokens=330, gradients=False)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["co-full-single", "co-cont-single", "co-fixed-single"])
def test_pieces_that_take_turns(variant, monkeypatch):
    # Long pieces form their intermediate numbers some at a time; here, as few as can be.
    monkeypatch.setattr(parallel, "AT_ONCE", 1)
    testing.check_stream_module(build(variant, 30, 4), gradients=False)

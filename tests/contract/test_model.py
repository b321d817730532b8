"""The contract suite on models and encoders: every variant, 1 to 3 blocks, both stacks, mixed families and windows."""

from itertools import cycle

import pytest
import torch

import nystream as ns
from nystream import testing, variants
from nystream.ops import parallel

SINGLE = tuple(v for v in ns.VARIANTS if variants.get(v).single)

# (window, landmarks, update_size): segments of one size, of two sizes, and tokens that come in pairs.
SIZES = ((4, 2, 1), (5, 3, 1), (6, 4, 2))
POSITIONS = ("learned", "sinusoidal", "none")

# Every variant with every depth that it supports. Norms, positions and sizes take turns so that every two choices meet.
GRID = [
    (variant, layers, ("pre", "post")[(i + layers) % 2], POSITIONS[(i + layers) % 3], SIZES[(i + 2 * layers) % 3])
    for layers in (1, 2, 3)
    for i, variant in enumerate(ns.VARIANTS)
    if layers == 1 or variants.get(variant).roles is not None
]


def attention(variant, window=5, landmarks=3, update_size=1, **options):
    return ns.AttentionConfig(
        variant,
        embed_dim=4,
        num_heads=2,
        window=window,
        landmarks=landmarks,
        update_size=update_size,
        **options,
    )


def ready(module):
    """In eval mode, with landmarks."""
    for part in module.modules():
        if isinstance(part, ns.MultiheadAttention) and part.config.fixed:
            shape = (part.config.num_heads, part.config.m, part.config.head_dim)
            part.set_landmarks(torch.randn(shape), torch.randn(shape))
    return module.eval()


def model(attention, dtype=torch.float64, **options):
    torch.manual_seed(1)
    options = {"stack": "paper", **options}
    cfg = ns.ModelConfig(input_dim=3, output_dim=2, attention=attention, ff_dim=6, **options)
    made = ns.StreamModel(cfg, dtype=dtype)
    if cfg.linear is not None:
        torch.nn.init.normal_(made.linear.weight)  # it would be zero
    return ready(made)


def encoder(attention, dtype=torch.float64, **options):
    torch.manual_seed(1)
    cfg = ns.EncoderConfig(attention=attention, ff_dim=6, **{"stack": "paper", **options})
    return ready(ns.StreamEncoder(cfg, dtype=dtype))


def check(module, **options):
    cfg = module.config
    # Three windows and a bit, as few as the checks can do with: what they cost grows with the square of it.
    tokens = 3 * cfg.window + 2 * cfg.update_size
    testing.check_stream_module(module, tokens=tokens, **options)


@pytest.mark.parametrize(("variant", "layers", "norm", "positions", "sizes"), GRID)
def test_every_variant_and_depth(variant, layers, norm, positions, sizes):
    # Gradients of the paper's stacks are those of a loop over `step`, which the deepest need not show again.
    check(model(attention(variant, *sizes), layers=layers, norm=norm, positions=positions), gradients=layers < 3)


@pytest.mark.parametrize(
    ("variant", "norm", "sizes"), list(zip(SINGLE, cycle(("post", "pre", "post")), cycle(SIZES), strict=False))
)
def test_deep_stacks(variant, norm, sizes):
    check(model(attention(variant, *sizes), layers=3, norm=norm, stack="deep"), gradients=variant == "co-cont-single")


@pytest.mark.parametrize(
    "variants",
    [
        ("co-fixed-single", "co-cont-single"),
        ("co-cont-retro", "full", "co-fixed-single"),
        ("nystrom", "co-full-single"),
        ("co-full-retro", "co-cont-single", "nystrom-fixed"),
    ],
)
def test_families_mix_in_one_stack(variants):
    configs = [attention(variant, landmarks=2 + place) for place, variant in enumerate(variants)]
    check(model(configs, norm="post" if len(variants) == 2 else "pre", num_positions=4), gradients=len(variants) == 2)


@pytest.mark.parametrize("update_size", [1, 2])
def test_every_block_of_a_deep_stack_has_its_own_window(update_size):
    r = update_size
    blocks = (
        attention("co-cont-single", 3 * r, 2, r),
        attention("co-full-single", r, None, r),
        attention("co-fixed-single", 4 * r, 3, r, sums="partials"),
    )
    check(model(blocks, stack="deep", num_positions=7))


@pytest.mark.parametrize(
    ("variant", "layers", "options"),
    [
        ("full", 2, {"norm": "post", "final_norm": False, "activation": "relu"}),
        ("nystrom", 1, {"final_norm": False}),
        ("nystrom-fixed", 2, {}),
        ("co-full-single", 2, {"stack": "deep", "final_norm": False}),
        ("co-cont-retro", 2, {"activation": "relu"}),
        ("co-fixed-single", 1, {"norm": "post"}),
    ],
)
def test_encoders(variant, layers, options):
    check(encoder(attention(variant, 6, 4, 2), layers=layers, **options))


@pytest.mark.parametrize(
    ("variant", "stack"), [("co-cont-single", "paper"), ("co-fixed-single", "deep"), ("full", "paper")]
)
def test_float32(variant, stack):
    check(model(attention(variant), torch.float32, layers=2, stack=stack))


@pytest.mark.parametrize(("variant", "stack"), [("co-full-single", "paper"), ("co-fixed-single", "deep")])
def test_bfloat16(variant, stack):
    # Gradients in half precision are torch's business.
    check(model(attention(variant, pinv="ridge"), torch.bfloat16, layers=2, stack=stack), gradients=False)


@pytest.mark.parametrize("variant", ["full", "co-cont-single", "co-fixed-single"])
def test_windows_that_take_turns(variant, monkeypatch):
    # A long piece goes through the blocks some windows at a time; here, one by one.
    monkeypatch.setattr(parallel, "AT_ONCE", 1)
    check(model(attention(variant, 4, 2, 2), layers=2), gradients=False)


# Segments that fill the window, or go beyond what a deep stack reads; every variant, stack and dtype.
@pytest.mark.parametrize("variant", ns.VARIANTS)
@pytest.mark.parametrize("linear", [ns.LinearConfig(segments=(1, 1, 3), inputs=2), ns.LinearConfig(embedded=True)])
def test_a_linear_path(variant, linear):
    check(model(attention(variant), layers=1 if linear.embedded else 2, linear=linear), gradients=linear.tokens > 1)


@pytest.mark.parametrize("variant", SINGLE)
@pytest.mark.parametrize("segments", [(1,), 3, (1, 2, 2, 4), (1, 1, 6, 9)])
@pytest.mark.parametrize("embedded", [False, True])
def test_a_linear_path_of_a_deep_stack(variant, segments, embedded):
    linear = ns.LinearConfig(segments=segments, inputs=2, embedded=embedded)
    gradients = variant == "co-fixed-single" and len(linear.lengths) == 4
    check(model(attention(variant, 4, 2), layers=2, stack="deep", linear=linear), gradients=gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_linear_path_in_every_dtype(dtype):
    linear = ns.LinearConfig(segments=(1, 2, 4), embedded=True)
    made = model(attention("co-fixed-single", pinv="ridge"), dtype, layers=2, stack="deep", linear=linear)
    check(made, gradients=dtype == torch.float32)

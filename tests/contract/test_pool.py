"""The contract suite on pools: every variant, both stacks, groups, dtypes, encoders and attentions alone."""

import pytest
import torch

import nystream as ns
from nystream import testing, variants

SINGLE = tuple(v for v in ns.VARIANTS if variants.get(v).single)

# (window, landmarks, update_size, num_heads): segments of two sizes, of one size, tokens that come in pairs, and one of
# everything. Small, because every step takes each stream through a snapshot and back.
SIZES = ((3, 2, 1, 2), (4, 2, 1, 2), (4, 3, 2, 2), (3, 1, 1, 1))
ALONE = [*zip(SINGLE, SIZES, strict=False), *((variant, SIZES[3]) for variant in SINGLE)]


def attention(variant, window=3, landmarks=2, update_size=1, num_heads=2, **options):
    options = {"embed_dim": 4, "num_heads": num_heads, "window": window, "landmarks": landmarks, **options}
    return ns.AttentionConfig(variant, update_size=update_size, **options)


def ready(module):
    for part in module.modules():
        if isinstance(part, ns.MultiheadAttention) and part.config.fixed:
            shape = (part.config.num_heads, part.config.m, part.config.head_dim)
            part.set_landmarks(torch.randn(shape), torch.randn(shape))
    return module


def model(attention, dtype=torch.float64, **options):
    cfg = ns.ModelConfig(input_dim=3, output_dim=2, attention=attention, ff_dim=6, **options)
    made = ns.StreamModel(cfg, dtype=dtype)
    if cfg.linear is not None:
        torch.nn.init.normal_(made.linear.weight)  # it would be zero
    return ready(made)


def check(module, backend="torch", tolerance=None):
    # Three windows, as few as the checks can do with: what they cost grows with the square of it.
    testing.check_stream_pool(module, backend, tolerance, tokens=3 * module.config.window)


@pytest.mark.parametrize(("variant", "sizes"), [(v, SIZES[i % 4]) for i, v in enumerate(ns.VARIANTS)])
def test_every_variant(variant, sizes):
    check(model(attention(variant, *sizes)))


@pytest.mark.parametrize("variant", ["co-full-single", "co-cont-single", "co-fixed-single"])
def test_paper_stacks(variant):
    check(model(attention(variant), layers=2, stack="paper", norm="post"))


@pytest.mark.parametrize("variant", SINGLE)
def test_deep_stacks(variant):
    check(
        model(attention(variant, sums="partials" if variants.get(variant).low_rank else "auto"), layers=2, stack="deep")
    )


@pytest.mark.parametrize("variant", [v for v in SINGLE if "decay" in variants.get(v).options])
def test_decay(variant):
    check(model(attention(variant, 7, 3, decay=True), layers=2, stack="deep", positions="none"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_dtype(dtype):
    check(model(attention("co-fixed-single", pinv="ridge"), dtype))


# Inverses that amplify: float32 keeps Γ† to about 1e-8 / λ, and to 6e-8 · 3.25^(iterations / 2).
@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("options", [{"pinv": "ridge", "pinv_ridge": 1e-4}, {"pinv": "newton", "pinv_iters": 12}])
def test_rows_without_news(options, backend):
    check(model(attention("co-cont-single", 6, 3, **options), torch.float32), backend)


def test_an_encoder_from_torch():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    check(ns.from_torch(encoder, variant="co-full-single", window=3))


@pytest.mark.parametrize(("variant", "sizes"), ALONE)
def test_attention_alone(variant, sizes):
    check(ready(ns.MultiheadAttention(attention(variant, *sizes), dtype=torch.float64)))


@pytest.mark.parametrize("variant", SINGLE)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("layers", [1, 2])
def test_compiled(variant, sizes, layers):
    check(model(attention(variant, *sizes), torch.float32, layers=layers, stack="deep"), "numba", 1e-5)


def test_a_compiled_encoder_from_torch():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    check(ns.from_torch(encoder, variant="co-full-single", window=3), "numba", 1e-5)


@pytest.mark.parametrize(("variant", "sizes"), ALONE)
def test_compiled_attention_alone(variant, sizes):
    check(ready(ns.MultiheadAttention(attention(variant, *sizes))), "numba", 1e-5)


# Single tokens, means, both, rings that are shorter and longer than three windows; all numbers of a token, or some.
PATHS = [
    ns.LinearConfig(),
    ns.LinearConfig(segments=4, inputs=1),
    ns.LinearConfig(segments=(1, 2, 2, 3), embedded=True),
    ns.LinearConfig(segments=(1, 1, 1, 3, 1, 1, 9), inputs=2, embedded=True),
]


@pytest.mark.parametrize("linear", PATHS)
def test_a_linear_path(linear):
    check(model(attention("co-fixed-single"), layers=2, stack="deep", linear=linear))


@pytest.mark.parametrize("variant", ["full", "co-cont-single"])
def test_a_linear_path_of_a_paper_stack(variant):
    check(model(attention(variant), layers=2, stack="paper", linear=ns.LinearConfig(segments=(1, 2))))


@pytest.mark.parametrize("variant", SINGLE)
@pytest.mark.parametrize("linear", PATHS)
def test_a_compiled_linear_path(variant, linear):
    check(model(attention(variant), torch.float32, stack="deep", linear=linear), "numba", 1e-5)

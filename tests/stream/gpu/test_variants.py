"""Every variant and option through the kernels, streams at mixed phases, against float64."""

import importlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns

VARIANTS = ("co-fixed-single", "co-cont-single", "co-full-single")
LATE = (0, 3)

CASES = {
    "edges alone": {"window": 3, "landmarks": 2},
    "a middle": {"window": 8},
    "a short last block": {"window": 9, "landmarks": 4},
    "one of everything": {"window": 1, "landmarks": 1, "num_heads": 1, "embed_dim": 1},
    "decay": {"window": 6, "decay": True},
    "groups": {"window": 8, "update_size": 2, "num_heads": 1},
    "groups and decay": {"window": 9, "update_size": 3, "landmarks": 4, "decay": True},
    "two blocks": {"window": 5, "layers": 2, "norm": "post"},
    "a linear path": {"window": 4, "linear": ns.LinearConfig(segments=(1, 2, 2), embedded=True)},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_variant(variant, case, shaped, agree, tokens):
    model = shaped(variant, **case)
    r, n = model.config.update_size, model.config.window
    shape = (len(LATE), 2 * n // r + 2, *([r] if r > 1 else []), 5)
    agree(ns.StreamPool(model, 4, backend="triton"), model, tokens(*shape), LATE)


TOTALS = {
    "totals": {"window": 24, "landmarks": 2},
    "a short last block": {"window": 26, "landmarks": 2, "decay": True},
    "groups": {"window": 32, "landmarks": 1, "update_size": 2},
    "many landmarks": {"window": 20, "landmarks": 18, "embed_dim": 6},
    "tensor cores": {"window": 20, "landmarks": 16, "embed_dim": 64, "num_heads": 1},
    "a wide head": {"window": 12, "landmarks": 2, "embed_dim": 160, "num_heads": 1},
    "programs that share a head": {"window": 20, "landmarks": 6, "embed_dim": 36},
    "two strips of a product": {"window": 20, "landmarks": 9, "embed_dim": 100, "num_heads": 1},
    "one head of three dimensions": {"window": 20, "landmarks": 3, "embed_dim": 3, "num_heads": 1},
}


@pytest.mark.parametrize("case", TOTALS.values(), ids=TOTALS)
def test_long_windows(case, shaped, agree, tokens):
    model = shaped(**case)
    r, n = model.config.update_size, model.config.window
    shape = (len(LATE), n // r * 7 // 4, *([r] if r > 1 else []), 5)
    agree(ns.StreamPool(model, 4, backend="triton"), model, tokens(*shape), LATE)


@pytest.mark.parametrize("last", [False, True])
def test_lanes_of_older_and_newer_versions(last, shaped, agree, tokens, monkeypatch):
    memory = importlib.import_module("nystream.stream.gpu.kernels.memory")
    monkeypatch.setattr(memory, "LAST", type(memory.LAST)(last))
    model = shaped(**TOTALS["a short last block"])
    agree(ns.StreamPool(model, 4, backend="triton"), model, tokens(len(LATE), 45, 5), LATE)


@pytest.mark.parametrize(("landmarks", "dim"), [(2, 8), (5, 10), (17, 8)])
def test_a_long_window_of_continual_landmarks(landmarks, dim, shaped, agree, tokens):
    model = shaped("co-cont-single", window=24, landmarks=landmarks, embed_dim=dim, num_heads=1, decay=True)
    agree(ns.StreamPool(model, 4, backend="triton"), model, tokens(2, 36, 5), (0, 3))


@pytest.mark.parametrize("options", [{"pinv": "newton"}, {"pinv": "newton", "pinv_iters": 12}, {"pinv": "none"}])
def test_inverses(options, shaped, agree, tokens):
    model = shaped("co-cont-single", window=5, num_heads=1, **options)
    agree(ns.StreamPool(model, 4, backend="triton"), model, tokens(2, 9, 5), LATE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_attentions_and_encoders_alone(variant, shaped, tokens):
    model = shaped(variant, layers=2, window=4)
    x = torch.from_numpy(tokens(1, 9, 8))
    for module in (model.encoder, model.encoder.blocks[0].attention):
        pool = ns.StreamPool(module, 2, backend="triton")
        sid = pool.open()
        with torch.no_grad():
            expected = module.steps(x, module.init_state(1))[0][0]
        np.testing.assert_allclose([pool.push(sid, token) for token in x[0]], expected, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_outliers_leave_no_trace(variant, shaped, agree, tokens):
    """Logits of ±100 in the first half, which have left the window in the end."""
    model = shaped(variant, window=10, landmarks=2)
    with torch.no_grad():
        model.encoder.blocks[0].attention.k_proj.weight *= 20
    x = tokens(2, 26, 5)
    x[:, 13:] *= 0.05
    agree(ns.StreamPool(model, 4, backend="triton"), model, x, LATE, 2e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rings_in_bfloat16(variant, shaped, agree, tokens):
    model = shaped(variant, window=8)
    pool = ns.StreamPool(model, 4, backend="triton", ring_dtype="bfloat16")
    agree(pool, model, tokens(2, 20, 5), LATE, 0.01)
    assert pool.ring_dtype == "bfloat16"
    assert ns.StreamPool(model, 4, backend="triton").ring_dtype == "float32"


@pytest.mark.usefixtures("products_of_bfloat16")
def test_products_of_bfloat16(shaped, agree, tokens):
    """Where values are bfloat16 numbers, products with them have almost the digits of float32."""
    attention = shaped(window=17, landmarks=16, num_heads=1).encoder.blocks[0].attention
    with torch.no_grad():
        attention.v_proj.weight.copy_(torch.eye(8))
        attention.v_proj.bias.zero_()
    x = torch.from_numpy(tokens(2, 26, 8)).bfloat16().float().numpy()
    agree(ns.StreamPool(attention, 4, backend="triton", ring_dtype="bfloat16"), attention, x, LATE, 1e-4)


def test_rings_in_bfloat16_take_half_the_memory(shaped):
    model = shaped("co-full-single", window=8)
    wide, narrow = (ns.StreamPool(model, 4, "triton", ring_dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert wide.bytes_per_stream - narrow.bytes_per_stream == 2 * 2 * 8 * 8


@pytest.mark.usefixtures("products_of_bfloat16")
@pytest.mark.parametrize("variant", VARIANTS)
def test_bfloat16_models(variant, shaped, agree, tokens):
    model = shaped(variant, torch.bfloat16, window=5)
    pool = ns.StreamPool(model, 4, backend="triton")
    agree(pool, model, tokens(2, 12, 5), (0, 3), 0.1)
    assert pool.ring_dtype == pool.weights == "bfloat16"


@settings(max_examples=8)
@given(st.data())
def test_any_size(shaped, agree, data):
    heads, r = data.draw(st.integers(1, 2), "heads"), data.draw(st.sampled_from([1, 2]), "update_size")
    n = r * data.draw(st.integers(1, 8 // r), "groups")
    options = {
        "embed_dim": heads * data.draw(st.integers(1, 5), "head_dim"),
        "num_heads": heads,
        "window": n,
        "landmarks": data.draw(st.integers(1, n), "landmarks"),
        "update_size": r,
        "decay": data.draw(st.booleans(), "decay"),
        "bias": data.draw(st.booleans(), "bias"),
    }
    model = shaped(data.draw(st.sampled_from(VARIANTS), "variant"), **options)
    late = data.draw(st.lists(st.integers(0, 3), max_size=2), "late")
    late = [0, *late]
    shape = (len(late), 2 * n // r + 1, *([r] if r > 1 else []), 5)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    agree(ns.StreamPool(model, 1, backend="triton"), model, x, late)


@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single"])
def test_sums_are_float32_whatever_the_default_dtype_is(variant, shaped, agree, tokens):
    model, x = shaped(variant, window=9, landmarks=2, num_heads=1), tokens(2, 20, 5)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        pool = ns.StreamPool(model, 4, backend="triton")
        pool.push(pool.open(), x[0, 0])
    finally:
        torch.set_default_dtype(default)
    leaves = pool._backend._streams.attentions[0].leaves
    assert {leaf.dtype for leaf in leaves.values()} == {torch.float32}
    agree(pool, model, x, LATE)

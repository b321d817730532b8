"""Pools with rings in bfloat16: half the memory of keys and values, and outputs close to those with float32."""

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.stream.cpu.pack import packed

# Largest error relative to the largest output. Rounding to bfloat16 is off by up to 2⁻⁹ = 0.2 %, and so is a weighted
# mean of rounded values; rounded keys change the weights, too, and two blocks add up.
TOLERANCE = 0.01


def attention(variant="co-fixed-single", **options):
    torch.manual_seed(0)
    sizes = {"embed_dim": 24, "num_heads": 3, "window": 40, "landmarks": 5} | options
    landmarks = None if variant == "co-full-single" else sizes["landmarks"]
    attn = ns.MultiheadAttention(ns.AttentionConfig(variant, pinv="ridge", **sizes | {"landmarks": landmarks})).eval()
    if attn.config.fixed:
        shape = (attn.config.num_heads, landmarks, attn.config.head_dim)
        attn.set_landmarks(torch.randn(shape), torch.randn(shape))
    return attn


def outputs(pool, x):
    sid = pool.open()
    return np.stack([pool.push(sid, token) for token in x])


@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single", "co-full-single"])
@pytest.mark.parametrize("update_size", [1, 4])
def test_outputs_are_close_and_rings_take_half_the_memory(variant, update_size, tokens):
    attn = attention(variant, update_size=update_size)
    x = tokens(100, 24) if update_size == 1 else tokens(25, update_size, 24)
    wide, narrow = (ns.StreamPool(attn, ring_dtype=dtype) for dtype in ("float32", "bfloat16"))
    expected = outputs(wide, x)
    error = np.abs(outputs(narrow, x) - expected).max() / np.abs(expected).max()
    assert 1e-5 < error < TOLERANCE
    rings = (1 if variant == "co-fixed-single" else 2) * 40 * 24
    assert wide.bytes_per_stream - narrow.bytes_per_stream == 2 * rings
    assert (wide.ring_dtype, narrow.ring_dtype) == ("float32", "bfloat16")
    assert "ring_dtype='bfloat16'" in repr(narrow)


def test_values_that_bfloat16_can_represent_lose_nothing(tokens):
    attn = attention()
    with torch.no_grad():
        attn.v_proj.weight.copy_(torch.eye(24))
        attn.v_proj.bias.zero_()
    x = torch.from_numpy(tokens(90, 24)).bfloat16().float().numpy()
    a, b = (outputs(ns.StreamPool(attn, ring_dtype=dtype), x) for dtype in ("float32", "bfloat16"))
    np.testing.assert_array_equal(a, b)


def test_several_streams_give_the_same_bits_as_one(tokens):
    pool = ns.StreamPool(attention(), ring_dtype="bfloat16", weights="int8")
    x = tokens(60, 5, 24)
    alone = np.stack([outputs(pool, x[:, k]) for k in range(5)], 1)
    ids = [pool.open() for _ in range(5)]
    np.testing.assert_array_equal(np.stack([pool.push_many(ids, row) for row in x]), alone)


@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single", "co-full-single"])
def test_snapshots_move_between_rings(variant, tokens):
    attn, x = attention(variant), tokens(120, 24)
    wide, narrow = (ns.StreamPool(attn, ring_dtype=dtype) for dtype in ("float32", "bfloat16"))
    sid = narrow.open()
    for token in x[:70]:
        narrow.push(sid, token)
    blob = narrow.snapshot(sid)
    again, elsewhere = narrow.restore(blob), wide.restore(blob)
    for token in x[70:]:
        y = narrow.push(sid, token)
        # Everything else is computed from the rings again, in another order.
        np.testing.assert_allclose(narrow.push(again, token), y, rtol=0, atol=1e-5)
        np.testing.assert_allclose(wide.push(elsewhere, token), y, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("ring_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("variant", ["co-fixed-single", "co-full-single"])
def test_a_restored_stream_continues_with_the_same_bits(variant, ring_dtype, tokens):
    attn, x = attention(variant, window=130, landmarks=8, decay=True), tokens(400, 24)
    pool = ns.StreamPool(attn, ring_dtype=ring_dtype)
    sid, other = pool.open(), pool.open()
    for t, token in enumerate(x):
        if t % 37 == 26:
            other = pool.restore(pool.snapshot(sid))
        np.testing.assert_array_equal(pool.push(other, token), pool.push(sid, token))


@pytest.mark.parametrize(
    ("sizes", "wide", "narrow"),
    [((120, 192, 16, 4), 150_000, 110_000), ((64, 1024, 8, 16), 450_000, 300_000)],
    ids=["GTZAN", "THUMOS14"],
)
def test_a_stream_is_small(sizes, wide, narrow):
    n, d, heads, m = sizes
    attn = attention(embed_dim=d, num_heads=heads, window=n, landmarks=m)
    assert 4 * packed(attn).plan.state_size <= wide
    assert 4 * packed(attn, rings="bfloat16").plan.state_size <= narrow


def test_what_cannot_be_done_says_so():
    with pytest.raises(
        ValueError, match=r"ring_dtype='float16' does not exist; it must be one of 'float32', 'bfloat16'"
    ):
        ns.StreamPool(attention(), ring_dtype="float16")
    with pytest.raises(ValueError, match=r"ring_dtype='bfloat16' needs a compiled backend.*use backend='numba'"):
        ns.StreamPool(attention(), backend="torch", ring_dtype="bfloat16")
    with pytest.raises(ValueError, match=r"ring_dtype='bfloat16' needs a compiled backend.*float64"):
        ns.StreamPool(attention().double(), ring_dtype="bfloat16")

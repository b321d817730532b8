"""The memory of a stream equals the documented formula, to the byte."""

import itertools

import pytest
import torch

import nystream as ns
from nystream import variants
from nystream.stream.cpu.pack import packed

# (window, landmarks, update_size)
SIZES = ((1, 1, 1), (120, 4, 1), (64, 16, 4), (301, 7, 1))
DTYPES = (torch.float32, torch.bfloat16, torch.float64)


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_bytes_of_a_state(variant):
    grid = itertools.product(SIZES, DTYPES, variants.get(variant).forms)
    for (window, landmarks, update_size), dtype, sums in grid:
        cfg = ns.AttentionConfig(variant, 24, 4, window, landmarks, update_size=update_size, sums=sums)
        attn = ns.MultiheadAttention(cfg, dtype=dtype)
        expected = ns.costs.state_bytes(
            variant,
            window,
            24,
            landmarks,
            4,
            update_size=update_size,
            form=cfg.form,
            token_bytes=dtype.itemsize,
            sum_bytes=max(dtype.itemsize, 4),
        )
        assert ns.state.nbytes(attn.init_state(1)) == expected, (cfg, dtype)
        assert ns.state.nbytes(attn.init_state(3)) == 3 * expected, (cfg, dtype)


def test_memory_grows_with_the_window_though_work_does_not():
    short, long = (ns.costs.state_bytes("co-fixed-single", n, 512, 16, 8, form="partials") for n in (1024, 16384))
    assert 15 < long / short < 17  # n (m h + d) for what will leave the window, and totals in proportion
    assert ns.costs.flops("co-fixed-single", 1024, 512, 16) == ns.costs.flops("co-fixed-single", 16384, 512, 16)


@pytest.mark.parametrize(("width", "heads"), [(192, 16), (24, 4), (24, 3), (30, 6), (7, 1), (256, 8), (512, 8)])
@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if variants.get(v).single])
def test_bytes_of_a_stream_in_a_compiled_pool(variant, width, heads):
    for window, landmarks, update_size in SIZES:
        cfg = ns.AttentionConfig(variant, width, heads, window, landmarks, update_size=update_size)
        attn = ns.MultiheadAttention(cfg)
        if cfg.fixed:
            attn.set_landmarks(*torch.randn(2, heads, landmarks, width // heads))
        for dtype in ("float32", "bfloat16"):
            expected = ns.costs.pool_bytes(
                variant, window, width, landmarks, heads, update_size=update_size, ring_dtype=dtype
            )
            assert 4 * packed(attn, rings=dtype).plan.state_size == expected, (cfg, dtype)
        assert ns.StreamPool(attn, 1, "numba", ring_dtype="bfloat16").bytes_per_stream == expected, cfg


@pytest.mark.parametrize(
    ("sizes", "step", "wide", "narrow"),
    [((120, 192, 4, 16), 122_888, 146_496, 100_416), ((64, 1024, 16, 8), 294_920, 373_824, 242_752)],
    ids=["GTZAN", "THUMOS14"],
)
def test_the_sizes_of_the_paper(sizes, step, wide, narrow):
    """`model.step` keeps no partial sums for such short windows."""
    assert ns.costs.state_bytes("co-fixed-single", *sizes) == step
    assert ns.costs.pool_bytes("co-fixed-single", *sizes) == wide
    assert ns.costs.pool_bytes("co-fixed-single", *sizes, ring_dtype="bfloat16") == narrow


def test_a_compiled_pool_keeps_what_the_formula_says():
    """At the paper's sizes it is the formula, without the identity but with the weights of the edges."""
    for n, d, m, heads, edges in ((120, 192, 4, 16, 8), (16384, 512, 16, 8, 16)):
        formula = ns.costs.state_bytes("co-fixed-single", n, d, m, heads, form="partials")
        formula += 4 * (edges * m * heads - m * (d + 2 * heads))
        formula += 64 * n if d % 256 == 0 else 0  # rows that are a multiple of 1 kB apart
        assert 0 <= ns.costs.pool_bytes("co-fixed-single", n, d, m, heads) - formula < 6 * 64


def test_totals_take_less_memory_than_half_of_the_rings():
    for n, m in itertools.product((60, 200, 1000, 10_000), (1, 2, 4, 8, 16, 32)):
        states = [ns.costs.state_bytes("co-fixed-single", n, 64, m, 8, form=form) for form in ("recompute", "partials")]
        two = 2 * 4 * m * (64 + 2 * 8)  # the identity and the middle
        assert states[1] - two < 1.5 * states[0], (n, m)


def test_only_kernels_have_a_pool():
    with pytest.raises(ValueError, match="'full' has no kernel"):
        ns.costs.pool_bytes("full", 10, 8)
    with pytest.raises(ValueError, match="ring_dtype must be one of float32, bfloat16, got 'float16'"):
        ns.costs.pool_bytes("co-full-single", 10, 8, ring_dtype="float16")

"""The kernels access memory by address, and must not read or write outside their own."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream import variants
from nystream.stream.backends import numba as backend
from nystream.stream.cpu import alone, pack

SINGLE = tuple(v for v in ns.VARIANTS if variants.get(v).single)
GUARD = 256  # bytes on either side, more than a panel
MARK = 0xFF  # four of these bytes are a NaN, so that reads outside are noticed, too


@pytest.fixture(scope="module")
def guards():
    """Put all memory of the kernels between two guards; the function checks them."""
    held = []

    def aligned(size, dtype=np.float32):
        count = size * np.dtype(dtype).itemsize
        raw = np.full(count + 2 * GUARD + 64, MARK, np.uint8)
        start = GUARD + -(raw.ctypes.data + GUARD) % 64
        raw[start : start + count] = 0
        held.append((raw, start, start + count))
        return raw[start : start + count].view(dtype)

    def check():
        for raw, start, end in held:
            assert (raw[:start] == MARK).all()
            assert (raw[end:] == MARK).all()
        held.clear()

    with pytest.MonkeyPatch.context() as patch:
        for module in (alone, pack, backend):
            patch.setattr(module, "aligned", aligned)
        patch.setattr(backend, "SLAB_BYTES", 1)  # every stream has its own guards
        yield check


SIZES = {
    "variant": st.sampled_from(SINGLE),
    "heads": st.integers(1, 20),
    "dim": st.sampled_from([1, 2, 5, 12]),
    "m": st.integers(1, 9),
    "groups": st.integers(1, 30),
}


def built(variant, heads, dim, m, n, r=1, **options):
    cfg = ns.AttentionConfig(variant, heads * dim, heads, n, min(m, n), update_size=r, pinv="ridge")
    model = ns.StreamModel(ns.ModelConfig(attention=cfg, stack="deep", **options)).eval() if options else None
    module = ns.MultiheadAttention(cfg).eval() if model is None else model
    for part in module.modules():
        if isinstance(part, ns.MultiheadAttention) and cfg.fixed:
            part.set_landmarks(*torch.randn(2, heads, cfg.m, dim))
    return module


@given(**SIZES)
def test_attention_alone(guards, variant, heads, dim, m, groups):
    kernel = alone.AttentionKernel(built(variant, heads, dim, m, groups))
    for _ in range(2 * groups + 3):
        y = kernel.step(*(kernel.lanes(x) for x in np.random.default_rng(0).normal(size=(3, heads * dim)).astype("f4")))
        assert np.isfinite(y).all()
    guards()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    **SIZES,
    r=st.sampled_from([1, 1, 2, 3]),
    layers=st.integers(1, 2),
    inputs=st.sampled_from([1, 7, 33, 100]),
    outputs=st.sampled_from([1, 31, 65]),
    inner=st.sampled_from([1, 20, 130]),
    count=st.sampled_from([1, 3, backend.STREAMS_PER_CHUNK + 1]),
)
def test_models(guards, variant, heads, dim, m, groups, r, layers, inputs, outputs, inner, count):
    sizes = {"input_dim": inputs, "output_dim": outputs, "ff_dim": inner, "layers": layers}
    model = built(variant, heads, dim, m, groups * r, r, **sizes)
    held = backend.NumbaBackend(model, count)
    for slot in range(count):
        held.clear(slot)
    x = np.random.default_rng(0).normal(size=(count, r, inputs)).astype(np.float32)
    for _ in range(2 * groups + 3):
        y = np.full((count, r, outputs), np.nan, np.float32)
        assert held.push_many(np.arange(count), x, y)
        assert np.isfinite(y).all()
    held.write(0, held.read(count - 1))
    guards()


def test_groups_have_no_attention_alone():
    with pytest.raises(ValueError, match="update_size=2"):
        alone.AttentionKernel(built("co-full-single", 2, 4, 1, 8, r=2))

"""Compiled models, compared with `model.step` in float32 and in float64."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream import variants
from nystream.stream.backends.numba import STREAMS_PER_CHUNK, NumbaBackend

SINGLE = tuple(v for v in ns.VARIANTS if variants.get(v).single)


def push(held, slot, x, outputs=5):
    """Push as a pool does: a single token without the dimension of the group."""
    y = np.empty((len(x), outputs), np.float32)
    assert held.push(slot, x, y) if len(x) > 1 else held.push(slot, x[0], y[0])
    return y


def compare(model, steps):
    """The largest error of a stream against torch's float32 and float64, relative to the spread of its outputs."""
    r, width, out = model.config.update_size, model.config.input_dim, model.config.output_dim
    exact = copy.deepcopy(model).double()
    held, state, exact_state = NumbaBackend(model, 1), model.init_state(1), exact.init_state(1)
    held.clear(0)
    ours, theirs, truth = [], [], []
    with torch.no_grad():
        for _ in range(steps):
            x = torch.randn(1, r, width)
            one, state = model.step(x, state, inplace=True)
            two, exact_state = exact.step(x.double(), exact_state, inplace=True)
            ours.append(push(held, 0, x[0].numpy(), out))
            theirs.append(one[0].numpy())
            truth.append(two[0].numpy())
    ours, theirs, truth = np.stack(ours), np.stack(theirs), np.stack(truth)
    spread = np.abs(truth).max()
    return np.abs(ours - theirs).max() / spread, np.abs(ours - truth).max() / spread


@given(
    variant=st.sampled_from(SINGLE),
    layers=st.integers(1, 3),
    groups=st.integers(1, 24),
    r=st.sampled_from([1, 1, 2, 3]),
    share=st.floats(0, 1),
    heads=st.sampled_from([1, 2, 3, 4, 8, 12]),
    options=st.sampled_from(
        [
            {},
            {"norm": "post", "activation": "relu", "positions": "none"},
            {"positions": "sinusoidal", "num_positions": 7, "final_norm": False},
            {"bias": False, "sums": "partials"},
        ]
    ),
)
def test_any_model(sharp, variant, layers, groups, r, share, heads, options):
    if "full" in variant:
        options = {name: value for name, value in options.items() if name != "sums"}
    n = groups * r
    model = sharp(
        variant, by=2.0, layers=layers, window=n, update_size=r, num_heads=heads,
        landmarks=max(1, round(share * min(n, 9))), **options,
    )  # fmt: skip
    to_torch, to_truth = compare(model, 3 * groups + 5)
    assert to_torch < 1e-5
    assert to_truth < 1e-5


@pytest.mark.parametrize("variant", SINGLE)
def test_the_inverse_of_the_paper(sharp, variant):
    """Newton–Schulz: torch iterates in float32, the kernels in float64; both are compared with float64."""
    to_torch, to_truth = compare(sharp(variant, window=12, landmarks=4, pinv="newton"), 40)
    assert to_torch < 1e-5
    assert to_truth < 1e-5


def test_a_stack_of_all_three(sharp):
    model = sharp(SINGLE, window=9, by=2.0)
    assert max(compare(model, 40)) < 1e-5


@pytest.mark.parametrize("sizes", [{"input_dim": 1, "output_dim": 1}, {"input_dim": 300, "output_dim": 70}])
def test_ends_of_any_width(sharp, sizes):
    model = ns.StreamModel(ns.ModelConfig(attention=sharp("co-full-single").config.attention, ff_dim=200, **sizes))
    assert max(compare(model.eval(), 15)) < 1e-5


def test_more_landmarks_than_a_head_is_wide(sharp):
    """Folding the landmarks into the projections would be slower here, so it is not done."""
    assert max(compare(sharp("co-fixed-single", window=20, landmarks=11, num_heads=12), 50)) < 1e-5


@settings(max_examples=10)
@given(
    variant=st.sampled_from(SINGLE),
    count=st.sampled_from([1, 2, 3, 5, STREAMS_PER_CHUNK, STREAMS_PER_CHUNK + 1, 3 * STREAMS_PER_CHUNK + 2]),
    r=st.sampled_from([1, 2]),
    threads=st.sampled_from([1, 2, 3]),
)
def test_many_streams_give_the_bits_of_one(sharp, variant, count, r, threads):
    """Each at its own phase; in any order, with any number of threads."""
    model = sharp(variant, window=6, update_size=r, layers=2)
    together, alone = NumbaBackend(model, count), NumbaBackend(model, count)
    together.threads = threads
    generator = np.random.default_rng(0)
    for slot in range(count):
        together.clear(slot)
        alone.clear(slot)
        for _ in range(slot % 9):
            x = generator.normal(size=(r, 7)).astype(np.float32)
            for held in (together, alone):
                push(held, slot, x)
    for _ in range(12):
        slots = generator.permutation(count)
        x, y = generator.normal(size=(count, r, 7)).astype(np.float32), np.empty((count, r, 5), np.float32)
        assert together.push_many(slots, x, y)
        for place, slot in enumerate(slots):
            np.testing.assert_array_equal(y[place], push(alone, int(slot), x[place]))

"""The sample: uniform, the same however the stream is cut, and bounded in memory."""

import gc
import resource
import tracemalloc
import weakref
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import SeedSequence
from torch.utils._python_dispatch import TorchDispatchMode

import nystream as ns
from nystream.landmarks import collect as collecting
from nystream.landmarks.collect import Reservoir, collect


def numbered(count, dtype=torch.float32):
    return torch.arange(count, dtype=dtype)[:, None]


def sampled(size, count, seed, cuts=()):
    reservoir = Reservoir(size, 1, torch.float32, seed)
    for piece in numbered(count).tensor_split(list(cuts)):
        reservoir.add(piece)
    return reservoir.rows[:, 0]


def build(layers=1, stack="paper", dtype=torch.float32, fit=True, **options):
    attention = {"embed_dim": 8, "num_heads": 2, "window": 6, "landmarks": 2}
    attention |= {name: options.pop(name) for name in list(options) if name in ns.AttentionConfig.__dataclass_fields__}
    cfg = ns.AttentionConfig("co-fixed-single", **attention)
    config = ns.ModelConfig(input_dim=3, output_dim=2, attention=cfg, layers=layers, stack=stack, ff_dim=16, **options)
    model = ns.StreamModel(config, dtype=dtype)
    for block in model.encoder.blocks if fit else ():
        shape = (2, block.attention.config.m, 4)
        block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
    return model


def sample_of(model, batches, layer=0, size=1000, offset=None, seed=0):
    return collect(model, batches, layer, size, offset, SeedSequence(seed), False)


def test_every_set_of_rows_is_as_likely():
    """All 56 sets of 3 rows out of 8: the χ² of their counts stays below the 1 − 10⁻⁶ quantile for 55 degrees.

    The expected count of 179 is far above 5, from which on the statistic is χ². A row number that is off by one (a
    probability of size / (i + 1)) would give a statistic of several hundred.
    """
    sets = dict.fromkeys(combinations(range(8), 3), 0)
    draws = 10_000
    for seed in range(draws):
        sets[tuple(sorted(sampled(3, 8, seed, cuts=(5,)).astype(int)))] += 1
    expected = draws / len(sets)
    statistic = sum((count - expected) ** 2 / expected for count in sets.values())
    assert statistic < 119.9


def test_the_sample_of_a_long_stream_is_uniform():
    """Which twelfth of the stream a row is from: hypergeometric counts, whose normed squares are χ² with 11 degrees."""
    size, count, parts = 6_000, 120_000, 12
    rows = sampled(size, count, seed=1, cuts=range(777, count, 777)).astype(int)
    assert len(set(rows)) == size
    seen = np.bincount(rows * parts // count, minlength=parts)
    expected = size / parts
    shrink = (count - size) / (count - 1)  # drawn without putting back
    assert ((seen - expected) ** 2).sum() / (expected * shrink) < 48.9  # the 1 − 10⁻⁶ quantile


@given(data=st.data())
def test_cuts_do_not_matter(data):
    size, count = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 60))
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=8)))
    seed = data.draw(st.integers(0, 2**32))
    assert np.array_equal(sampled(size, count, seed, cuts), sampled(size, count, seed))


def test_it_is_algorithm_r():
    size, count = 5, 200
    random, held = np.random.default_rng(7), []
    for row in range(count):
        if row < size:
            held.append(row)
        elif (place := int(random.random() * (row + 1))) < size:
            held[place] = row
    assert sampled(size, count, seed=7).tolist() == held


def test_fewer_rows_than_places():
    reservoir = Reservoir(10, 1, torch.float32, 0)
    reservoir.add(numbered(4))
    assert reservoir.rows[:, 0].tolist() == [0, 1, 2, 3]
    assert reservoir.seen == 4


@pytest.mark.parametrize(
    ("rows", "dtype", "held"),
    [(torch.bfloat16, torch.float32, np.float32), (torch.float64, torch.float64, np.float64)],
)
def test_rows_of_any_dtype(rows, dtype, held):
    reservoir = Reservoir(3, 1, dtype, 0)
    reservoir.add(numbered(3, rows) / 3)
    assert reservoir.rows.dtype == held
    assert np.array_equal(reservoir.rows, (numbered(3, rows) / 3).to(dtype).numpy())


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_places_that_stay_empty_are_never_backed_by_memory():
    before = resident()
    reservoir = Reservoir(1 << 20, 64, torch.float32, 0)  # 256 MB
    reservoir.add(torch.zeros(10, 64))
    assert resident() - before < 64 << 20


class Offsets:
    """Stands in for `model.tokens` and keeps the offsets."""

    def __init__(self, model, monkeypatch):
        self.seen = []
        tokens = model.tokens
        monkeypatch.setattr(model, "tokens", lambda x, layer, offset: self.keep(tokens, x, layer, offset))

    def keep(self, tokens, x, layer, offset):
        self.seen += offset.tolist()
        return tokens(x, layer, offset)


def test_offsets_meet_every_rotation(monkeypatch):
    model = build()
    offsets = Offsets(model, monkeypatch)
    sample_of(model, [torch.randn(600, 2, 3)])
    counts = Counter(offsets.seen)
    assert sorted(counts) == list(range(6))
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 35.9  # χ², 5 degrees, 1 − 10⁻⁶


def test_offsets_keep_groups_together(monkeypatch):
    model = build(update_size=2)
    offsets = Offsets(model, monkeypatch)
    sample_of(model, [torch.randn(100, 4, 3)])
    assert set(offsets.seen) == {0, 2, 4}


def test_offset_can_be_forced(monkeypatch):
    model = build()
    offsets = Offsets(model, monkeypatch)
    rows = sample_of(model, [torch.randn(9, 2, 3)], offset=4).rows
    assert set(offsets.seen) == {4}
    assert rows.shape == (18, 8)


def test_the_tokens_are_those_that_the_attention_sees():
    model, x = build().eval(), torch.randn(4, 5, 3)
    rows = sample_of(model, [x[:1], (x[1:], "label")], offset=2).rows
    with torch.no_grad():
        assert np.allclose(rows, model.tokens(x, 0, 2), atol=1e-6)


def test_size_of_the_batches_does_not_matter():
    model, x = build(dtype=torch.float64), torch.randn(40, 5, 3, dtype=torch.float64)
    whole = sample_of(model, [x], size=30).rows
    assert np.allclose(whole, sample_of(model, x.split(7), size=30).rows, rtol=0, atol=1e-12)
    assert not np.allclose(whole, sample_of(model, [x], size=30, seed=1).rows)


@pytest.mark.parametrize(
    ("layers", "stack", "layer"), [(1, "paper", 0), (3, "paper", 1), (3, "paper", 2), (2, "deep", 1)]
)
@pytest.mark.parametrize("tokens", [3, 6, 15])
def test_batches_larger_than_memory_are_cut(monkeypatch, layers, stack, layer, tokens):
    model, x = build(layers, stack, dtype=torch.float64), torch.randn(5, tokens, 3, dtype=torch.float64)
    whole = sample_of(model, [x], layer).rows
    monkeypatch.setattr(collecting, "MAX_NUMBERS", 1)
    cut = sample_of(model, [x], layer).rows
    assert np.allclose(whole[np.lexsort(whole.T)], cut[np.lexsort(cut.T)], rtol=0, atol=1e-12)


@pytest.mark.parametrize("layer", [0, 1])
def test_an_embedded_path_sees_the_tokens_before_it(monkeypatch, layer):
    linear = ns.LinearConfig(segments=(1, 2, 8), embedded=True)
    model = build(2, "deep", torch.float64, linear=linear)
    torch.nn.init.normal_(model.linear.weight)
    x = torch.randn(5, 30, 3, dtype=torch.float64)
    whole = sample_of(model, [x], layer).rows
    monkeypatch.setattr(collecting, "MAX_NUMBERS", 1)
    cut = sample_of(model, [x], layer).rows
    assert np.allclose(whole[np.lexsort(whole.T)], cut[np.lexsort(cut.T)], rtol=0, atol=1e-12)


class Largest(TorchDispatchMode):
    """The largest tensor that any operation returns."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for y in out if isinstance(out, list | tuple) else [out]:
            if isinstance(y, torch.Tensor):
                self.numbers = max(self.numbers, y.untyped_storage().nbytes() // y.element_size())
        return out


def fed(count, alive):
    """`count` batches of 2,400 tokens; `alive` records how many earlier ones are in memory when the next is made."""
    batches = []
    for _ in range(count):
        x = torch.randn(40, 60, 3)
        batches.append(weakref.ref(x))
        yield x
        del x
        alive.append(sum(batch() is not None for batch in batches))


STACKS = [(1, "paper", 0), (2, "paper", 1), (2, "deep", 1)]


@pytest.mark.parametrize(("layers", "stack", "layer"), STACKS)
def test_memory_does_not_grow_with_the_number_of_batches(layers, stack, layer):
    model = build(layers, stack)
    with Largest():  # loads what it needs, and fills caches
        sample_of(model, fed(2, []), layer, size=64)
    peaks, largest = [], []
    for count in (2, 20):
        alive = []
        gc.collect()
        tracemalloc.start()  # numpy's arrays; torch's are watched by the mode
        with Largest() as watch:
            sample_of(model, fed(count, alive), layer, size=64)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        largest.append(watch.numbers)
        assert max(alive) <= 1
    assert largest[0] == largest[1]
    assert peaks[1] - peaks[0] < 300_000  # the 18 batches more, kept as tokens, would be 1.4 MB


@pytest.mark.parametrize(("layers", "stack", "layer"), STACKS)
def test_memory_does_not_grow_with_the_size_of_a_batch(monkeypatch, layers, stack, layer):
    model = build(layers, stack)
    monkeypatch.setattr(collecting, "MAX_NUMBERS", 6 * 24 * 10)
    largest = []
    for rows in (20, 100):
        x = torch.randn(rows, 18, 3)
        with Largest() as watch:
            sample_of(model, [x], layer, size=64)
        largest.append(watch.numbers)
    assert largest[1] <= max(largest[0], x.numel())  # no more than the batch itself


def test_long_sequences_are_cut_too(monkeypatch):
    model = build(2)
    monkeypatch.setattr(collecting, "MAX_NUMBERS", 6 * 24 * 10)
    x = torch.randn(1, 1_200, 3)
    for layer in (0, 1):
        with Largest() as watch:
            sample_of(model, [x], layer, size=64)
        assert watch.numbers <= x.numel()

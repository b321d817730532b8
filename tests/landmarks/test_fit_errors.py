"""Every way in which fitting landmarks can go wrong, and the message that explains it."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import nystream as ns
from nystream import variants

small = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_model.py"))))
FIXED, E, D, M, WIDTH = small.FIXED, small.E, small.D, small.M, small.WIDTH
config, build, encoder, data, fit = small.config, small.build, small.encoder, small.data, small.fit


def test_values_that_are_not_finite_name_the_batch():
    x = data()
    x[1][2, 3, 0], x[1][2, 3, 1], x[1][3, 5, 4] = torch.nan, torch.nan, -torch.inf
    with pytest.raises(ValueError, match=r"x of batches\[1\] has 2 of 48 tokens .*the first at \[2, 3\]"):
        fit(build(), x)
    with pytest.raises(ValueError, match=r"x of batches\[1\] has 2 of 48 tokens"):
        fit(build(), [b.numpy() for b in x])


def test_large_values_are_finite_even_where_their_sum_is_not():
    x = [(3e4 * (1 + torch.rand(4, 12, WIDTH))).half() for _ in range(3)]
    assert x[0].sum().isinf()
    fit(build(dtype=torch.float32), x)


def test_values_that_are_too_large_for_the_model():
    with pytest.raises(ValueError, match=r"x of batches\[0\] is finite, but the inputs of the attention of block 0"):
        fit(build(dtype=torch.float32), [1e300 * x for x in data()])


@pytest.mark.parametrize("place", ["input_proj", "q_proj"])
def test_weights_that_are_not_finite(place):
    model = build()
    layer = model.input_proj if place == "input_proj" else model.encoder.blocks[0].attention.q_proj
    with torch.no_grad():
        layer.weight[-1, 0] = torch.nan
    match = "the inputs of the attention of block 0" if place == "input_proj" else "block 0, head 1, Q: .*not finite"
    with pytest.raises(ValueError, match=match):
        fit(model, data())


def test_too_few_distinct_tokens_name_layer_head_and_kind():
    model = build(positions="none")
    words = torch.randn(M - 1, WIDTH, dtype=torch.float64)
    x = [words[torch.randint(M - 1, (4, 12))]]
    with pytest.raises(ValueError, match=r"block 0, head 0, Q: .* only 2 distinct ones, but m=3 landmarks"):
        fit(model, x)
    with pytest.raises(ValueError, match=r"block 0, X: .* only 2 distinct ones, but m=3 landmarks"):
        fit(model, x, method="x")
    attention = model.encoder.blocks[0].attention
    with torch.no_grad():
        attention.k_proj.weight[D:] = 0.0
    with pytest.raises(ValueError, match=r"block 0, head 1, K: .* only 1 distinct ones, but m=3 landmarks"):
        fit(model, data())


@pytest.mark.parametrize(
    ("batches", "match"),
    [
        ([], "batches have no tokens"),
        (iter(()), "batches have no tokens"),
        ([torch.zeros(1, 2, WIDTH)], "batches have 2 tokens, but the m=3 landmarks of block 0 need at least 3"),
        ([torch.zeros(0, 2, WIDTH)], r"x of batches\[0\] is \[0, 2, 5\]: it has no rows"),
        ([torch.zeros(2, 0, WIDTH)], r"x of batches\[0\] is \[2, 0, 5\]: it has no tokens"),
        ([torch.zeros(2, 4, 7)], r"x of batches\[0\] is \[2, 4, 7\], but must be \[B, T, 5\]"),
        ([torch.zeros(4, WIDTH)], r"x of batches\[0\] is \[4, 5\], but must be \[B, T, 5\]"),
    ],
)
def test_data_that_is_not_there(batches, match):
    with pytest.raises(ValueError, match=match):
        fit(build(), batches)


@pytest.mark.parametrize(
    ("batches", "match"),
    [
        (torch.zeros(2, 4, WIDTH), r"batches is a Tensor, .*give a list: \[x\]"),
        (np.zeros((2, 4, WIDTH)), r"batches is a ndarray, .*give a list: \[x\]"),
        (None, "batches is a NoneType"),
        ([torch.zeros(2, 4, WIDTH, dtype=torch.int64)], r"x of batches\[0\] is torch.int64, .*x.float\(\)"),
        ([torch.zeros(2, 4, WIDTH, dtype=torch.bool)], r"x of batches\[0\] is torch.bool"),
        ([np.zeros((2, 4, WIDTH), np.int16)], r"x of batches\[0\] is int16, but must be floating point"),
        ([{"x": torch.zeros(2, 4, WIDTH)}], r"x of batches\[0\] is a dict"),
        ([()], r"x of batches\[0\] is a tuple"),
        ([1.0], r"x of batches\[0\] is a float"),
    ],
)
def test_data_of_the_wrong_kind(batches, match):
    with pytest.raises(TypeError, match=match):
        fit(build(), batches)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"tokens": M - 1}, ValueError, "tokens=2 is less than the m=3 landmarks of block 0"),
        ({"tokens": 0}, ValueError, "tokens=0"),
        ({"tokens": 1e4}, TypeError, "tokens=10000.0"),
        ({"layer": 1}, ValueError, "layer=1 is not one of the 1 blocks"),
        ({"layer": -1}, ValueError, "layer=-1"),
        ({"layer": "0"}, TypeError, "layer='0'"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"seed": None}, TypeError, "seed=None"),
        ({"n_init": 0}, ValueError, "n_init=0"),
        ({"offset": 0.5}, TypeError, "offset=0.5"),
        ({"method": "v"}, ValueError, "method='v' is not known; it must be one of qk, x"),
    ],
)
def test_options_that_cannot_be(options, error, match):
    with pytest.raises(error, match=match):
        fit(build(), data(), **options)


def test_other_models():
    with pytest.raises(TypeError, match="model is a Linear, but must be a StreamModel or a StreamEncoder"):
        fit(nn.Linear(2, 2), data())
    with pytest.raises(ValueError, match="offset=0, but a StreamEncoder has no positions"):
        fit(encoder(), data(width=E), offset=0)


@pytest.mark.parametrize("variant", sorted(set(ns.VARIANTS) - set(FIXED)))
def test_a_variant_without_fixed_landmarks(variant):
    cfg = config(variant, landmarks=M if variants.get(variant).low_rank else None)
    name = build(cfg).encoder.blocks[0].attention.config.variant
    also = "" if variants.get(variant).low_rank else ", landmarks=..."
    with pytest.raises(ValueError, match=f"layer=0 is of variant '{name}'.*convert.variant='co-fixed-single'{also}.$"):
        fit(build(cfg), data())


@pytest.mark.parametrize("stack", ["paper", "deep"])
def test_blocks_before_must_be_fitted(stack):
    model = build(layers=3, stack=stack)
    fit(model, data())
    with pytest.raises(RuntimeError, match=r"layer=2 reads the output of block 1, .*layer=1\) first"):
        fit(model, data(), layer=2)


def test_pinv_none_needs_pairs():
    model = build(config(pinv="none"))
    with pytest.raises(ValueError, match=r"pinv='none', which needs landmarks in pairs .*use method='x'"):
        fit(model, data())
    fit(model, data(), method="x")


def test_landmarks_that_the_dtype_cannot_hold():
    enc = encoder(config(embed_dim=E), dtype=torch.float16)
    with torch.no_grad():
        enc.blocks[0].attention.q_proj.weight.fill_(6e4)
    x = [8 * torch.randn(4, 12, E)]
    with pytest.raises(ValueError, match="q_tilde has values that are not finite"):
        fit(enc, x)
    assert enc.blocks[0].attention.k_tilde.isnan().all()


def test_a_missing_package_is_found_out_before_the_data_is_read(monkeypatch):
    def unread():
        pytest.fail("the data was read")
        yield

    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install -c constraints.txt '\.\[train\]'"):
        fit(build(), unread())

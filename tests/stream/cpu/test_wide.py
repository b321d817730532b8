"""Vectors of sixteen lanes give the same bits as vectors of eight, on every machine."""

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.stream.cpu import pack


@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single"])
def test_the_same_bits(monkeypatch, variant):
    torch.manual_seed(0)
    attention = ns.AttentionConfig(variant, embed_dim=80, num_heads=16, window=50, landmarks=5)
    model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=2, attention=attention)).eval()
    if attention.fixed:
        ns.fit_landmarks(model, [torch.randn(2, 60, 3)])
    x = np.random.default_rng(0).normal(size=(170, 3)).astype(np.float32)
    x[60] *= 1e4  # an outlier, for which the weights of edges are computed at every step
    said = []
    for wide in (False, True):
        monkeypatch.setattr(pack, "wide_registers", lambda wide=wide: wide)
        pool = ns.StreamPool(model)
        assert pool._backend._packed.features.wide is wide
        sid = pool.open()
        said.append(np.stack([pool.push(sid, token).copy() for token in x]))
    np.testing.assert_array_equal(*said)

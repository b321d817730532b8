"""Streaming outputs for scoring: how far it is."""

from contextlib import contextmanager
from importlib import import_module

import pytest
import torch

import nystream as ns


@pytest.mark.parametrize("update_size", [1, 4])
def test_progress_comes_to_its_end(monkeypatch, update_size):
    done = {}

    @contextmanager
    def track(what, total, show):
        done[what, total, show] = 0

        def advance(steps):
            done[what, total, show] += steps

        yield advance

    monkeypatch.setattr(import_module("nystream.train.predict"), "track", track)
    attention = ns.AttentionConfig("co-full-single", 8, 2, 8, update_size=update_size)
    model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=2, attention=attention))
    streams = [torch.randn(length, 3) for length in (1030, 23, 9)]
    ns.train.predict(model, ns.train.StreamData(streams, [x[:, :2] for x in streams]), batch_size=2)
    ns.train.predict(model, ns.train.WindowData(torch.randn(5, 8, 3), torch.zeros(5, 2)), batch_size=2, progress=True)
    tokens = sum(length // update_size * update_size for length in (1030, 9))
    assert done == {("scoring, tokens", tokens, False): tokens, ("scoring, windows", 5, True): 5}

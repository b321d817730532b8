"""Streaming outputs for scoring: those of every stream alone, and progress."""

from contextlib import contextmanager
from importlib import import_module

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize("variant", ["co-full-single", "co-cont-single"])
@pytest.mark.parametrize(("layers", "update_size"), [(1, 1), (1, 4), (2, 1)])
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=6), batch_size=st.integers(1, 6))
@settings(max_examples=15)
def test_streams_of_many_lengths_are_as_one_by_one(variant, layers, update_size, lengths, batch_size):
    landmarks = {} if variant == "co-full-single" else {"landmarks": 4}
    attention = ns.AttentionConfig(variant, 8, 2, 8, update_size=update_size, **landmarks)
    torch.manual_seed(0)
    config = ns.ModelConfig(input_dim=3, output_dim=2, attention=attention, layers=layers)
    model = ns.StreamModel(config).double().eval()
    streams = [torch.randn(max(length, update_size), 3).double() for length in lengths]
    output, _ = ns.train.predict(model, ns.train.StreamData(streams, [x[:, :2] for x in streams]), batch_size)
    alone = []
    with torch.no_grad():
        for x in streams:
            whole = x[None, : len(x) // update_size * update_size]
            alone.append(model.steps(whole, model.init_state(1))[0][0])
    torch.testing.assert_close(output, torch.cat(alone), rtol=1e-9, atol=1e-11)  # float64: sums in another order


def test_a_stream_that_has_ended_costs_nothing(monkeypatch):
    attention = ns.AttentionConfig("co-full-single", 8, 2, 8)
    model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=2, attention=attention))
    rows, steps = [], model.steps
    monkeypatch.setattr(model, "steps", lambda x, *args, **more: (rows.append(x.shape[:2]), steps(x, *args, **more))[1])
    streams = [torch.randn(length, 3) for length in (20, 300, 22)]
    ns.train.predict(model, ns.train.StreamData(streams, [x[:, :2] for x in streams]))
    assert rows == [(3, 20), (2, 8), (1, 272)]  # no piece is shorter than the window

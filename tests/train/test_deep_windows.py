"""Deep stacks of several blocks learn nothing but their warm-up from windows no longer than their own."""

from functools import partial

import pytest
import torch

import nystream as ns
from nystream.train import (
    Classification,
    StreamData,
    TrainConfig,
    evaluate,
    fit,
    fix_landmarks,
    train_two_phase,
    transfer_attention,
)


@pytest.mark.parametrize("tokens", [4, 8])
def test_deep_blocks_refuse_windows_that_end_with_their_warm_up(tiny, windows, tokens):
    models = [tiny("co-cont-single", seed=seed, layers=2, stack="auto") for seed in range(2)]
    data, options = windows(20, tokens=tokens), {"task": Classification(), "config": TrainConfig(epochs=1)}
    before = models[0].head.weight.clone()
    for train, model in (
        (fit, models[0]),
        (train_two_phase, models[0]),
        (train_two_phase, models),
        (fix_landmarks, models[0]),
        (partial(transfer_attention, fine_tune=TrainConfig(epochs=1)), models[0]),
    ):
        with pytest.raises(ValueError, match=rf"WindowData of {tokens} tokens, .*window=8 .*StreamData.*stack='paper'"):
            train(model, data, **options)
    assert torch.equal(models[0].head.weight, before)
    evaluate(models[0], data, Classification())


def test_what_deep_blocks_learn_from(tiny, windows):
    model, task = tiny("co-cont-single", layers=2, stack="auto"), Classification()
    once, short = TrainConfig(epochs=1), TrainConfig(epochs=1, short=1.0)
    fit(model, windows(20, tokens=9), config=once, task=task)
    tracks = windows(20)
    y = torch.full((20, 8), -1)  # the class is known after the last token
    y[:, -1] = tracks.y
    fit(model, StreamData(list(tracks.x), list(y)), config=short, task=task)
    own = (ns.AttentionConfig("co-full-single", 8, 2, window) for window in (4, 12))
    pyramid = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=3, attention=tuple(own)))
    with pytest.raises(ValueError, match=r"WindowData of 12 tokens, .*window=12"):
        fit(pyramid, windows(20, tokens=12), config=once, task=task)
    for other in (tiny("co-cont-single", layers=2), tiny("full", layers=2, stack="auto"), tiny(stack="deep")):
        fit(other, tracks, config=once, task=task)

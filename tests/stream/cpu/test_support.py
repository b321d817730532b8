"""Models that the kernels cannot run are run by torch, with a reason."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import nystream as ns
from nystream import extras
from nystream.stream.cpu.support import unsupported


class Softmax(ns.StreamModel):
    """A model with its own `step`."""

    def step(self, x, state, *, inplace=False):
        y, state = super().step(x, state, inplace=inplace)
        return y.softmax(-1), state


def changed(change):
    def make(sharp):
        model = sharp("co-fixed-single")
        change(model)
        return model

    return make


def with_hook(model):
    model.head.register_forward_hook(lambda module, args, out: out + 1)


def with_own_forward(model):
    model.head.forward = lambda x: nn.Linear.forward(model.head, x) + 1


def with_another_eps(model):
    model.encoder.norm.eps = 0.1


def with_another_activation(model):
    model.encoder.blocks[0].activation = nn.functional.silu


def with_another_head(model):
    model.head = nn.Sequential(nn.Linear(24, 9), nn.Linear(9, 5))


def with_a_head_in_double(model):
    model.head.double()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda sharp: sharp("co-fixed-single").double(),
            "float64, but the kernels compute in float32: call model.float",
        ),
        (lambda sharp: sharp("co-fixed-single", sums="subtract"), "subtract', .* use sums='auto'"),
        (lambda sharp: sharp("co-cont-single", pinv="exact"), "exact' has no kernel .*'newton', 'ridge' and 'none' do"),
        (lambda sharp: sharp("co-fixed-single", stack="paper", layers=2), "retro', .* trained with stack='deep'"),
        (lambda sharp: sharp("nystrom", stack="paper"), "nystrom', .* need a variant that returns its newest row"),
        (lambda sharp: Softmax(sharp("co-full-single").config), "Softmax"),
        (changed(with_hook), "head has a hook"),
        (changed(with_own_forward), "head has a hook or a method of its own"),
        (changed(with_another_eps), "encoder.norm has eps=0.1"),
        (changed(with_another_activation), "encoder.blocks.0 has an activation"),
        (changed(with_another_head), "head is a Sequential"),
        (changed(with_a_head_in_double), "head.weight is float64"),
    ],
)
def test_what_is_not_supported_says_why(sharp, make, why):
    model = make(sharp)
    assert re.search(why, unsupported(model))
    with pytest.raises(ValueError, match=f"(?s){why}.*backend='torch'"):
        ns.StreamPool(model, backend="numba")
    extras.warn_if_slower.cache_clear()
    with pytest.warns(UserWarning, match=f"which is slower.*{why}.*pass `backend='torch'`"):
        assert ns.StreamPool(model).backend == "torch"


def test_what_was_changed_runs_in_torch_as_it_was_changed():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="relu").eval()
    encoder = ns.from_torch(layer, "co-full-single", window=6)
    for block in encoder.blocks:
        block.activation = nn.functional.silu
    streams, x = ns.StreamPool(encoder, backend="torch"), torch.randn(1, 16)
    with torch.no_grad():
        expected, _ = encoder.step(x, encoder.init_state(1))
    np.testing.assert_allclose(streams.push(streams.open(), x[0]), expected[0], atol=1e-6)


def test_exact_inverses_of_fixed_landmarks_are_fine(sharp):
    """These are computed before streaming."""
    assert unsupported(sharp("co-fixed-single", pinv="exact")) is None


def test_learned_landmarks_are_fine(sharp):
    model = sharp("co-fixed-single")
    model.encoder.blocks[0].attention.learn_landmarks()
    assert ns.StreamPool(model).backend == "numba"

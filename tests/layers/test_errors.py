"""Errors of an attention alone: landmarks, masks, dropout, cross-attention.

`tests/models/test_errors.py` has those that attentions, encoders and models share.
"""

import pytest
import torch

import nystream as ns
from nystream import state as states
from nystream import variants

FIXED = tuple(v for v in ns.VARIANTS if variants.get(v).fixed)
E, N = 8, 6


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def refused(call, error, *words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


@pytest.fixture(params=ns.VARIANTS)
def attn(request, build):
    return build(request.param)


@pytest.mark.parametrize("variant", FIXED)
def test_fixed_landmarks_must_be_there(build, variant):
    attn = build(variant, fit=False)
    state = attn.init_state(2)
    words = (f"'{variant}' has no landmarks yet", "set_landmarks(q_tilde, k_tilde)", "state_dict")
    refused(lambda: attn(randn(2, N, E)), RuntimeError, *words)
    refused(lambda: attn.step(randn(2, E), state), RuntimeError, *words)
    refused(lambda: attn.steps(randn(2, N, E), state), RuntimeError, *words)
    refused(lambda: attn.factors(randn(2, N, E)), RuntimeError, *words)


@pytest.mark.parametrize("variant", FIXED)
@pytest.mark.parametrize("wrong", ["q_tilde", "k_tilde"])
def test_landmarks_of_the_wrong_shape_or_not_finite_change_nothing(build, variant, wrong):
    attn, x = build(variant), randn(2, N, E)
    before, good = attn(x), torch.randn(2, 3, 4)
    for bad, words in (
        (torch.randn(3, 2, 4), (f"{wrong} is [3, 2, 4]", "must be [2, 3, 4]")),
        (torch.randn(2, 3), (f"{wrong} is [2, 3]", "must be [2, 3, 4]")),
        (torch.full((2, 3, 4), torch.nan), (f"{wrong} has values that are not finite",)),
        (torch.full((2, 3, 4), torch.inf), (f"{wrong} has values that are not finite",)),
    ):
        given = {"q_tilde": good, "k_tilde": good, wrong: bad}
        refused(lambda given=given: attn.set_landmarks(**given), ValueError, *words)
    assert torch.equal(attn(x), before)


@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if v not in FIXED])
def test_only_fixed_variants_have_landmarks_to_set(build, variant):
    landmarks = torch.randn(2, 3, 4)
    words = (f"'{variant}' has no fixed landmarks",)
    refused(lambda: build(variant).set_landmarks(landmarks, landmarks), ValueError, *words)
    refused(lambda: build(variant).learn_landmarks(), ValueError, *words)


@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if v != "full"])
def test_a_mask_that_is_not_supported_is_refused(build, variant):
    mask = torch.ones(N, N, dtype=torch.bool)
    words = ("attn_mask=", f"'{variant}'", "'full'", "lengths=")
    refused(lambda: build(variant)(randn(2, N, E), attn_mask=mask), ValueError, *words)


def test_a_mask_is_boolean_and_over_a_full_window(build):
    attn, x, mask = build("full"), randn(2, N, E), torch.ones(N, N, dtype=torch.bool)
    refused(lambda: attn(x, attn_mask=mask.float()), ValueError, "attn_mask is torch.float32", "bool")
    refused(lambda: attn(x[:, :4], attn_mask=mask), ValueError, "attn_mask=", "full window")
    refused(lambda: attn(x, attn_mask=mask, lengths=torch.tensor([N, N])), ValueError, "attn_mask=", "lengths=")


def test_a_mask_of_the_wrong_shape_is_named(build):
    with pytest.raises((ValueError, RuntimeError)) as caught:
        build("full")(randn(2, N, E), attn_mask=torch.ones(3, 3, dtype=torch.bool))
    assert "attn_mask is [3, 3]" in str(caught.value)


@pytest.mark.parametrize("variant", ["full", "co-full-single", "co-full-retro"])
def test_dropout_is_not_supported_in_a_stream(build, variant):
    attn = build(variant, dropout=0.5).train()
    words = ("dropout=0.5", "step() and steps()", "eval()")
    refused(lambda: attn.step(randn(2, E), attn.init_state(2)), RuntimeError, *words)
    refused(lambda: attn.steps(randn(2, N, E), attn.init_state(2)), RuntimeError, *words)
    attn.eval().steps(randn(2, N, E), attn.init_state(2))


def test_key_and_value_are_shaped_as_x(build):
    attn = build("co-cont-single")
    x, state = randn(2, 4, E), attn.init_state(2)
    short, words = randn(2, 3, E), ("is [2, 3, 8]", "x is [2, 4, 8]", "same shape")
    refused(lambda: attn(x, key=short), ValueError, "key", *words)
    refused(lambda: attn(x, key=x, value=short), ValueError, "value", *words)
    refused(lambda: attn.steps(x, state, key=short), ValueError, "key", *words)
    refused(lambda: attn.step(x[:, 0], state, key=x[:, :1]), ValueError, "key is [2, 1, 8]", "x is [2, 8]")
    refused(lambda: attn(x, key=x.float()), ValueError, "key is torch.float32", "x is torch.float64")


def test_a_value_needs_a_key(build):
    attn = build("co-cont-single")
    x, state, words = randn(2, 4, E), attn.init_state(2), ("value= was given without key=", "key=")
    refused(lambda: attn(x, value=x), ValueError, *words)
    refused(lambda: attn.steps(x, state, value=x), ValueError, *words)
    refused(lambda: attn.step(x[:, 0], state, value=x[:, 0]), ValueError, *words)


def test_factors_are_those_of_a_full_window_of_a_low_rank_variant(build):
    refused(lambda: build("full").factors(randn(2, N, E)), ValueError, "'full' is not low-rank")
    refused(lambda: build("nystrom").factors(randn(2, 4, E)), ValueError, "x has 4 tokens", "full window of 6")


def test_a_refused_call_leaves_the_state_as_it_was(attn):
    x = randn(2, 8, E)
    with torch.no_grad():
        _, state = attn.steps(x, attn.init_state(2))
    kept = states.clone(state)
    token = x[:, 0]
    for call in (
        lambda: attn.step(x, state, inplace=True),
        lambda: attn.step(token[:1], state, inplace=True),
        lambda: attn.step(token, state, key=token[:, :-1], inplace=True),
        lambda: attn.step(token, state, value=token, inplace=True),
        lambda: attn.step(token.float(), state, inplace=True),
        lambda: attn.steps(x[..., :-1], state),
        lambda: attn.steps(x, state, lengths=torch.tensor([9, 0])),
        lambda: attn.steps(x, state, reset=torch.zeros(2, 1, dtype=torch.bool)),
    ):
        with pytest.raises((ValueError, RuntimeError)):
            call()
    assert all(torch.equal(leaf, before) for leaf, before in zip(state, kept, strict=True))


@pytest.mark.parametrize("config", ["co-cont-single", None, 3])
def test_a_config_of_another_type_is_refused(config):
    with pytest.raises(TypeError, match=r"config is a .*, but must be an AttentionConfig"):
        ns.MultiheadAttention(config)


def test_landmarks_must_be_tensors(build):
    attn = build("co-fixed-single", fit=False)
    with pytest.raises(TypeError, match=r"q_tilde is a list, but must be a torch\.Tensor"):
        attn.set_landmarks([[[0.0]]], torch.zeros(2, 3, 4))

"""Errors that teach: each names the argument, what came and what is needed, and leaves everything as it was."""

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


@pytest.mark.parametrize("shape", [(E,), (2, E), (2, N, E - 1), (2, N, E, 1)])
def test_forward_and_steps_need_batch_tokens_and_width(attn, shape):
    words = (f"x is {list(shape)}", "[B, T, 8]", "embed_dim")
    refused(lambda: attn(randn(*shape)), ValueError, *words)
    refused(lambda: attn.steps(randn(*shape), attn.init_state(2)), ValueError, *words)


@pytest.mark.parametrize("shape", [(E,), (2, E - 1), (2, 2, E), (2, 1, E + 1), (2, 1, 1, E)])
def test_step_needs_one_token(attn, shape):
    words = (f"x is {list(shape)}", "step needs [B, 8] or [B, 1, 8]")
    refused(lambda: attn.step(randn(*shape), attn.init_state(2)), ValueError, *words)


@pytest.mark.parametrize("shape", [(2, E), (2, 1, E), (2, 6, E)])
def test_step_needs_a_whole_group(build, shape):
    attn = build("co-cont-single", update_size=3)
    words = (f"x is {list(shape)}", "step needs [B, 3, 8]", "update_size=3")
    refused(lambda: attn.step(randn(*shape), attn.init_state(2)), ValueError, *words)


def test_a_stream_that_is_longer_than_the_window_is_for_steps(attn):
    refused(lambda: attn(randn(2, N + 1, E)), ValueError, "x has 7 tokens", "the window is 6", "steps()")


def test_groups_are_whole(build):
    attn = build("co-fixed-single", update_size=3)
    words = ("x has 4 tokens", "multiple of update_size=3")
    refused(lambda: attn(randn(2, 4, E)), ValueError, *words)
    refused(lambda: attn.steps(randn(2, 4, E), attn.init_state(2)), ValueError, *words)


def test_at_least_one_token_is_needed(attn):
    words = ("x is [2, 0, 8]", "no tokens")
    refused(lambda: attn(randn(2, 0, E)), ValueError, *words)
    refused(lambda: attn.steps(randn(2, 0, E), attn.init_state(2)), ValueError, *words)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_x_has_the_dtype_of_the_weights(build, dtype):
    attn, x = build("co-full-single"), torch.ones(2, N, E, dtype=dtype)
    words = (f"x is {dtype}", "float64")
    refused(lambda: attn(x), ValueError, *words)
    refused(lambda: attn.steps(x, attn.init_state(2)), ValueError, *words)
    refused(lambda: attn.step(x[:, 0], attn.init_state(2)), ValueError, *words)


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
    words = (f"'{variant}' has no fixed landmarks to set",)
    refused(lambda: build(variant).set_landmarks(landmarks, landmarks), ValueError, *words)


@pytest.mark.parametrize("variant", [v for v in ns.VARIANTS if v != "full"])
def test_a_mask_that_cannot_be_honoured_is_refused(build, variant):
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
def test_dropout_cannot_be_honoured_in_a_stream(build, variant):
    attn = build(variant, dropout=0.5).train()
    words = ("dropout=0.5", "stream", "eval()")
    refused(lambda: attn.step(randn(2, E), attn.init_state(2)), RuntimeError, *words)
    refused(lambda: attn.steps(randn(2, N, E), attn.init_state(2)), RuntimeError, *words)
    attn.eval().steps(randn(2, N, E), attn.init_state(2))


def test_key_and_value_are_shaped_as_x(attn):
    x, state = randn(2, 4, E), attn.init_state(2)
    short, words = randn(2, 3, E), ("is [2, 3, 8]", "x is [2, 4, 8]", "same shape")
    refused(lambda: attn(x, key=short), ValueError, "key", *words)
    refused(lambda: attn(x, key=x, value=short), ValueError, "value", *words)
    refused(lambda: attn.steps(x, state, key=short), ValueError, "key", *words)
    refused(lambda: attn.step(x[:, 0], state, key=x[:, :1]), ValueError, "key is [2, 1, 8]", "x is [2, 8]")
    refused(lambda: attn(x, key=x.float()), ValueError, "key is torch.float32", "x is torch.float64")


def test_a_value_needs_a_key(attn):
    x, state, words = randn(2, 4, E), attn.init_state(2), ("value= came without key=", "key=")
    refused(lambda: attn(x, value=x), ValueError, *words)
    refused(lambda: attn.steps(x, state, value=x), ValueError, *words)
    refused(lambda: attn.step(x[:, 0], state, value=x[:, 0]), ValueError, *words)


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        (torch.tensor([6.0, 6.0]), ("lengths is torch.float32 [2]", "int64")),
        (torch.tensor([True, True]), ("lengths is torch.bool [2]", "int64")),
        (torch.tensor([6, 6], dtype=torch.uint8), ("lengths is torch.uint8 [2]", "int64")),
        (torch.tensor([6]), ("lengths is torch.int64 [1]", "[2], one number a row")),
        (torch.tensor([[6], [6]]), ("lengths is torch.int64 [2, 1]", "[2], one number a row")),
        (torch.tensor([0, -3]), ("lengths[1] is -3", "between 0 and 6")),
        (torch.tensor([9, 6]), ("lengths[0] is 9", "between 0 and 6")),
        (torch.tensor([3, 4]), ("lengths[1] is 4", "multiple of update_size=3")),
    ],
)
def test_lengths_are_whole_numbers_one_a_row_in_range(build, lengths, words):
    attn, x = build("co-fixed-single", update_size=3), randn(2, N, E)
    refused(lambda: attn(x, lengths=lengths), ValueError, *words)
    refused(lambda: attn.steps(x, attn.init_state(2), lengths=lengths), ValueError, *words)


def test_forward_with_lengths_needs_the_places_of_a_full_window(attn):
    words = ("x has 4 tokens", "lengths= it must have 6", "last")
    refused(lambda: attn(randn(2, 4, E), lengths=torch.tensor([4, 4])), ValueError, *words)


def test_resets_are_booleans_one_a_token(attn):
    x, state = randn(2, 4, E), attn.init_state(2)
    for reset in (torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 3, dtype=torch.bool)):
        words = (f"reset is {reset.dtype} {list(reset.shape)}", "must be bool [2, 4]")
        refused(lambda reset=reset: attn.steps(x, state, reset=reset), ValueError, *words)


def test_a_stream_opens_where_a_group_starts(build):
    attn, reset = build("co-cont-single", update_size=3), torch.zeros(2, N, dtype=torch.bool)
    reset[1, 4] = True
    words = ("reset[1, 4] is True", "inside a group of update_size=3")
    refused(lambda: attn.steps(randn(2, N, E), attn.init_state(2), reset=reset), ValueError, *words)


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

"""Errors of attentions, encoders and models: each names the argument, its value and what is needed."""

import pytest
import torch

import nystream as ns
from nystream import state as states

KINDS = [
    ("co-cont-single", 1, "paper"),
    ("co-fixed-single", 2, "paper"),
    ("full", 1, "paper"),
    ("co-full-single", 2, "deep"),
]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def refused(call, error, *words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


@pytest.fixture(params=KINDS, ids=lambda kind: " ".join(map(str, kind)))
def model(request, build):
    variant, layers, stack = request.param
    return build(variant, layers, stack=stack)


@pytest.fixture(params=["attention", "encoder", "deep encoder", "model", "deep model"])
def module(request, build):
    """A module, the width of its tokens, and the field of the config that has it."""
    stack = "deep" if "deep" in request.param else "paper"
    model = build("co-fixed-single", 2, stack=stack)
    if "model" in request.param:
        return model, 5, "input_dim"
    return (model.encoder.blocks[1].attention if request.param == "attention" else model.encoder), 8, "embed_dim"


def deep(module):
    return getattr(module.config, "stack", "paper") == "deep"


def parts(model):
    """The model, its encoder and its last attention, with the widths of their tokens."""
    return (model, 5), (model.encoder, 8), (model.encoder.blocks[-1].attention, 8)


def test_forward_and_steps_need_batch_tokens_and_width(module):
    module, width, name = module
    for shape in ((width,), (2, width), (2, 6, width - 1), (2, 6, width, 1)):
        words = (f"x is {list(shape)}", f"[B, T, {width}]", name)
        refused(lambda shape=shape: module(randn(*shape)), ValueError, *words)
        refused(lambda shape=shape: module.steps(randn(*shape), module.init_state(2)), ValueError, *words)


def test_step_needs_one_token(module):
    module, width, name = module
    for shape in ((width,), (2, width - 1), (2, 2, width), (2, 1, width + 1), (2, 1, 1, width)):
        words = (f"x is {list(shape)}", f"step needs [B, {width}] or [B, 1, {width}]", f"{name}={width}")
        refused(lambda shape=shape: module.step(randn(*shape), module.init_state(2)), ValueError, *words)


def test_at_least_one_row_and_one_token_are_needed(module):
    module, width, _ = module
    for shape, what in (((2, 0, width), "no tokens"), ((0, 6, width), "no rows")):
        words = (f"x is {list(shape)}", what)
        refused(lambda shape=shape: module(randn(*shape)), ValueError, *words)
        refused(lambda shape=shape: module.steps(randn(*shape), module.init_state(2)), ValueError, *words)


def test_x_is_a_tensor(module):
    module, width, _ = module
    for call in (
        module,
        lambda x: module.step(x, module.init_state(2)),
        lambda x: module.steps(x, module.init_state(2)),
    ):
        refused(lambda call=call: call([[0.0] * width]), TypeError, "x is a list", "torch.Tensor")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_x_has_the_dtype_of_the_weights(module, dtype):
    module, width, _ = module
    x, words = torch.ones(2, 6, width, dtype=dtype), (f"x is {dtype}", "float64")
    refused(lambda: module(x), ValueError, *words)
    refused(lambda: module.steps(x, module.init_state(2)), ValueError, *words)
    refused(lambda: module.step(x[:, 0], module.init_state(2)), ValueError, *words)


def test_groups_are_whole(build):
    for module, width in parts(build(update_size=3)):
        words = ("x has 4 tokens", "multiple of update_size=3")
        refused(lambda m=module, w=width: m(randn(2, 4, w)), ValueError, *words)
        refused(lambda m=module, w=width: m.steps(randn(2, 4, w), m.init_state(2)), ValueError, *words)
        words = (f"x is [2, {width}]", f"step needs [B, 3, {width}]", "update_size=3")
        refused(lambda m=module, w=width: m.step(randn(2, w), m.init_state(2)), ValueError, *words)


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_a_sequence_that_is_longer_than_the_window_is_for_steps(build, variant):
    for module, width in parts(build(variant)):
        words = ("x has 7 tokens", "the window is 6", "steps()")
        refused(lambda m=module, w=width: m(randn(2, 7, w)), ValueError, *words)


@pytest.mark.parametrize(
    ("lengths", "error", "words"),
    [
        ([6, 6], TypeError, ("lengths is a list", "torch.Tensor")),
        (torch.tensor([6.0, 6.0]), ValueError, ("lengths is torch.float32 [2]", "int64")),
        (torch.tensor([True, True]), ValueError, ("lengths is torch.bool [2]", "int64")),
        (torch.tensor([6, 6], dtype=torch.uint8), ValueError, ("lengths is torch.uint8 [2]", "int64")),
        (torch.tensor([6]), ValueError, ("lengths is torch.int64 [1]", "[2], one number per row")),
        (torch.tensor([[6], [6]]), ValueError, ("lengths is torch.int64 [2, 1]", "[2], one number per row")),
        (torch.tensor([0, -3]), ValueError, ("lengths[1] is -3", "between 0 and 6")),
        (torch.tensor([9, 6]), ValueError, ("lengths[0] is 9", "between 0 and 6")),
    ],
)
def test_lengths_are_whole_numbers_one_a_row_in_range(module, lengths, error, words):
    module, width, _ = module
    x = randn(2, 6, width)
    refused(lambda: module.steps(x, module.init_state(2), lengths=lengths), error, *words)
    if not deep(module):
        refused(lambda: module(x, lengths=lengths), error, *words)


def test_lengths_are_multiples_of_the_update_size(build):
    for module, width in parts(build(update_size=3)):
        words, lengths = ("lengths[1] is 4", "multiple of update_size=3"), torch.tensor([3, 4])
        refused(lambda m=module, w=width: m(randn(2, 6, w), lengths=lengths), ValueError, *words)  # noqa: B023
        refused(lambda m=module, w=width: m.steps(randn(2, 6, w), m.init_state(2), lengths=lengths), ValueError, *words)  # noqa: B023


def test_forward_with_lengths_needs_the_positions_of_a_full_window(module):
    module, width, _ = module
    words = ("x has 4 positions", "lengths= it must have 6", "pad")
    if deep(module):
        words = ("lengths=", "stack='deep'", "steps(lengths=)")
    refused(lambda: module(randn(2, 4, width), lengths=torch.tensor([4, 4])), ValueError, *words)


def test_resets_are_booleans_one_per_token(module):
    module, width, _ = module
    x = randn(2, 4, width)
    for reset in (torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 3, dtype=torch.bool)):
        words = (f"reset is {reset.dtype} {list(reset.shape)}", "must be bool [2, 4]")
        refused(lambda reset=reset: module.steps(x, module.init_state(2), reset=reset), ValueError, *words)


def test_a_stream_starts_where_a_group_starts(build):
    reset, words = torch.zeros(2, 6, dtype=torch.bool), ("reset[1, 4] is True", "inside a group of update_size=3")
    reset[1, 4] = True
    for module, width in parts(build(update_size=3)):
        refused(lambda m=module, w=width: m.steps(randn(2, 6, w), m.init_state(2), reset=reset), ValueError, *words)


@pytest.mark.parametrize(
    ("offset", "error", "words"),
    [
        (1.5, TypeError, ("offset is a float", "integer or a tensor [B]")),
        (True, TypeError, ("offset is a bool", "integer")),
        (None, TypeError, ("offset is a NoneType", "integer")),
        ([1, 2], TypeError, ("offset is a list", "integer")),
        (torch.tensor([1.0, 2.0]), ValueError, ("offset is torch.float32 [2]", "integers [2]")),
        (torch.tensor([True, False]), ValueError, ("offset is torch.bool [2]", "integers [2]")),
        (torch.tensor([1, 2, 3]), ValueError, ("offset is torch.int64 [3]", "integers [2]")),
        (torch.tensor([[1], [2]]), ValueError, ("offset is torch.int64 [2, 1]", "integers [2]")),
    ],
)
def test_offsets_are_integers(build, offset, error, words):
    model = build()
    refused(lambda: model(randn(2, 6, 5), offset=offset), error, *words)


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, None, True])
def test_a_batch_has_at_least_one_row(module, batch_size):
    words = (f"batch_size={batch_size!r}", "integer from 1 to")
    refused(lambda: module[0].init_state(batch_size), ValueError, *words)


def test_landmarks_must_be_there(build):
    for layers, stack in ((1, "paper"), (2, "paper"), (2, "deep")):
        model = build("co-fixed-single", layers, stack=stack, fit=False)
        words = ("'co-fixed-", "has no landmarks yet", "set_landmarks(q_tilde, k_tilde)")
        refused(lambda m=model: m(randn(2, 6, 5)), RuntimeError, *words)
        refused(lambda m=model: m.step(randn(2, 5), m.init_state(2)), RuntimeError, *words)
        refused(lambda m=model: m.steps(randn(2, 6, 5), m.init_state(2)), RuntimeError, *words)


def test_a_stream_refuses_a_state_of_another_type(model, build):
    for state in (None, (), build("co-cont-single", 3).init_state(2)):
        words = (f"state is a {type(state).__name__}" if not state else "state is a ", "needs a ", "init_state()")
        refused(lambda state=state: model.step(randn(2, 5), state), TypeError, *words)
        refused(lambda state=state: model.steps(randn(2, 6, 5), state), TypeError, *words)


def test_a_stream_refuses_a_state_of_another_batch(module):
    module, width, _ = module
    for rows in (1, 3):
        for call in (
            lambda s: module.step(randn(2, width), s),
            lambda s: module.step(randn(2, width), s, inplace=True),
            lambda s: module.steps(randn(2, 6, width), s),
        ):
            refused(lambda call=call, rows=rows: call(module.init_state(rows)), ValueError, "state.", f"{rows}", "2")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": 8}, ("[2, 8,", "[2, 6,", "another config")),
        ({"embed_dim": 12}, ("another config",)),
        ({"dtype": torch.float32}, ("float32", "float64", "another config")),
    ],
)
@pytest.mark.parametrize("stack", ["paper", "deep"])
def test_a_stream_refuses_a_state_of_another_config(build, stack, options, words):
    model, state = (
        build("co-full-single", 2, stack=stack),
        build("co-full-single", 2, stack=stack, **options).init_state(2),
    )
    refused(lambda: model.step(randn(2, 5), state), ValueError, "state.", *words)
    refused(lambda: model.steps(randn(2, 6, 5), state), ValueError, "state.", *words)


def test_stacks_do_not_take_each_others_states(build):
    paper, deep = build("co-full-single", 2), build("co-full-single", 2, stack="deep")
    refused(lambda: paper.step(randn(2, 5), deep.init_state(2)), TypeError, "CascadeState", "WindowState")
    refused(lambda: deep.step(randn(2, 5), paper.init_state(2)), TypeError, "WindowState", "CascadeState")
    three = build("co-full-single", 3, stack="deep")
    refused(lambda: deep.step(randn(2, 5), three.init_state(2)), ValueError, "state has 3 blocks", "has 2")


def test_a_refused_call_leaves_the_state_as_it_was(model):
    x = randn(2, 8, 5)
    with torch.no_grad():
        _, state = model.steps(x, model.init_state(2))
    kept, token = states.clone(state), x[:, 0]
    for call in (
        lambda: model.step(x, state, inplace=True),
        lambda: model.step(token[:1], state, inplace=True),
        lambda: model.step(token.float(), state, inplace=True),
        lambda: model.step(token[:, :-1], state, inplace=True),
        lambda: model.steps(x[..., :-1], state),
        lambda: model.steps(x, state, lengths=torch.tensor([9, 0])),
        lambda: model.steps(x, state, reset=torch.zeros(2, 1, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match=r"^(x|state|lengths|reset)"):
            call()
    for (_, leaf), (_, before) in zip(states.named_leaves(state), states.named_leaves(kept), strict=True):
        assert torch.equal(leaf, before)


def test_a_later_block_that_refuses_leaves_the_states_before_it_as_they_were(build):
    """In place, the first block would have changed, but not the second."""
    sizes = {"embed_dim": 8, "num_heads": 2}
    one, two = (ns.AttentionConfig("co-full-single", window=n, **sizes) for n in (6, 8))
    model, other = build((one, two), stack="deep"), build((one, one), stack="deep")
    state = other.init_state(2)
    words = ("state.ring_key", "[2, 6, 2, 4]", "[2, 8, 2, 4]")
    refused(lambda: model.step(randn(2, 5), state, inplace=True), ValueError, *words)
    assert state.time.tolist() == [0, 0]


@pytest.mark.parametrize("layer", [2, -1, 0.5, "0", True])
def test_tokens_are_those_of_a_block(build, layer):
    refused(lambda: build().convert(layer=layer), ValueError, f"layer={layer!r}", "0 to ")
    refused(lambda: build().tokens(randn(2, 6, 5), layer), ValueError, f"layer={layer!r}", "0 to ")


@pytest.mark.parametrize("config", ["co-cont-single", None, ns.AttentionConfig("full")])
def test_a_config_of_another_type_is_refused(config):
    refused(lambda: ns.StreamModel(config), TypeError, f"config is a {type(config).__name__}", "a ModelConfig")
    refused(lambda: ns.StreamEncoder(config), TypeError, f"config is a {type(config).__name__}", "an EncoderConfig")


def test_info_goes_with_the_model(build):
    model = build()
    for bad in ({}, "labels", ("a", "b", "c")):
        refused(lambda bad=bad: build(info=bad), TypeError, f"info is a {type(bad).__name__}", "ModelInfo")
    for info, words in (
        (ns.ModelInfo(labels=("a",)), ("info.labels has 1 names", "output_dim is 3")),
        (ns.ModelInfo(inputs=("a", "b", "c")), ("info.inputs has 3 names", "input_dim is 5")),
        (ns.ModelInfo(units=("m", "s")), ("info.units has 2 names", "output_dim is 3")),
    ):
        refused(lambda info=info: build(info=info), ValueError, *words)
        refused(lambda info=info: setattr(model, "info", info), ValueError, *words)
    assert model.info == ns.ModelInfo()
    model.info = ns.ModelInfo(labels=("a", "b", "c"), units="m")
    assert model.info.units == ("m",)


@pytest.mark.parametrize("offset", [2**63 - 1, -(2**63), 10**30, torch.tensor([2**63 - 1, -(2**63)])])
def test_no_offset_is_too_large(model, offset):
    """Positions are circular: an offset is reduced modulo P before anything is added to it."""
    x, around = randn(2, 6, 5), model.config.num_positions
    assert torch.equal(model(x, offset=offset), model(x, offset=offset % around))
    y, _ = model.steps(x, model.init_state(2), offset=offset)
    assert torch.equal(y, model.steps(x, model.init_state(2), offset=offset % around)[0])

"""`convert`: the same weights with another attention, in all blocks or in one."""

import itertools

import pytest
import torch

import nystream as ns
from nystream import testing, variants

TOLERANCE = testing.TOLERANCE[torch.float64]
FIXED = tuple(v for v in ns.VARIANTS if variants.get(v).fixed)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected):
    assert testing.relative_error(actual, expected) <= TOLERANCE


def with_weights_of(model, config):
    """A model made from its config, with the weights of another."""
    other = ns.StreamModel(config, dtype=torch.float64).eval()
    other.load_state_dict(model.state_dict())
    return other


def landmarks(model):
    """Whether each block has landmarks; None for those that need none."""
    attentions = [block.attention for block in model.encoder.blocks]
    return [bool(a.q_tilde.isfinite().all()) if a.config.fixed else None for a in attentions]


def test_without_a_change_it_is_a_copy(build):
    info = ns.ModelInfo(labels=("a", "b", "c"))
    model, x = build(info=info).train(), randn(2, 6, 5)
    model.input_scaler.set(randn(5), randn(5).exp())
    before = model(x)
    other = model.convert()
    assert other.config == model.config
    assert other.info == info
    assert other.training
    assert torch.equal(other(x), before)
    with torch.no_grad():
        for tensor in other.state_dict().values():
            tensor.zero_()
    assert torch.equal(model(x), before)  # nothing is shared
    assert not model.eval().convert().training


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_dtype_stays(build, dtype):
    other = build(dtype=dtype).convert(window=12)
    assert {p.dtype for p in other.parameters()} == {dtype}


@pytest.mark.parametrize("window", [4, 9])
@pytest.mark.parametrize(
    ("variant", "layers", "stack"),
    [
        ("co-fixed-single", 1, "paper"),
        ("co-fixed-single", 3, "paper"),
        ("co-fixed-single", 2, "deep"),
        ("nystrom-fixed", 2, "paper"),
        ("co-full-single", 2, "deep"),
        ("full", 2, "paper"),
    ],
)
@torch.no_grad()
def test_another_window_is_that_of_a_model_made_for_it(build, variant, layers, stack, window):
    model, x = build(variant, layers, stack=stack), randn(2, 30, 5)
    other = model.convert(window=window)
    assert {cfg.window for cfg in other.config.blocks} == {window}
    assert other.config.num_positions == 6  # what was learned stays
    sizes = {"embed_dim": 8, "num_heads": 2, "window": window, "landmarks": 3}
    options = {"layers": layers, "stack": stack, "ff_dim": 12, "num_positions": 6}
    config = ns.ModelConfig(input_dim=5, output_dim=3, attention=ns.AttentionConfig(variant, **sizes), **options)
    made = with_weights_of(model, config)
    assert other.config == made.config
    assert torch.equal(other.steps(x, other.init_state(2))[0], made.steps(x, made.init_state(2))[0])
    assert torch.equal(other(x[:, :4], offset=2), made(x[:, :4], offset=2))
    assert other.receptive_field == made.receptive_field
    close(other.convert(window=6).steps(x, model.init_state(2))[0], model.steps(x, model.init_state(2))[0])


@pytest.mark.parametrize(("before", "after"), list(itertools.product(("co-fixed-single", "nystrom"), ns.VARIANTS)))
@torch.no_grad()
def test_another_variant_is_that_of_a_model_made_for_it(build, before, after):
    model, x = build(before, 2), randn(2, 20, 5)
    other = model.convert(variant=after)
    assert other.config == build(after, 2, fit=False).config
    if after in FIXED and before not in FIXED:  # there are none to copy
        with pytest.raises(RuntimeError, match="has no landmarks yet"):
            other(x[:, :6])
        return
    weights = dict(model.state_dict())
    for name in [name for name in weights if "tilde" in name and after not in FIXED]:
        del weights[name]
    made = ns.StreamModel(other.config, dtype=torch.float64).eval()
    made.load_state_dict(weights)
    assert torch.equal(other.steps(x, other.init_state(2))[0], made.steps(x, made.init_state(2))[0])


def test_one_block_after_another(build):
    model = build("co-cont-single", 3)
    one = model.convert(variant="co-fixed-single", layer=0)
    assert [cfg.variant for cfg in one.config.blocks] == ["co-fixed-retro", "nystrom", "co-cont-single"]
    assert landmarks(one) == [False, None, None]
    one.encoder.blocks[0].attention.set_landmarks(randn(2, 3, 4), randn(2, 3, 4))
    two = one.convert(variant="co-fixed-single", layer=2)
    assert [cfg.variant for cfg in two.config.blocks] == ["co-fixed-retro", "nystrom", "co-fixed-single"]
    assert landmarks(two) == [True, None, False]
    three = two.convert(variant="co-fixed-single", layer=1)
    assert landmarks(three) == [True, False, False]
    assert three.config == build("co-fixed-single", 3).config  # one config again
    assert model.config == build("co-cont-single", 3).config


@torch.no_grad()
def test_blocks_of_a_deep_stack_change_their_windows_one_by_one(build):
    model, x = build("co-fixed-single", 2, stack="deep"), randn(2, 20, 5)
    other = model.convert(window=4, layer=0).convert(window=9, layer=1)
    assert [cfg.window for cfg in other.config.blocks] == [4, 9]
    assert other.receptive_field == 12
    assert other.config.num_positions == 6
    assert landmarks(other) == [True, True]
    testing.check_stream_module(other, tokens=30, gradients=False)
    close(other.convert(window=6)(x), model(x))


def test_another_number_of_landmarks_must_be_fitted(build):
    other = build("co-fixed-single", 2).convert(landmarks=2)
    assert landmarks(other) == [False, False]
    assert build("co-cont-single", 2).convert(landmarks=2)(randn(2, 6, 5)).isfinite().all()


def test_landmarks_that_were_learned_are_kept(build):
    model, x = build("co-fixed-single", 2), randn(2, 6, 5)
    model.encoder.blocks[0].attention.learn_landmarks()
    assert torch.equal(model.convert()(x), model(x))
    assert landmarks(model.convert(window=8)) == [True, True]


def test_a_form_of_sums_that_the_new_variant_lacks_becomes_auto(build):
    other = build("co-fixed-single", 2, sums="partials").convert(variant="full")
    assert {cfg.sums for cfg in other.config.blocks} == {"auto"}


@pytest.mark.parametrize(
    ("variant", "stack", "options", "error", "words"),
    [
        ("co-cont-single", "paper", {"window": 8}, ValueError, ("window=8", "'co-cont-single'", "window=6")),
        ("nystrom", "paper", {"window": 8}, ValueError, ("window=8", "'nystrom'", "only fixed landmarks")),
        ("co-fixed-single", "paper", {"window": 8, "variant": "nystrom"}, ValueError, ("window=8", "'nystrom'")),
        ("co-fixed-single", "paper", {"window": 8, "layer": 0}, ValueError, ("windows of 6, 8", "stack='deep'")),
        ("co-fixed-single", "paper", {"window": 2}, ValueError, ("landmarks=3", "window=2")),
        ("co-fixed-single", "paper", {"window": 0}, ValueError, ("window=0", "at least 1")),
        ("co-fixed-single", "paper", {"window": 6.5}, TypeError, ("window=6.5", "integer")),
        ("co-fixed-single", "paper", {"landmarks": 7}, ValueError, ("landmarks=7", "window=6")),
        ("co-fixed-single", "paper", {"variant": "co-fixd"}, ValueError, ("variant='co-fixd'", *ns.VARIANTS)),
        ("co-fixed-single", "deep", {"variant": "full"}, ValueError, ("'full'", "stack='deep'", "-single")),
        ("co-fixed-single", "deep", {"variant": "co-full-retro"}, ValueError, ("'co-full-retro'", "stack='deep'")),
        ("co-fixed-single", "paper", {"layer": 2}, ValueError, ("layer=2", "2 blocks, 0 to 1")),
        ("co-fixed-single", "paper", {"layer": -1}, ValueError, ("layer=-1", "0 to 1")),
        ("co-fixed-single", "paper", {"layer": 0.5, "window": 8}, ValueError, ("layer=0.5", "0 to 1")),
        ("co-fixed-single", "paper", {"layer": "1"}, ValueError, ("layer='1'", "0 to 1")),
        ("full", "paper", {"variant": "nystrom", "landmarks": None}, ValueError, ("landmarks=None", "'nystrom'")),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(build, variant, stack, options, error, words):
    model, x = build(variant, 2, stack=stack, landmarks=None if "landmarks=None" in words else 3), randn(2, 6, 5)
    before = model(x)
    with pytest.raises(error) as caught:
        model.convert(**options)
    for word in words:
        assert word in str(caught.value)
    assert torch.equal(model(x), before)


PATH = ns.LinearConfig(segments=(1, 1, 2), inputs=2)


def test_a_linear_path_stays(build):
    model = build("co-cont-single", linear=PATH)
    torch.nn.init.normal_(model.linear.weight)
    full = model.convert(variant="co-full-single")
    assert full.config.linear == model.config.linear
    assert torch.equal(full.linear.weight, model.linear.weight)
    assert full.convert(window=9).config.window == 9
    with pytest.raises(ValueError, match="linear reads 4 tokens, more than window=3"):
        full.convert(window=3)

"""The configs of stacks and models: validation, fingerprint and JSON."""

import copy
import dataclasses
import json
import pickle

import pytest

import nystream as ns
from nystream import variants


def config(variant="co-cont-single", **options):
    return ns.AttentionConfig(variant, **{"embed_dim": 8, "num_heads": 2, "window": 12, "landmarks": 4, **options})


def encoder(**options):
    return ns.EncoderConfig(**{"attention": config(), "layers": 2, **options})


def model(**options):
    return ns.ModelConfig(**{"attention": config(), "layers": 2, "input_dim": 5, "output_dim": 3, **options})


MAKERS = pytest.mark.parametrize("make", [encoder, model])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"attention": None}, TypeError, ("attention is a NoneType", "AttentionConfig")),
        ({"attention": "full"}, TypeError, ("attention is a str", "AttentionConfig")),
        ({"attention": {}}, TypeError, ("attention is a dict", "AttentionConfig")),
        ({"attention": (config(), "full")}, TypeError, ("attention is a str", "one per block")),
        ({"attention": ()}, ValueError, ("attention has 0 configs", "layers=2", "one per block")),
        ({"attention": (config(),) * 3}, ValueError, ("attention has 3 configs", "layers=2", "one per block")),
        (
            {"attention": (config(), config(embed_dim=16))},
            ValueError,
            ("attention has blocks with embed_dim 8, 16", "the same"),
        ),
        (
            {"attention": (config(), config(update_size=2))},
            ValueError,
            ("attention has blocks with update_size 1, 2", "the same"),
        ),
        (
            {"attention": (config(), config(window=24)), "stack": "paper"},
            ValueError,
            ("windows of 12, 24", "stack='paper'", "'deep'"),
        ),
        ({"layers": 0}, ValueError, ("layers=0", "at least 1")),
        ({"layers": 2.0}, TypeError, ("layers=2.0", "integer")),
        ({"layers": True}, TypeError, ("layers=True", "integer")),
        ({"ff_dim": 0}, ValueError, ("ff_dim=0", "at least 1")),
        ({"ff_dim": 1.5}, TypeError, ("ff_dim=1.5", "integer")),
        ({"stack": "wide"}, ValueError, ("stack='wide'", "auto, paper, deep")),
        ({"norm": "both"}, ValueError, ("norm='both'", "pre, post")),
        ({"norm": None}, ValueError, ("norm=None", "pre, post")),
        ({"activation": "swish"}, ValueError, ("activation='swish'", "gelu, relu")),
        ({"dropout": 1.0}, ValueError, ("dropout=1.0", "at least 0 and less than 1")),
        ({"dropout": -0.1}, ValueError, ("dropout=-0.1", "at least 0 and less than 1")),
        ({"dropout": float("nan")}, ValueError, ("dropout=nan", "at least 0 and less than 1")),
        ({"dropout": "0.1"}, TypeError, ("dropout='0.1'", "number", "str")),
        ({"final_norm": 1}, TypeError, ("final_norm=1", "True or False")),
        ({"norm_eps": 0}, ValueError, ("norm_eps=0", "greater than 0")),
        ({"norm_eps": float("nan")}, ValueError, ("norm_eps=nan", "greater than 0")),
        ({"norm_eps": float("inf")}, ValueError, ("norm_eps=inf", "finite")),
        ({"norm_eps": None}, TypeError, ("norm_eps=None", "number")),
        ({"input_dim": 0}, ValueError, ("input_dim=0", "at least 1")),
        ({"input_dim": None}, TypeError, ("input_dim=None", "integer")),
        ({"output_dim": -1}, ValueError, ("output_dim=-1", "at least 1")),
        ({"output_dim": 2.5}, TypeError, ("output_dim=2.5", "integer")),
        ({"positions": "rotary"}, ValueError, ("positions='rotary'", "learned, sinusoidal, none")),
        ({"num_positions": 0}, ValueError, ("num_positions=0", "at least 1")),
        ({"num_positions": "12"}, TypeError, ("num_positions='12'", "integer")),
        ({"num_positions": 10**18}, ValueError, ("num_positions=1000000000000000000", "at most 2147483647")),
        ({"input_dim": 2**31}, ValueError, ("input_dim=2147483648", "at most 2147483647")),
        ({"output_dim": 2**31}, ValueError, ("output_dim=2147483648", "at most 2147483647")),
        ({"ff_dim": 10**30}, ValueError, ("ff_dim=1000000000000000000000000000000", "at most 2147483647")),
        ({"layers": 10**18}, ValueError, ("layers=1000000000000000000", "at most 10000")),
        ({"linear": 3}, TypeError, ("linear is a int", "LinearConfig")),
        ({"linear": ns.LinearConfig(segments=2, inputs=6)}, ValueError, ("linear.inputs=6", "input_dim=5")),
        ({"linear": ns.LinearConfig(segments=13), "stack": "paper"}, ValueError, ("13 tokens", "window=12", "'deep'")),
        (
            {"linear": ns.LinearConfig(segments=2, embedded=True), "stack": "paper"},
            ValueError,
            ("linear.embedded=True", "stack='deep'"),
        ),
        (
            {"linear": ns.LinearConfig(), "attention": config(update_size=2)},
            ValueError,
            ("linear=", "update_size=2", "one token at a time"),
        ),
        (
            {"linear": ns.LinearConfig(segments=(1,) * 2**16), "input_dim": 2**16, "stack": "deep"},
            ValueError,
            ("features of linear", "at most 2147483647"),
        ),
    ],
)
def test_a_model_names_what_it_refuses(options, error, words):
    with pytest.raises(error) as caught:
        model(**options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_every_block_of_a_deep_stack_returns_its_newest_row(variant):
    if variants.get(variant).single:
        assert [cfg.variant for cfg in model(attention=config(variant), stack="deep").blocks] == [variant] * 2
    else:
        with pytest.raises(ValueError, match=f"variant '{variant}' cannot be used in stack='deep'.*-single"):
            model(attention=config(variant), stack="deep")
        with pytest.raises(ValueError, match=f"variant '{variant}' cannot be used in stack='deep'"):
            model(attention=(config("co-full-single"), config(variant)), stack="deep")


@pytest.mark.parametrize("given", ["single", "retro"])
@pytest.mark.parametrize(
    ("family", "plain"), [("co-full", "full"), ("co-cont", "nystrom"), ("co-fixed", "nystrom-fixed")]
)
def test_the_roles_of_the_papers_stack(family, plain, given):
    for layers, expected in (
        (1, [f"{family}-single"]),
        (2, [f"{family}-retro", f"{family}-single"]),
        (4, [f"{family}-retro", plain, plain, f"{family}-single"]),
    ):
        cfg = model(attention=config(f"{family}-{given}"), layers=layers, stack="paper")
        assert [block.variant for block in cfg.blocks] == expected


@pytest.mark.parametrize("variant", ["full", "nystrom", "nystrom-fixed"])
def test_plain_blocks_stay_what_they_are(variant):
    cfg = encoder(attention=config(variant), layers=3)
    assert [block.variant for block in cfg.blocks] == [variant] * 3
    assert not cfg.single
    assert model(attention=config(variant)).single


def test_families_mix():
    cfg = model(attention=[config("co-cont-single"), config("co-full-retro"), config("co-fixed-retro")], layers=None)
    assert [block.variant for block in cfg.blocks] == ["co-cont-retro", "full", "co-fixed-single"]


def test_a_form_of_sums_goes_where_it_exists():
    cfg = model(attention=config("co-fixed-single", sums="partials"), layers=3, stack="paper")
    assert [block.sums for block in cfg.blocks] == ["partials", "auto", "partials"]


def test_what_is_not_told():
    cfg = model(attention=config(), layers=None)
    assert cfg.layers == 1
    assert cfg.ff_dim == 4 * cfg.embed_dim == 32
    assert cfg.num_positions == cfg.window == 12
    assert (cfg.norm, cfg.activation, cfg.dropout, cfg.final_norm) == ("pre", "gelu", 0.0, True)
    assert model(attention=[config()] * 3, layers=None).layers == 3


SINGLE = [variant for variant in ns.VARIANTS if variants.get(variant).single]
MIXED = [config("co-cont-single"), config("co-fixed-single", window=24)]


@MAKERS
@pytest.mark.parametrize(
    ("attention", "layers", "stack"),
    [
        *((config(variant), 1, "paper") for variant in ns.VARIANTS),
        *((config(variant), 3, "deep" if variant in SINGLE else "paper") for variant in ns.VARIANTS),
        ([config(), config("co-full-single")], None, "deep"),
        (MIXED, 2, "deep"),  # each with its own window
        ([config(decay=True, variant="co-full-single"), config()], 2, "deep"),
        ([config("co-fixed-retro"), config("nystrom-fixed"), config("co-fixed-single")], 3, "paper"),
        ([config()], None, "paper"),
    ],
)
def test_the_stack_is_chosen_when_a_config_is_made(make, attention, layers, stack):
    cfg = make(attention=attention, layers=layers)
    assert cfg.stack == cfg.to_dict()["stack"] == stack
    named = make(attention=attention, layers=layers, stack=stack)
    assert cfg == named
    assert hash(cfg) == hash(named)
    assert cfg.fingerprint == named.fingerprint
    assert repr(cfg) == repr(named)
    assert pickle.loads(pickle.dumps(cfg)) == copy.deepcopy(cfg) == named
    assert type(cfg).from_dict(json.loads(json.dumps(cfg.to_dict()))) == named
    assert make(attention=attention, layers=layers, stack="auto") == named


def test_a_stack_that_was_chosen_stays():
    one, paper = model(layers=1), model(stack="paper")
    assert model(layers=1, stack="deep").stack == "deep"
    assert ns.ModelConfig.from_dict(paper.to_dict()) == paper
    assert ns.ModelConfig.from_dict(paper.to_dict()).stack == dataclasses.replace(paper, layers=3).stack == "paper"
    assert dataclasses.replace(one, layers=2).stack == "paper"
    assert dataclasses.replace(one, layers=2, stack="auto").stack == "deep"
    assert paper.encoder.stack == "paper"
    assert model().encoder.stack == "deep"


def test_the_fingerprint_of_a_model_without_a_path_is_that_of_version_0_1():
    assert "linear" not in model().to_dict()
    assert model(stack="paper").fingerprint == "fa606dead91919d6053d68c77613133ce47106a946df450fd7b331862f4095f6"


@pytest.mark.parametrize(
    ("linear", "same"),
    [
        (ns.LinearConfig(segments=3), ns.LinearConfig(segments=[1, 1, 1])),
        (ns.LinearConfig(segments=3), ns.LinearConfig(segments=(1, 1, 1), inputs=5)),
        (ns.LinearConfig(), ns.LinearConfig(inputs=2)),
        (ns.LinearConfig(segments=[1, 4]), ns.LinearConfig(segments=(1, 4))),
        (ns.LinearConfig(embedded=True), ns.LinearConfig(segments=1, embedded=True)),
    ],
)
def test_equal_paths_are_stored_equally(linear, same):
    one, other = model(linear=linear), model(linear=same)
    assert one == other
    assert hash(one) == hash(other)
    assert one.fingerprint == other.fingerprint
    again = ns.ModelConfig.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one
    assert again.fingerprint == one.fingerprint


@pytest.mark.parametrize(
    ("linear", "field"),
    [
        (ns.LinearConfig(), 23),
        (ns.LinearConfig(segments=40), 40),
        (ns.LinearConfig(segments=(1, 4), embedded=True), 27),
    ],
)
def test_the_receptive_field_of_a_path(linear, field):
    made = model(attention=config("co-fixed-single"), stack="deep", linear=linear)
    assert made.receptive_field == field
    assert made.encoder.receptive_field == 23


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"attention": config("co-full-single"), "layers": 1}, 12),
        ({"attention": config("co-full-single"), "layers": 4, "stack": "paper"}, 12),
        ({"attention": config("co-cont-single"), "layers": 1}, 14),
        # only the first block's landmarks lag
        ({"attention": config("co-cont-single"), "layers": 3, "stack": "paper"}, 14),
        ({"attention": [config("co-fixed-single"), config("co-cont-single")], "stack": "paper"}, 12),
        ({"attention": config("full"), "layers": 3}, 12),
        ({"attention": config("co-fixed-single"), "layers": 1, "stack": "deep"}, 12),
        ({"attention": config("co-fixed-single"), "layers": 3, "stack": "deep"}, 34),
        ({"attention": [config("co-full-single"), config("co-full-single", window=20)], "stack": "deep"}, 31),
    ],
)
def test_the_receptive_field_of_a_stack(options, field):
    assert model(**options).receptive_field == field
    assert model(**options).encoder.receptive_field == field


DEEP = [
    config("co-cont-single"),
    config("co-full-single", window=24, landmarks=None),
    config("co-fixed-single", pinv="ridge"),
]


@MAKERS
@pytest.mark.parametrize(
    "options", [{}, {"attention": DEEP, "layers": 3, "stack": "deep", "norm_eps": 1e-6, "ff_dim": 7}]
)
def test_a_config_goes_through_json(make, options):
    cfg = make(**options)
    again = type(cfg).from_dict(json.loads(json.dumps(cfg.to_dict())))
    assert again == cfg
    assert again.fingerprint == cfg.fingerprint
    assert hash(again) == hash(cfg)
    assert again.blocks == cfg.blocks


def test_the_encoder_of_a_model_has_its_fields():
    assert model(norm="post", dropout=0.2).encoder == encoder(norm="post", dropout=0.2)
    assert type(model().encoder) is ns.EncoderConfig


CHANGED = {
    "attention": config(window=24),
    "layers": 3,
    "ff_dim": 33,
    "stack": "paper",
    "norm": "post",
    "activation": "relu",
    "dropout": 0.1,
    "final_norm": False,
    "norm_eps": 1e-6,
    "input_dim": 6,
    "output_dim": 4,
    "positions": "none",
    "num_positions": 13,
    "linear": ns.LinearConfig(),
}


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ns.ModelConfig)])
def test_the_fingerprint_of_a_model_covers_every_field(field):
    one = model()
    other = dataclasses.replace(one, **{field: CHANGED[field]})
    assert other.fingerprint != one.fingerprint
    assert dataclasses.replace(other, **{field: getattr(one, field)}).fingerprint == one.fingerprint


def test_what_is_told_and_what_is_not_are_one_config():
    told = model(ff_dim=32, num_positions=12, dropout=0, norm_eps=1e-5)
    assert told == model()
    assert told.fingerprint == model().fingerprint
    assert model(attention=[config()] * 2) == model(attention=(config(), config()))


def test_a_stack_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        model().layers = 3
    with pytest.raises(TypeError, match="positional"):
        ns.ModelConfig(5, 3, config())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: None, ("config is None", "Config")),
        (lambda w: [w], ("config is [", "Config")),
        (lambda w: {**w, "rotary": 1, "bias": 2}, ("config has unknown fields", "bias, rotary", "newer version")),
        (lambda w: {**w, "attention": {**w["attention"], "k": 1}}, ("config.attention has unknown fields", "k;")),
        (lambda w: {**w, "attention": [w["attention"], 3]}, ("config.attention[1] is 3", "AttentionConfig")),
        (lambda w: {**w, "attention": None}, ("config.attention is None", "AttentionConfig")),
        (lambda w: {k: v for k, v in w.items() if k != "attention"}, ("config.attention is None",)),
        (lambda w: {**w, "layers": "two"}, ("layers='two'", "integer")),
        (lambda w: {**w, "linear": 3}, ("config.linear is 3", "LinearConfig")),
        (lambda w: {**w, "linear": {"lags": 3}}, ("config.linear has unknown fields", "lags")),
        (lambda w: {**w, "stack": "wide"}, ("stack='wide'", "paper, deep")),
    ],
)
def test_what_was_written_by_another_version_is_refused(change, words):
    cfg = model()
    with pytest.raises(ValueError, match=r"config|stack") as caught:
        type(cfg).from_dict(change(cfg.to_dict()))
    for word in words:
        assert word in str(caught.value)


def test_a_model_that_lacks_a_width_is_refused():
    with pytest.raises(ValueError, match="input_dim"):
        ns.ModelConfig.from_dict({"attention": config().to_dict(), "output_dim": 3})

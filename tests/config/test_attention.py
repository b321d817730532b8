"""The config of one attention: validation, fingerprint and derived properties."""

import dataclasses
import json

import pytest

import nystream as ns
from nystream import variants

LOW_RANK = tuple(v for v in ns.VARIANTS if variants.get(v).low_rank)
PAPER = {"full", "nystrom", "nystrom-fixed"} | {
    f"co-{family}-{rows}" for family in ("full", "cont", "fixed") for rows in ("single", "retro")
}


def config(variant="co-cont-single", **options):
    return ns.AttentionConfig(variant, **{"embed_dim": 8, "num_heads": 2, "window": 12, "landmarks": 4, **options})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"variant": "nystroem"}, ValueError, ("variant='nystroem'", *ns.VARIANTS, "; did you mean nystrom?")),
        ({"variant": "co-fixd"}, ValueError, ("variant='co-fixd'", *ns.VARIANTS, "; did you mean co-fixed?")),
        ({"variant": None}, ValueError, ("variant=None", *ns.VARIANTS)),
        ({"embed_dim": 9}, ValueError, ("embed_dim=9", "multiple of num_heads=2")),
        ({"landmarks": None}, ValueError, ("landmarks=None", "'co-cont-single'", "1 <= landmarks <= window")),
        ({"landmarks": 0}, ValueError, ("landmarks=0", "at least 1")),
        ({"landmarks": 13}, ValueError, ("landmarks=13", "window=12")),
        ({"landmarks": 2.0}, TypeError, ("landmarks=2.0", "integer", "float")),
        ({"update_size": 5}, ValueError, ("window=12", "multiple of update_size=5")),
        ({"pinv": "newtno"}, ValueError, ("pinv='newtno'", "; did you mean newton?")),
        ({"pinv": "svd"}, ValueError, ("pinv='svd'", "newton", "exact", "ridge", "none")),
        ({"pinv_ridge": 0.0}, ValueError, ("pinv_ridge=0.0", "greater than 0")),
        ({"pinv_ridge": -0.1}, ValueError, ("pinv_ridge=-0.1", "greater than 0")),
        ({"pinv_ridge": float("nan")}, ValueError, ("pinv_ridge=nan", "greater than 0")),
        ({"pinv_ridge": float("inf")}, ValueError, ("pinv_ridge=inf", "finite")),
        ({"pinv": "ridge", "pinv_ridge": 9e-6}, ValueError, ("pinv_ridge=9e-06", "1e-05 to 100000", "pinv='exact'")),
        ({"pinv": "ridge", "pinv_ridge": 1e200}, ValueError, ("pinv_ridge=1e+200", "1e-05 to 100000")),
        ({"pinv_ridge": "0.1"}, TypeError, ("pinv_ridge='0.1'", "number", "str")),
        ({"pinv_iters": 1001}, ValueError, ("pinv_iters=1001", "at most 1000")),
        ({"sums": "add"}, ValueError, ("sums='add'", "'co-cont-single'", "auto, partials, recompute, subtract")),
        ({"dropout": 0.1}, ValueError, ("dropout=0.1", "'co-cont-single'", "dropout=0.0")),
        ({"dropout": 1.0}, ValueError, ("dropout=1.0", "at least 0 and less than 1")),
        ({"dropout": -0.5}, ValueError, ("dropout=-0.5", "at least 0 and less than 1")),
        ({"dropout": float("nan")}, ValueError, ("dropout=nan", "at least 0 and less than 1")),
        ({"dropout": None}, TypeError, ("dropout=None", "number", "NoneType")),
    ],
)
def test_a_refusal_names_the_argument_what_came_and_what_is_needed(options, error, words):
    with pytest.raises(error) as caught:
        config(**options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("family", ["co-full", "co-cont", "co-fixed"])
def test_a_family_is_read_as_its_single_variant(family):
    single = config(f"{family}-single")
    for cfg in (config(family), dataclasses.replace(config(), variant=family)):
        assert (cfg.variant, cfg.record, cfg.fingerprint) == (f"{family}-single", single.record, single.fingerprint)
        assert cfg == single
    model = ns.ModelConfig.from_dict(
        {"input_dim": 1, "output_dim": 1, "attention": {"variant": family, "landmarks": 4}}
    )
    assert model.blocks[0].variant == f"{family}-single"


@pytest.mark.parametrize("name", ["embed_dim", "num_heads", "window", "update_size", "pinv_iters"])
@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)])
def test_sizes_are_positive_integers(name, value, error):
    with pytest.raises(error, match=rf"^{name}={value} must be (at least 1|an integer)"):
        config(**{name: value})


@pytest.mark.parametrize("name", ["embed_dim", "num_heads", "window", "update_size"])
@pytest.mark.parametrize("value", [2**31, 10**18, 10**30])
def test_sizes_that_no_library_can_count_are_refused_before_anything_is_built(name, value):
    with pytest.raises(ValueError, match=rf"^{name}={value} must be at most 2147483647$"):
        config(**{name: value})


def test_the_largest_window_is_a_config():
    assert config(window=2**31 - 1).window == 2**31 - 1


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_every_variant_has_its_own_forms_of_the_window(variant):
    forms = variants.get(variant).forms
    for sums in ("auto", "partials", "recompute", "subtract"):
        if sums in forms:
            assert config(variant, sums=sums).sums == sums
        else:
            with pytest.raises(ValueError, match=f"sums='{sums}' is not supported by variant '{variant}'; .*auto"):
                config(variant, sums=sums)


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_dropout_is_for_variants_that_form_the_weights(variant):
    if "dropout" not in variants.get(variant).options:
        with pytest.raises(ValueError, match=f"is not supported by variant '{variant}'"):
            config(variant, dropout=0.1)
    else:
        assert config(variant, dropout=0.1).dropout == 0.1


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_only_low_rank_variants_need_landmarks(variant):
    if variant in LOW_RANK:
        with pytest.raises(ValueError, match="landmarks=None"):
            config(variant, landmarks=None)
        assert config(variant, landmarks=12).m == 12
    else:
        assert config(variant, landmarks=None).landmarks is None


def test_a_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config().window = 24


OTHER = {
    "variant": "co-cont-retro",
    "embed_dim": 16,
    "num_heads": 4,
    "window": 24,
    "landmarks": 3,
    "pinv": "ridge",
    "pinv_iters": 5,
    "pinv_ridge": 0.2,
    "update_size": 2,
    "sums": "partials",
    "bias": False,
    "dropout": 0.1,
    "decay": True,
}


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ns.AttentionConfig)])
def test_the_fingerprint_covers_every_field(field):
    one = config("co-full-single") if field == "dropout" else config()
    other = dataclasses.replace(one, **{field: OTHER[field]})
    assert other.fingerprint != one.fingerprint
    assert dataclasses.replace(other, **{field: getattr(one, field)}).fingerprint == one.fingerprint


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ns.AttentionConfig)])
def test_the_fingerprint_of_a_model_covers_every_field_of_its_attention(field):
    one = config("co-full-single") if field == "dropout" else config()
    other = dataclasses.replace(one, **{field: OTHER[field]})
    model = {"input_dim": 5, "output_dim": 3, "num_positions": 12, "ff_dim": 32}
    model["layers"] = 1 if field == "decay" else 2
    assert ns.ModelConfig(attention=one, **model).fingerprint != ns.ModelConfig(attention=other, **model).fingerprint


def test_the_fingerprint_goes_through_json():
    cfg = config(pinv_ridge=0.3)
    assert ns.AttentionConfig(**json.loads(json.dumps(cfg.to_dict()))).fingerprint == cfg.fingerprint


@pytest.mark.parametrize("same", [{"dropout": 0}, {"pinv_ridge": 1}])
def test_equal_configs_have_equal_fingerprints(same):
    one, other = config(**same), config(**{name: float(value) for name, value in same.items()})
    assert one == other
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({}, "recompute"),
        ({"window": 127}, "recompute"),
        ({"window": 128}, "partials"),
        ({"window": 128, "update_size": 64}, "partials"),
        ({"window": 128, "update_size": 128}, "recompute"),  # one group: there is nothing to slide
        ({"sums": "partials"}, "partials"),
        ({"sums": "partials", "update_size": 12}, "recompute"),
        ({"sums": "recompute", "window": 512}, "recompute"),
        ({"sums": "subtract"}, "subtract"),
        ({"variant": "full", "window": 512}, "recompute"),
        ({"variant": "co-full-single", "window": 512}, "recompute"),
        ({"variant": "nystrom", "window": 512}, "recompute"),
        ({"variant": "co-full-retro", "window": 512}, "auto"),
        ({"variant": "co-full-retro", "sums": "recompute"}, "recompute"),
    ],
)
def test_the_form_that_sums_stands_for(options, form):
    assert config(**options).form == form


@pytest.mark.parametrize("variant", ns.VARIANTS)
@pytest.mark.parametrize(("window", "landmarks", "lag"), [(12, 4, 2), (12, 5, 2), (7, 7, 0), (7, 1, 6)])
def test_the_receptive_field_counts_tokens_that_live_on_in_landmarks(variant, window, landmarks, lag):
    cfg = config(variant, window=window, landmarks=landmarks)
    assert cfg.receptive_field == window + (lag if variant.startswith("co-cont") else 0)
    assert ns.MultiheadAttention(cfg, device="meta").receptive_field == cfg.receptive_field


def test_what_follows_from_the_variant():
    assert {v for v in PAPER if config(v).single} == {"co-full-single", "co-cont-single", "co-fixed-single"}
    assert {v for v in PAPER if config(v).fixed} == {"nystrom-fixed", "co-fixed-single", "co-fixed-retro"}
    assert {v for v in PAPER if not config(v).low_rank} == {"full", "co-full-single", "co-full-retro"}
    for variant in ns.VARIANTS:
        assert config(variant, update_size=3).rows == (3 if config(variant).single else 12)


def test_every_head_has_the_same_width_and_scale():
    cfg = config(embed_dim=32, num_heads=2)
    assert cfg.head_dim == 16
    assert cfg.scale == 0.25

"""Two phases, and the result of each."""

import dataclasses
import json
from contextlib import contextmanager

import pytest
import torch

import nystream as ns
from nystream.train import Classification, Forecasting, TrainConfig, evaluate, fix_landmarks, train_two_phase

CONFIG = TrainConfig(epochs=6, batch_size=8, lr=1e-2)


@pytest.mark.parametrize(("variant", "fixed"), [("co-cont-single", "co-fixed-single"), ("nystrom", "nystrom-fixed")])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_fixed_model_comes_out(tiny, windows, variant, fixed, layers):
    model, train, valid = tiny(variant, layers=layers), windows(64), windows(24, 1)
    new = train_two_phase(model, train, valid, task=Classification(), config=CONFIG)
    assert new.config.attention.variant == fixed
    assert model.config.attention.variant == variant
    assert new.config.layers == layers
    for block in new.encoder.blocks:
        assert block.attention.config.fixed
        assert not any(name.endswith("tilde") for name, _ in block.named_parameters())
    assert evaluate(new, valid, Classification())["accuracy"] > 0.8


def test_landmarks_are_the_centres_of_phase_ones_tokens(tiny, windows):
    model, train = tiny("co-cont-single"), windows(64)
    frozen = TrainConfig(epochs=1, lr=0.0)
    new = train_two_phase(model, train, None, task=Classification(), config=CONFIG, fine_tune=frozen)
    again = model.convert(variant="co-fixed-single")
    ns.fit_landmarks(again, train.batches(16), layer=0, seed=0)
    ours, theirs = (m.encoder.blocks[0].attention for m in (new, again))
    assert torch.equal(ours.q_tilde, theirs.q_tilde)
    assert torch.equal(ours.k_tilde, theirs.k_tilde)


@pytest.mark.parametrize("stack", ["paper", "deep"])
def test_all_blocks_at_once(tiny, windows, stack):
    model = tiny("co-cont-single", layers=2, stack=stack)
    train = windows(64, tokens=8 if stack == "paper" else 12)
    frozen = TrainConfig(epochs=1, lr=0.0)
    new = fix_landmarks(model, train, task=Classification(), config=frozen, at_once=True)
    again = model
    for layer in range(2):  # the landmarks of block 1, on the outputs of block 0 with fixed landmarks
        again = again.convert(variant="co-fixed-single", layer=layer)
        ns.fit_landmarks(again, train.batches(frozen.batch_size), layer=layer, seed=0)
    for ours, theirs in zip(new.encoder.blocks, again.encoder.blocks, strict=True):
        assert torch.equal(ours.attention.q_tilde, theirs.attention.q_tilde)
        assert torch.equal(ours.attention.k_tilde, theirs.attention.k_tilde)


def test_at_once_resumes_and_is_another_recipe(tiny, windows, tmp_path, killed):
    from nystream.train.single import Single

    options = {"task": Classification(), "config": TrainConfig(epochs=2, batch_size=8), "tensorboard": False}

    def train(folder, **more):
        model = tiny("co-cont-single", layers=2)
        return train_two_phase(model, windows(24), windows(24, 1), folder=folder, **options, **more)

    whole = train(None, at_once=True)
    with killed(Single, 8):  # in phase two: each phase has six updates
        train(tmp_path, at_once=True)
    again = train(tmp_path, at_once=True)
    for (name, a), b in zip(again.state_dict().items(), whole.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phase-1", "phase-2"]
    # By default, phase two is as long as phase one, with the same learning rate.
    lines = [json.loads(line) for line in (tmp_path / "phase-2" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    with pytest.raises(ValueError, match="at_once is True there and None here"):
        train(tmp_path)


def test_landmarks_stay_or_are_learned(tiny, windows, monkeypatch):
    import nystream.train.recipe as module

    found = []
    fit = module.fit_landmarks_together

    def remembered(models, *args, **options):
        reports = fit(models, *args, **options)
        found.append(models[0].encoder.blocks[reports[0].layer].attention.q_tilde.detach().clone())
        return reports

    monkeypatch.setattr(module, "fit_landmarks_together", remembered)
    for learn in (False, True):
        found.clear()
        new = train_two_phase(
            tiny("co-cont-single", layers=2), windows(64), task=Classification(), config=CONFIG, learn_landmarks=learn
        )
        for block, start in zip(new.encoder.blocks, found, strict=True):
            assert torch.equal(block.attention.q_tilde, start) == (not learn)


def test_many_at_once_are_as_one(tiny, windows):
    train, valid = windows(64), windows(24, 1)
    train, valid = (type(d)(d.x.double(), d.y) for d in (train, valid))
    many = train_two_phase(
        [tiny("co-cont-single", seed=i).double() for i in range(2)],
        train,
        valid,
        task=Classification(),
        config=CONFIG,
        seeds=[3, 5],
    )
    for i, model in enumerate(many):
        config = dataclasses.replace(CONFIG, seed=3 + 2 * i)
        alone = train_two_phase(
            tiny("co-cont-single", seed=i).double(), train, valid, task=Classification(), config=config
        )
        for (name, a), b in zip(model.state_dict().items(), alone.state_dict().values(), strict=True):
            # Clustering runs in float32: centres differ by its rounding where the weights differ by float64's.
            assert torch.allclose(a, b, atol=1e-4), name


def test_it_goes_on_where_it_was(tiny, windows, tmp_path, monkeypatch):
    import nystream.train.recipe as module

    options = {"task": Classification(), "config": CONFIG, "tensorboard": False}
    whole = train_two_phase(tiny("co-cont-single", layers=2), windows(64), windows(24, 1), **options)
    fit = module.fit_landmarks_together

    def dies(model, batches, tokens, layer, *args, **rest):
        if layer == 1:
            raise KeyboardInterrupt
        return fit(model, batches, tokens, layer, *args, **rest)

    monkeypatch.setattr(module, "fit_landmarks_together", dies)
    with pytest.raises(KeyboardInterrupt):
        train_two_phase(tiny("co-cont-single", layers=2), windows(64), windows(24, 1), folder=tmp_path, **options)
    monkeypatch.setattr(module, "fit_landmarks_together", fit)
    again = train_two_phase(
        tiny("co-cont-single", seed=5, layers=2), windows(64), windows(24, 1), folder=tmp_path, **options
    )
    for (name, a), b in zip(again.state_dict().items(), whole.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phase-1", "phase-2-block-0", "phase-2-block-1"]


def test_the_folder_is_locked_from_the_first_phase_to_the_last(tiny, windows, tmp_path, monkeypatch):
    import nystream.train.two_phase as module

    locked, released = [], []

    @contextmanager
    def alone_in(folder):
        locked.append(folder)
        yield
        released.append(sorted(path.name for path in tmp_path.iterdir()))

    monkeypatch.setattr(module, "alone_in", alone_in)
    train_two_phase(
        tiny("co-cont-single"), windows(20), task=Classification(), config=TrainConfig(epochs=1), folder=tmp_path
    )
    assert locked == [tmp_path]
    assert released == [["phase-1", "phase-2-block-0"]]


def test_a_folder_of_other_options_is_refused(tiny, windows, tmp_path):
    options = {"task": Classification(), "config": TrainConfig(epochs=1), "folder": tmp_path}
    train_two_phase(tiny("co-cont-single"), windows(20), windows(10, 1), **options)
    with pytest.raises(ValueError, match=r"contains a different run: .*learn_landmarks is False there and True here"):
        train_two_phase(tiny("co-cont-single"), windows(20), windows(10, 1), learn_landmarks=True, **options)


@pytest.mark.parametrize("update_size", [2, 3])
def test_groups_that_arrive_together(tiny, streams, update_size):
    model = tiny("co-cont-single", window=6, update_size=update_size)
    fixed = train_two_phase(model, streams(2, tokens=61), task=Forecasting(), config=TrainConfig(epochs=1))
    assert fixed.config.attention.variant == "co-fixed-single"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "xy"}, "method='xy' is not known"),
        ({"tokens": 1}, "tokens=1 is less than the m=2 landmarks"),
        ({"seeds": [1]}, "seeds= is for several models"),
        ({"fine_tune": TrainConfig(patience=2)}, "patience=2 needs validation data"),
    ],
)
def test_what_phase_two_would_refuse_is_refused_first(tiny, windows, options, message):
    model = tiny("co-cont-single")
    before = model.head.weight.clone()
    with pytest.raises(ValueError, match=message):
        train_two_phase(model, windows(20), task=Classification(), **options)
    assert torch.equal(model.head.weight, before)


def test_what_is_frozen_stays(tiny, windows):
    model = tiny("co-cont-single")
    model.input_proj.requires_grad_(False)
    before = model.input_proj.weight.clone()
    fixed = train_two_phase(model, windows(40), task=Classification(), config=TrainConfig(epochs=1, lr=1e-2))
    assert torch.equal(fixed.input_proj.weight, before)
    assert not fixed.input_proj.weight.requires_grad


def test_full_attention_gets_as_many_landmarks_as_are_asked_for(tiny, windows):
    options = {"task": Classification(), "config": TrainConfig(epochs=1)}
    fixed = train_two_phase(tiny("co-full-single", layers=2), windows(20), landmarks=2, at_once=True, **options)
    assert [cfg.landmarks for cfg in fixed.config.blocks] == [2, 2]
    assert all(cfg.fixed for cfg in fixed.config.blocks)
    with pytest.raises(ValueError, match="landmarks=None, but 'co-full-single' has no landmarks"):
        train_two_phase(tiny("co-full-single", landmarks=None), windows(20), **options)
    with pytest.raises(ValueError, match=r"window=\d+ is less than the m=99 landmarks"):
        train_two_phase(tiny("co-full-single"), windows(20), landmarks=99, **options)


def test_fixed_landmarks_cannot_be_fixed_again(tiny, windows):
    options = {"task": Classification(), "config": TrainConfig(epochs=1)}
    fixed = train_two_phase(tiny("co-cont-single"), windows(20), **options)
    with pytest.raises(ValueError, match="'co-fixed-single', but phase one trains continual landmarks or full"):
        train_two_phase(fixed, windows(20), **options)


@pytest.mark.parametrize("run", [train_two_phase, fix_landmarks])
def test_no_models(windows, run):
    with pytest.raises(ValueError, match="model is an empty list"):
        run([], windows(20), task=Classification())
